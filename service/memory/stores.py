"""Which engines stand behind memory's protocols: the one place where they are chosen and made.

SQLite holds the journal and the ledger, Chroma the vector index. Whoever uses memory knows the
protocols alone. What can be told of a data folder's stores while a daemon may be at work is read
from outside: nothing is opened for writing, and no store need be of this version.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from service.config import MemorySettings
from service.domain.errors import StorageError
from service.memory.journal.appends import Forgotten
from service.memory.journal.protocol import Journal
from service.memory.journal.sqlite import change_table, journal_form
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.ledger.protocol import Ledger
from service.memory.ledger.sqlite import pending_table
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger, count_run_loops
from service.memory.long_term import LongTermMemory
from service.memory.protocol import Embedder, LiveRunLoops
from service.memory.rerankers.protocol import Reranker
from service.memory.tracing import trace
from service.memory.vectors.chroma.chroma_places import chroma_places
from service.memory.vectors.index_worker import IndexWorker
from service.storage.clock import local_now
from service.storage.sqlite_file import looking_into

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


def ledger_of(folder: Path) -> Ledger:
    """The ledger of a data folder; it is not opened yet."""
    return SqliteLedger(folder / LEDGER_FILE)


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
    ledger = ledger_of(folder)
    places = chroma_places(
        chroma or MemorySettings(), folder / _INDEX_FOLDER, ledger.embedding.generations.instance
    )
    index = IndexWorker(ledger.embedding, embedder, places)
    return LongTermMemory(ledger, index, embedder, reranker=reranker, clock=clock, live=live)


def remembered_run_loops(folder: Path) -> int:
    """How many run loops the ledger of a data folder holds, of whatever version; 0 where it cannot
    be read. Blocks."""
    return count_run_loops(folder / LEDGER_FILE)


STORES = (JOURNAL_FILE, LEDGER_FILE)
"""Their names in the folder; the first is the truth of which all else is made."""


class ReaderLag(NamedTuple):
    """How far long-term memory is behind the journal."""

    changes: int
    """Those that it has not read."""
    since: float | None
    """When the oldest of them was made, in seconds since the epoch."""
    waiting: int
    """Run loops that are listed and could be archived."""
    problem: str | None
    """Why one of them was not."""


def damage_of(folder: Path, store: str) -> str | None:
    """What is wrong with a store, in words; None where every page of it is whole. Blocks."""
    try:
        with looking_into(folder / store) as db:
            rows = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    except StorageError as error:
        return error.detail
    words = " ".join(" ".join(rows).split())
    return None if words == "ok" else words[:200]


def journal_copies(folder: Path) -> list[Path]:
    """The copies that were kept of the journal as it was before its form changed."""
    return journal_form.copies(folder / JOURNAL_FILE)


def reader_lag(folder: Path) -> ReaderLag | None:
    """How far long-term memory is behind; None before there is anything. Blocks.

    Raises:
        StorageError: it cannot be read.
    """
    journal, ledger = folder / JOURNAL_FILE, folder / LEDGER_FILE
    if not (journal.exists() and ledger.exists()):
        return None
    with looking_into(ledger) as db:
        place, pending = pending_table.looked_into(db)
    with looking_into(journal) as db:
        changes, oldest, at_work = change_table.looked_into(db, after=place)
    waiting = [problem for run_loop_id, problem in pending if run_loop_id not in at_work]
    return ReaderLag(
        changes,
        None if oldest is None else oldest / 1000,
        len(waiting),
        next(filter(None, waiting), None),
    )
