"""Which engines stand behind memory's protocols: the one place where they are chosen and made.

SQLite holds the journal and the ledger, Chroma the vector index. Whoever uses memory knows the
protocols alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from service.config import MemorySettings
from service.memory.journal.appends import Forgotten
from service.memory.journal.protocol import Journal
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger, count_run_loops
from service.memory.long_term import LongTermMemory
from service.memory.protocol import Embedder, LiveRunLoops
from service.memory.rerankers.protocol import Reranker
from service.memory.tracing import trace
from service.memory.vectors.chroma.chroma_places import chroma_places
from service.memory.vectors.index_worker import IndexWorker
from service.storage.clock import local_now

JOURNAL_FILE = "journal.sqlite3"
LEDGER_FILE = "memory.sqlite3"
_INDEX_FOLDER = "chroma"


def journal_of(folder: Path, forgotten: Forgotten | None = None) -> Journal:
    """The journal of a data folder, which this process must own; nothing is opened yet.

    Args:
        folder: where it is.
        forgotten: knows what was forgotten by whoever is about to write it once more.
    """
    return SqliteJournal(folder / JOURNAL_FILE, forgotten, trace=trace)


def long_term_memory(
    folder: Path,
    embedder: Embedder | None,
    *,
    chroma: MemorySettings | None = None,
    reranker: Reranker | None = None,
    clock: Callable[[], datetime] = local_now,
    live: LiveRunLoops | None = None,
) -> LongTermMemory:
    """The long-term memory of a data folder, which this process must own; nothing is opened yet.

    Args:
        folder: where its ledger is, and the index where that is embedded.
        embedder: finds by meaning; None: search goes by words alone.
        chroma: where the vector index is; None: embedded.
        reranker: who may be asked to put hits into another order.
        clock: the moment, in the person's time zone, by which "yesterday" is understood.
        live: asked for words that are newer than the ledger; None: there are none.
    """
    ledger = SqliteLedger(folder / LEDGER_FILE)
    places = chroma_places(
        chroma or MemorySettings(), folder / _INDEX_FOLDER, ledger.embedding.generations.instance
    )
    index = IndexWorker(ledger.embedding, embedder, places)
    return LongTermMemory(ledger, index, embedder, reranker=reranker, clock=clock, live=live)


def remembered_run_loops(folder: Path) -> int:
    """How many run loops the ledger of a data folder holds, of whatever version; 0 where it cannot
    be read. Blocks."""
    return count_run_loops(folder / LEDGER_FILE)
