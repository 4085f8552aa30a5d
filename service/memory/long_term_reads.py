"""What can be asked of long-term memory: searches, what stood around a hit, whole run loops."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

import anyio.to_thread

from service.domain.anchors import (
    AnchorRef,
    ExpandedContext,
    ExpandedWindow,
    RememberedFact,
    SearchResult,
    Segment,
    SegmentType,
)
from service.domain.errors import InvalidInputError, RondoError
from service.domain.run_loops import RunLoop
from service.memory.ledger.protocol import Ledger
from service.memory.protocol import LiveRunLoops, NearSegment, SearchFilters, Unit, Vectors
from service.memory.rerankers.protocol import Reranker
from service.memory.search.candidates import SearchScope
from service.memory.search.expansion import as_context, expand_many
from service.memory.search.searching import Search, Searcher
from service.memory.search.windows import Reach
from service.memory.vectors.index_worker import IndexWorker

_log = logging.getLogger(__name__)

_EVERYTHING = SearchFilters()


class LongTermReads:
    """The reading half of `LongTermMemory`: a `RecallReader` over a ledger and its vectors."""

    def __init__(
        self,
        ledger: Ledger,
        index: IndexWorker,
        *,
        live: LiveRunLoops | None,
        reranker: Reranker | None,
        clock: Callable[[], datetime],
    ) -> None:
        self._ledger = ledger
        self._live = live
        self.notes = ledger.notes
        """The notes of all owners. Its methods block."""
        self.gives_notes = False
        """Whether searches give notes beside their hits: only where they are still written."""
        self.catching_up: tuple[int, int] | None = None
        """While finished run loops are brought in from the journal: how many are, and of how many.
        Set by who brings them."""
        self._index = index
        self._dense = index.dense
        self._searcher = Searcher(
            ledger,
            index.dense,
            waiting=index.queue.count_pending if index.dense else lambda owner: 0,
            reranker=reranker,
            clock=clock,
        )

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
            return (await anyio.to_thread.run_sync(dense.embed_queries, texts)).vectors
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
        search = Search(
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
        result = await anyio.to_thread.run_sync(self._searcher.search, search)
        self._index.after_search()
        if catching_up:
            notice = " ".join(filter(None, (result.notice, catching_up)))
            result = result.model_copy(update={"notice": notice})
        return await self._with_notes(result, query, owner, filters or _EVERYTHING)

    @property
    def catching_up_words(self) -> str | None:
        """What a person is told while finished run loops are still being brought in."""
        if self.catching_up is None:
            return None
        done, lagging = self.catching_up
        return f"Memory is being brought in from the journal: {done} of {lagging} run loops."

    async def _with_notes(
        self, result: SearchResult, query: str, owner: str, filters: SearchFilters
    ) -> SearchResult:
        """What was found, and the notes on what was asked; a search that is narrowed gives none."""
        if not self.gives_notes or not self.notes.may_be_there():
            return result
        if replace(filters, without_run_loop_id=None) != _EVERYTHING:
            return result
        notes = await anyio.to_thread.run_sync(lambda: self.notes.search(query, owner=owner))
        return result.model_copy(update={"notes": tuple(notes)}) if notes else result

    async def nearest(
        self, vectors: Vectors, *, owner: str, types: frozenset[SegmentType], limit: int
    ) -> list[NearSegment]:
        """See `RecallReader.nearest`.

        Raises:
            StorageError: the ledger or the index cannot be read.
        """
        scope = SearchScope(owner, SearchFilters(types=types), limit)
        return await anyio.to_thread.run_sync(self._searcher.nearest, vectors, scope)

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
        windows = await expand_many(
            self._ledger,
            self._live,
            refs,
            owner=owner,
            reach=Reach(before, after, unit),
            max_tokens=max_tokens,
        )
        return await anyio.to_thread.run_sync(self._with_corrections, windows, owner)

    def _with_corrections(self, windows: list[ExpandedWindow], owner: str) -> list[ExpandedWindow]:
        contents = {each.anchor.ref: each.content for w in windows for each in w.segments}
        superseding = self._ledger.facts.superseding(contents, owner=owner)
        if not superseding:
            return windows

        def marked(pieces: Sequence[Segment]) -> tuple[Segment, ...]:
            return tuple(
                piece.model_copy(update={"superseded_by": fact.anchor})
                if (fact := superseding.get(piece.anchor.ref)) is not None
                else piece
                for piece in pieces
            )

        return [
            window.model_copy(
                update={"focus": marked(window.focus), "segments": marked(window.segments)}
            )
            for window in windows
        ]

    async def facts(self, *, owner: str) -> list[RememberedFact]:
        """See `MemoryReader.facts`.

        Raises:
            StorageError: the ledger cannot be read.
        """
        return await anyio.to_thread.run_sync(self._ledger.facts.of, owner)

    async def segments(self, refs: Sequence[AnchorRef], *, owner: str) -> list[Segment]:
        """The segments at these anchors, in their order; those that are not there are left out.

        Raises:
            StorageError: the ledger cannot be read.
        """
        there = await anyio.to_thread.run_sync(lambda: self._ledger.segments.at(refs, owner=owner))
        return [there[ref] for ref in refs if ref in there]

    async def sample(
        self, count: int, *, owner: str, types: Collection[SegmentType], seed: int
    ) -> list[Segment]:
        """Segments of some types, drawn by a seed: as many as are asked for, or all there are.

        Raises:
            StorageError: the ledger cannot be read.
        """

        def drawn() -> list[Segment]:
            reader = self._ledger.segments
            numbers = sorted(reader.passing(owner, SearchFilters(types=frozenset(types))).first(-1))
            chosen = random.Random(seed).sample(numbers, min(count, len(numbers)))
            return list(reader.numbered(chosen, owner=owner).values())

        return await anyio.to_thread.run_sync(drawn)

    async def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        """See `MemoryReader.run_loop`.

        Raises:
            StorageError: the ledger cannot be read.
        """
        return await anyio.to_thread.run_sync(
            lambda: self._ledger.run_loop(run_loop_id, owner=owner)
        )


def _check_bounds(**bounds: int | None) -> None:
    for name, bound in bounds.items():
        if bound is not None and bound < 1:
            raise InvalidInputError(f"{name} is {bound}", advice=f"Give {name} as 1 or more.")
