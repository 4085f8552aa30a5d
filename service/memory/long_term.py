"""Long-term memory: archive run loops, find their segments, show what stood around them.

Three parts behind one face. The ledger (SQLite) is opened at the start and always there. The dense
side (embedder and Chroma) takes seconds to load, may be missing, and may fail; then words alone
search, and the result says so. `embed_pending` carries segments from the one to the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from service.domain.anchors import AnchorRef, ExpandedContext, SearchResult
from service.domain.errors import InvalidInputError, Problem, RondoError
from service.domain.run_loops import RunLoop
from service.memory.dense import DenseSide
from service.memory.embedding import EmbeddingQueue
from service.memory.expansion import expand
from service.memory.ledger import Ledger
from service.memory.protocol import (
    Embedder,
    MemoryStats,
    SearchFilters,
    VectorIndex,
    Vectors,
)
from service.memory.searching import Searcher
from service.memory.vectors import ChromaIndex

_log = logging.getLogger(__name__)

_EVERYTHING = SearchFilters()


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """What one go of `LongTermMemory.embed_pending` came to."""

    embedded: int
    """Segments that got their vector."""
    problem: Problem | None = None
    """Why it stopped before all had theirs."""


class LongTermMemory:
    """A `MemoryReader` over a folder, and the writing half beside it.

    `start` first, `aclose` last. `warm_up` may take seconds and is for a background task; nothing
    waits for it. All blocking work runs in worker threads.
    """

    def __init__(
        self,
        folder: Path,
        embedder: Embedder | None,
        *,
        open_index: Callable[[Path, str], VectorIndex] | None = None,
    ) -> None:
        """Name the parts; nothing is opened yet.

        Args:
            folder: holds ``memory.sqlite3`` and the folder ``chroma``; this process must own it.
            embedder: None for search by words only.
            open_index: opens another vector index, given its folder and the embedder's identity.
        """
        opener = open_index or (lambda path, identity: ChromaIndex(path, identity=identity))
        self._folder = folder
        self._ledger = Ledger(folder / "memory.sqlite3")
        self._dense = (
            DenseSide(embedder, lambda identity: opener(folder / "chroma", identity))
            if embedder
            else None
        )
        self._queue = EmbeddingQueue(self._ledger.embedding, self._dense) if self._dense else None
        self._embedding = anyio.Lock()
        self._problem: Problem | None = None
        self._searcher = Searcher(
            self._ledger, self._dense, self._queue, why_not=lambda: self._problem
        )

    async def start(self) -> None:
        """Open the ledger. Fast: does not wait for the embedder or Chroma.

        Raises:
            StorageError: the folder cannot be written, or the ledger is damaged.
        """
        await anyio.to_thread.run_sync(self._ledger.open)

    async def aclose(self) -> None:
        """Close everything, after the work that is under way."""
        async with self._embedding:
            if self._dense is not None:
                await anyio.to_thread.run_sync(self._dense.close)
            await anyio.to_thread.run_sync(self._ledger.close)

    async def warm_up(self) -> Problem | None:
        """Load the embedder and the vector index in a worker thread.

        Returns:
            Why they cannot be used, if so; `stats` tells it too, and search goes by words.
        """
        if self._queue is None:
            return None
        async with self._embedding:
            try:
                await anyio.to_thread.run_sync(self._queue.load)
            except Exception as error:  # noqa: BLE001  the reason is kept, told and logged
                self._problem = _problem(error)
            else:
                self._problem = None
            return self._problem

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

    async def lacking(self, run_loop_ids: Iterable[str]) -> list[str]:
        """Which of these finished run loops are not remembered as finished.

        Raises:
            StorageError: the ledger cannot be read.
        """
        known = await anyio.to_thread.run_sync(self._ledger.finished)
        return [run_loop_id for run_loop_id in run_loop_ids if run_loop_id not in known]

    async def embed_pending(self) -> EmbeddingProgress:
        """Give every segment its vector, in small batches; loads the embedder if need be.

        Stops at the first failure and raises nothing. A segment is marked done only once the index
        has its vector, so that the next call, after a crash too, goes on where this one stopped.
        """
        if self._queue is None:
            return EmbeddingProgress(0)
        async with self._embedding:
            before = self._queue.embedded
            try:
                await anyio.to_thread.run_sync(self._queue.load)
                while await anyio.to_thread.run_sync(self._queue.embed_batch):
                    pass
            except Exception as error:  # noqa: BLE001  the reason is kept, told and logged
                self._problem = _problem(error)
            else:
                self._problem = None
            return EmbeddingProgress(self._queue.embedded - before, self._problem)

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
    ) -> SearchResult:
        """See `MemoryReader.search`. Hits that no longer fit `max_tokens` are left out whole.

        The best hit is always given. Tokens are estimates.

        Raises:
            InvalidInputError: the query is blank, or a bound is below 1.
            StorageError: the ledger cannot be read.
        """
        if not query.strip():
            raise InvalidInputError("the query is empty", advice="Say what to look for.")
        _check_bounds(limit=limit, max_tokens=max_tokens)
        return await anyio.to_thread.run_sync(
            lambda: self._searcher.search(
                query,
                owner=owner,
                limit=limit,
                max_tokens=max_tokens,
                filters=filters or _EVERYTHING,
                explain=explain,
            )
        )

    async def expand(
        self,
        ref: AnchorRef,
        *,
        owner: str,
        before: int = 3,
        after: int = 3,
        max_tokens: int | None = None,
    ) -> ExpandedContext:
        """See `MemoryReader.expand`. The focus is always given. Tokens are estimates.

        Raises:
            NotFoundError: this owner has no such segment.
            InvalidInputError: a bound is negative.
            StorageError: the ledger cannot be read.
        """
        _check_bounds(max_tokens=max_tokens)
        if before < 0 or after < 0:
            raise InvalidInputError(
                "before and after count segments", advice="Give 0 or more for each."
            )
        return await anyio.to_thread.run_sync(
            lambda: expand(
                self._ledger, ref, owner=owner, before=before, after=after, max_tokens=max_tokens
            )
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
        embedded = await anyio.to_thread.run_sync(self._queue.count) if self._queue else 0
        return MemoryStats(
            run_loops=run_loops,
            segments=segments,
            embedded=embedded,
            pending=segments - embedded if self._queue else 0,
            embedder=self._dense.identity if self._dense else None,
            problem=self._problem.in_words() if self._problem else None,
        )


def _problem(error: Exception) -> Problem:
    if isinstance(error, RondoError):
        return error.problem()
    _log.error("embedding failed", exc_info=error)
    return Problem(kind="internal", title="Texts could not be embedded", detail=repr(error))


def _check_bounds(**bounds: int | None) -> None:
    for name, bound in bounds.items():
        if bound is not None and bound < 1:
            raise InvalidInputError(f"{name} is {bound}", advice=f"Give {name} as 1 or more.")
