"""Long-term memory: archive run loops, find their segments, show what stood around them.

Three parts behind one face. The ledger (SQLite) is opened at the start and always there. The dense
side (embedder and Chroma) takes seconds to load, may be missing, and may fail; then words alone
search, and the result says so. `embed_pending` carries segments from the one to the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import anyio
import anyio.to_thread

from service.config import MemorySettings
from service.domain.anchors import (
    AnchorRef,
    ExpandedContext,
    ExpandedWindow,
    SearchResult,
    Segment,
    SegmentType,
)
from service.domain.errors import InvalidInputError, Problem, RondoError
from service.domain.run_loops import RunLoop
from service.memory.embedders.query_cache import QueryCache
from service.memory.journal.outline import Outline
from service.memory.ledger import terms
from service.memory.ledger.ledger import Ledger
from service.memory.ledger.removal import Gone
from service.memory.protocol import (
    Embedder,
    LiveRunLoops,
    MemoryStats,
    NearSegment,
    SearchFilters,
    Unit,
    Vectors,
)
from service.memory.rerankers.protocol import Reranker
from service.memory.search.candidates import Wanted
from service.memory.search.expansion import as_context, expand_many
from service.memory.search.searching import Search, Searcher
from service.memory.search.windows import Reach
from service.memory.vectors.index_worker import EmbeddingProgress, IndexWorker
from service.storage.clock import local_now

_log = logging.getLogger(__name__)

_EVERYTHING = SearchFilters()


class LongTermMemory:
    """A `RecallReader` over a folder, and the writing half beside it.

    `start` first, `aclose` last. `warm_up` may take seconds and is for a background task; nothing
    waits for it. All blocking work runs in worker threads.
    """

    def __init__(
        self,
        folder: Path,
        embedder: Embedder | None,
        *,
        chroma: MemorySettings | None = None,
        reranker: Reranker | None = None,
        clock: Callable[[], datetime] = local_now,
        live: LiveRunLoops | None = None,
    ) -> None:
        """Name the parts; nothing is opened yet.

        Args:
            folder: holds ``memory.sqlite3`` and the folder ``chroma``; this process must own it.
            embedder: None for search by words only.
            chroma: where the vector index is; None: embedded.
            reranker: who may be asked to put hits into another order.
            clock: the moment, in the person's time zone, by which "yesterday" is understood.
            live: asked for words that are newer than the ledger; None: there are none.
        """
        self._folder = folder
        self._embedder = embedder
        self._ledger = Ledger(folder / "memory.sqlite3")
        self._live = live
        self.pending = self._ledger.pending
        """How far the journal's change feed was read. Its methods block."""
        self.notes = self._ledger.notes
        """The notes of all owners. Its methods block."""
        self.gives_notes = False
        """Whether searches give notes beside their hits: only where they are still written."""
        self.catching_up: tuple[int, int] | None = None
        """While finished run loops are brought in from the journal: how many are, and of how many.
        Set by who brings them."""
        self.index = IndexWorker(
            self._ledger.embedding,
            embedder,
            folder=folder / "chroma",
            chroma=chroma or MemorySettings(),
        )
        """The vector index: what can be asked of it, and what it does in the background."""
        self._dense = self.index.dense
        self._searcher = Searcher(
            self._ledger,
            self._dense,
            waiting=self.index.queue.count_pending if self._dense else lambda owner: 0,
            reranker=reranker,
            clock=clock,
        )

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
        return await anyio.to_thread.run_sync(self._ledger.archive_many, run_loops)

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
        return await anyio.to_thread.run_sync(self._ledger.scrub_file)

    def holding_all(self, owner: str, terms: Iterable[str]) -> list[Segment]:
        """See `Ledger.holding_all`. Blocks."""
        return self._ledger.holding_all(owner, terms)

    async def lacking(self, run_loop_ids: Sequence[str]) -> list[str]:
        """Which of these run loops are not remembered as finished.

        Raises:
            StorageError: the ledger cannot be read.
        """
        known = await anyio.to_thread.run_sync(self._ledger.finished, run_loop_ids)
        return [run_loop_id for run_loop_id in run_loop_ids if run_loop_id not in known]

    async def knows(self, run_loop_id: str, *, owner: str) -> bool:
        """Whether a run loop is remembered, in whatever state.

        Raises:
            StorageError: the ledger cannot be read.
        """
        return await anyio.to_thread.run_sync(lambda: self._ledger.knows(run_loop_id, owner=owner))

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
            known = self._ledger.outlines()
            return [each for each in finished if known.get(each.key) != each]

        return await anyio.to_thread.run_sync(compared)

    async def embed_pending(self) -> EmbeddingProgress:
        """Give every segment its vector, in small batches; loads the embedder if need be.

        Stops at the first failure and raises nothing. See `IndexWorker.work`.
        """
        return await self.index.work()

    @property
    def embedder_identity(self) -> str | None:
        """See `Embedder.identity`; None while there is none to use."""
        return self._dense.identity if self._dense else None

    async def embed_queries(self, texts: Sequence[str]) -> Vectors | None:
        """Vectors of questions by memory's own embedder; None while there is none to use."""
        dense = self._dense
        if dense is None or dense.identity is None:
            return None
        try:
            return await anyio.to_thread.run_sync(dense.embed_queries, texts)
        except RondoError as error:
            _log.warning("queries are not embedded: %s", error.problem().in_words())
            return None

    async def search(
        self,
        query: str,
        *,
        owner: str,
        limit: int = 8,
        max_tokens: int | None = None,
        filters: SearchFilters | None = None,
        explain: bool = False,
        rerank: bool = False,
        fold: bool = True,
        words: bool = True,
        asked_in: str | None = None,
    ) -> SearchResult:
        """See `MemoryReader.search`. Hits that no longer fit `max_tokens` are left out whole.

        The best hit is always given. Tokens are estimates.

        Args:
            query: in any words and any language.
            owner: whose memory.
            limit: at most so many hits.
            max_tokens: bound of all hits together.
            filters: what may be found; None: anything.
            explain: whether each hit tells the parts of its score.
            rerank: whether the reranker, if one is configured, has the last word.
            fold: whether pieces that say the same word for word are one hit, which names the others
                as its duplicates.
            words: False: by vectors alone, to measure what they are worth.
            asked_in: the open run loop in which it is asked: what is done of it is found as well.

        Raises:
            InvalidInputError: the query is blank, or a bound is below 1.
            StorageError: the ledger cannot be read.
        """
        if not query.strip():
            raise InvalidInputError("the query is empty", advice="Say what to look for.")
        _check_bounds(limit=limit, max_tokens=max_tokens)
        wanted = Search(
            query,
            owner,
            limit=limit,
            max_tokens=max_tokens,
            filters=filters or _EVERYTHING,
            explain=explain,
            rerank=rerank,
            fold=fold,
            words=words,
        )
        if asked_in is not None and self._live is not None:
            await self._live.remember_now(asked_in)
        catching_up = self.catching_up_words
        found = await anyio.to_thread.run_sync(self._searcher.search, wanted)
        self.index.after_search()
        if catching_up:
            notice = " ".join(filter(None, (found.notice, catching_up)))
            found = found.model_copy(update={"notice": notice})
        return await self._with_notes(found, query, owner, filters or _EVERYTHING)

    @property
    def catching_up_words(self) -> str | None:
        """What a person is told while finished run loops are still being brought in."""
        if self.catching_up is None:
            return None
        done, lagging = self.catching_up
        return f"Memory is being brought in from the journal: {done} of {lagging} run loops."

    async def _with_notes(
        self, found: SearchResult, query: str, owner: str, filters: SearchFilters
    ) -> SearchResult:
        """What was found, and the notes on what was asked; a search that is narrowed gives none."""
        if not self.gives_notes or not self.notes.may_be_there():
            return found
        if replace(filters, without_run_loop_id=None) != _EVERYTHING:
            return found
        notes = await anyio.to_thread.run_sync(lambda: self.notes.search(query, owner=owner))
        return found.model_copy(update={"notes": tuple(notes)}) if notes else found

    async def nearest(
        self, vectors: Vectors, *, owner: str, types: frozenset[SegmentType], limit: int
    ) -> list[NearSegment]:
        """See `RecallReader.nearest`.

        Raises:
            StorageError: the ledger or the index cannot be read.
        """
        wanted = Wanted(owner, SearchFilters(types=types), limit)
        return await anyio.to_thread.run_sync(self._searcher.nearest, vectors, wanted)

    async def expand(
        self,
        ref: AnchorRef,
        *,
        owner: str,
        before: int = 3,
        after: int = 3,
        unit: Unit = "segments",
        max_tokens: int | None = None,
    ) -> ExpandedContext:
        """See `MemoryReader.expand`. The focus is always given. Tokens are estimates.

        Raises:
            NotFoundError: this owner has no such segment.
            InvalidInputError: a bound is negative.
            StorageError: the ledger cannot be read.
        """
        (window,) = await self.expand_many(
            [ref], owner=owner, before=before, after=after, unit=unit, max_tokens=max_tokens
        )
        return as_context(window)

    async def expand_many(
        self,
        refs: Sequence[AnchorRef],
        *,
        owner: str,
        before: int = 3,
        after: int = 3,
        unit: Unit = "segments",
        max_tokens: int | None = None,
    ) -> list[ExpandedWindow]:
        """See `MemoryReader.expand_many`. What was asked for is always given. Tokens are estimates.

        Raises:
            NotFoundError: this owner has no such segment.
            InvalidInputError: no anchor is given, or a bound is negative.
            StorageError: the ledger cannot be read.
        """
        _check_bounds(max_tokens=max_tokens)
        if before < 0 or after < 0:
            raise InvalidInputError(
                f"before and after count {unit}", advice="Give 0 or more for each."
            )
        if not refs:
            raise InvalidInputError("no anchor is given", advice="Give at least one.")
        return await expand_many(
            self._ledger,
            self._live,
            refs,
            owner=owner,
            reach=Reach(before, after, unit),
            max_tokens=max_tokens,
        )

    async def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        """See `MemoryReader.run_loop`.

        Raises:
            StorageError: the ledger cannot be read.
        """
        return await anyio.to_thread.run_sync(
            lambda: self._ledger.run_loop(run_loop_id, owner=owner)
        )

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


def _check_bounds(**bounds: int | None) -> None:
    for name, bound in bounds.items():
        if bound is not None and bound < 1:
            raise InvalidInputError(f"{name} is {bound}", advice=f"Give {name} as 1 or more.")
