"""Long-term memory: archive run loops, find their segments, show what stood around them.

Three parts behind one face. The ledger (SQLite) is opened at the start and always there. The dense
side (embedder and Chroma) takes seconds to load, may be missing, and may fail; then words alone
search, and the result says so. `embed_pending` carries segments from the one to the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import anyio
import anyio.to_thread

from service.domain.anchors import (
    Segment,
)
from service.domain.errors import Problem
from service.domain.run_loops import RunLoop
from service.memory.embedders.query_cache import QueryCache
from service.memory.journal.event_reader import Outline
from service.memory.ledger import terms
from service.memory.ledger.protocol import Gone, Ledger
from service.memory.long_term_reads import LongTermReads
from service.memory.protocol import (
    Embedder,
    LiveRunLoops,
    MemoryStats,
    SearchFilters,
)
from service.memory.rerankers.protocol import Reranker
from service.memory.vectors.index_worker import EmbeddingProgress, IndexWorker
from service.storage.clock import local_now

_log = logging.getLogger(__name__)

_EVERYTHING = SearchFilters()


class LongTermMemory(LongTermReads):
    """A `RecallReader` over a folder, and the writing half beside it.

    `start` first, `aclose` last. `warm_up` may take seconds and is for a background task; nothing
    waits for it. All blocking work runs in worker threads.
    """

    def __init__(
        self,
        ledger: Ledger,
        index: IndexWorker,
        embedder: Embedder | None,
        *,
        reranker: Reranker | None = None,
        clock: Callable[[], datetime] = local_now,
        live: LiveRunLoops | None = None,
    ) -> None:
        """Name the parts; nothing is opened yet.

        Args:
            ledger: what is remembered; this process must own it.
            index: the vectors of that, and where they are found.
            embedder: whose vectors these are; None for search by words only.
            reranker: who may be asked to put hits into another order.
            clock: the moment, in the person's time zone, by which "yesterday" is understood.
            live: asked for words that are newer than the ledger; None: there are none.
        """
        self._embedder = embedder
        self.pending = ledger.pending
        """How far the journal's change feed was read. Its methods block."""
        self.index = index
        """The vector index: what can be asked of it, and what it does in the background."""
        super().__init__(ledger, index, live=live, reranker=reranker, clock=clock)

    async def start(self) -> None:
        """Open the ledger. Fast: does not wait for the embedder or Chroma.

        Raises:
            StorageError: the folder cannot be written, or the ledger is damaged.
        """
        await anyio.to_thread.run_sync(self._ledger.open)

    async def aclose(self) -> None:
        """Close everything, after the work that is under way."""
        await self.index.aclose()
        await anyio.to_thread.run_sync(self._searcher.close)
        await anyio.to_thread.run_sync(self._ledger.close)

    async def warm_up(self) -> Problem | None:
        """Load the embedder and the vector index in a worker thread.

        Returns:
            Why they cannot be used, if so; `stats` tells it too, and search goes by words.
        """
        return await self.index.load()

    async def archive(self, run_loop: RunLoop) -> int:
        """Remember a run loop as it is now; needs no embedder and no language model.

        Archiving the same loop again changes nothing; a loop that has grown gets what is new.

        Returns:
            How many segments are new or changed.

        Raises:
            StorageError: the disk refuses; nothing was written.
            InvalidInputError: the loop's text is not valid Unicode.
        """
        return await anyio.to_thread.run_sync(self._ledger.archive, run_loop)

    async def archive_many(self, run_loops: Sequence[RunLoop]) -> int:
        """Remember run loops, each id at most once, in one transaction. See `archive`.

        Raises:
            StorageError: the disk refuses; nothing was written.
            InvalidInputError: the text of one is not valid Unicode; nothing was written.
        """
        return await anyio.to_thread.run_sync(lambda: self._ledger.archive(*run_loops))

    async def forget(
        self, owner: str, run_loop_ids: Sequence[str], changed: Sequence[RunLoop]
    ) -> Gone:
        """Let nothing be left of some run loops, nor of what others (`changed`) held before.

        Wakes the index, which drops their vectors, and is built anew from those that stay.

        Raises:
            StorageError: the disk refuses; nothing was removed.
        """
        gone = await anyio.to_thread.run_sync(self._ledger.forget, owner, run_loop_ids, changed)
        self.clear()
        self.index.wake()
        return gone

    def clear(self) -> None:
        """Keep no words in the process's memory that are only there to be faster."""
        if isinstance(self._embedder, QueryCache):
            self._embedder.clear()
        terms.clear_cache()

    async def scrub_file(self) -> bool:
        """Write the ledger anew, without what was deleted; whether its log could be emptied, too.

        Raises:
            StorageError: the disk refuses; nothing is lost.
        """
        return await anyio.to_thread.run_sync(self._ledger.scrub)

    def holding_all(self, owner: str, terms: Iterable[str]) -> list[Segment]:
        """An owner's newest segments, a hundred at most, that hold all of some terms. Blocks.

        Raises:
            StorageError: the ledger cannot be read.
        """
        numbers = self._ledger.words.holding_all(terms, owner=owner)
        pieces = self._ledger.segments.numbered(numbers, owner=owner)
        return [pieces[each] for each in numbers if each in pieces]

    async def lacking(self, run_loop_ids: Sequence[str]) -> list[str]:
        """Which of these run loops are not remembered as finished.

        Raises:
            StorageError: the ledger cannot be read.
        """
        finished = await anyio.to_thread.run_sync(self._ledger.finished, run_loop_ids)
        return [run_loop_id for run_loop_id in run_loop_ids if run_loop_id not in finished]

    async def knows(self, run_loop_id: str, *, owner: str) -> bool:
        """Whether a run loop is remembered, in whatever state.

        Raises:
            StorageError: the ledger cannot be read.
        """
        summary = await anyio.to_thread.run_sync(
            lambda: self._ledger.summary(run_loop_id, owner=owner)
        )
        return summary is not None

    async def outlines(self) -> dict[tuple[str, str], Outline]:
        """How far all remembered run loops have come, by owner and id.

        Raises:
            StorageError: the ledger cannot be read.
        """
        return await anyio.to_thread.run_sync(self._ledger.outlines)

    async def outdated(self, finished: Iterable[Outline]) -> list[Outline]:
        """Which of these finished run loops are not remembered just so.

        Raises:
            StorageError: the ledger cannot be read.
        """

        def compared() -> list[Outline]:
            remembered = self._ledger.outlines()
            return [each for each in finished if remembered.get(each.key) != each]

        return await anyio.to_thread.run_sync(compared)

    async def embed_pending(self) -> EmbeddingProgress:
        """Give every segment its vector, in small batches; loads the embedder if need be.

        Stops at the first failure and raises nothing. See `IndexWorker.work`.
        """
        return await self.index.work()

    async def stats(self) -> MemoryStats:
        """How much is remembered, of all owners.

        Raises:
            StorageError: the ledger cannot be read.
        """
        run_loops, segments = await anyio.to_thread.run_sync(self._ledger.count)
        index = await anyio.to_thread.run_sync(self.index.stats)
        problem = self.index.problem
        return MemoryStats(
            run_loops=run_loops,
            segments=segments,
            embedded=index.indexed if self._dense else 0,
            pending=segments - index.indexed if self._dense else 0,
            embedder=self._dense.identity if self._dense else None,
            problem=problem.in_words() if problem else None,
            notice=self.catching_up_words,
            index=index,
        )
