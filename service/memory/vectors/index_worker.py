"""The vector index at work: loading, embedding, building anew, and what there is to tell of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from service.domain.errors import (
    EmbeddingError,
    IndexUnreachableError,
    Problem,
    RondoError,
    StorageError,
)
from service.memory.protocol import Embedder, IndexStats
from service.memory.vectors.dense_search import DenseSide
from service.memory.vectors.embedding_queue import EmbeddingQueue
from service.memory.vectors.embedding_store import EmbeddingStore
from service.memory.vectors.index_keeper import IndexKeeper
from service.memory.vectors.protocol import IndexPlace
from service.storage.concurrency import Step

_log = logging.getLogger(__name__)

_LOOKS_AGAIN = 1.0  # seconds
_ASKED_AGAIN_AFTER = 10.0  # seconds; a server that was gone may be back


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """What one go of `IndexWorker.work` came to."""

    embedded: int
    """Segments that got their vector."""
    problem: Problem | None = None
    """Why it stopped before all had theirs."""


class IndexWorker:
    """Does the index's work in worker threads, a small piece at a time, one at a time."""

    def __init__(
        self,
        states: EmbeddingStore,
        embedder: Embedder | None,
        places: Sequence[IndexPlace],
    ) -> None:
        """Name the parts; nothing is opened yet.

        Args:
            states: the vectors in the ledger.
            embedder: None for none: then only what is not needed any more is deleted.
            places: where the index is; after it, where one may be left from before.
        """
        self._states = states
        self._keeper = IndexKeeper(states, places)
        self.dense = DenseSide(embedder, self._keeper) if embedder else None
        self.queue = EmbeddingQueue(self._keeper, self.dense)
        self.step = Step(self._go)
        """Does the work in the background, where somebody repeats it."""
        self.coding = Step(self._add_codes)
        """Adds to older vectors what is kept of tokens, in the background: nobody waits for it."""
        self._working = anyio.Lock()
        self._problem: Problem | None = None
        self._asked_at = 0.0

    @property
    def problem(self) -> Problem | None:
        """Why the last go stopped."""
        return self._problem

    async def load(self) -> Problem | None:
        """Load the embedder and open the index.

        Returns:
            Why they cannot be used, if so; search goes by words then.
        """
        async with self._working:
            await self._load()
            return self._problem

    async def work(self) -> EmbeddingProgress:
        """Do all that is to be done: embed, index, build anew, swap, delete. Raises nothing.

        Stops at the first failure; the next call goes on there, after a crash too.
        """
        async with self._working:
            before = self.queue.embedded
            if await self._load():
                try:
                    while await anyio.to_thread.run_sync(self.queue.step):
                        pass
                except Exception as error:  # noqa: BLE001  the reason is kept, told and logged
                    self._note(error)
            return EmbeddingProgress(self.queue.embedded - before, self._problem)

    async def _go(self) -> Problem | None:
        problem = (await self.work()).problem
        self.coding.want()
        return problem

    async def _add_codes(self) -> Problem | None:
        """Code what has a vector alone, as soon as the embedder gives states of tokens."""
        dense = self.dense
        if dense is None or dense.loaded is None or dense.loaded.coding is None:
            return None
        ready: bool | None = False
        while ready is False:
            ready = await anyio.to_thread.run_sync(
                dense.wait_for_tokens, _LOOKS_AGAIN, abandon_on_cancel=True
            )
        more = bool(ready)
        while more:
            async with self._working:  # a piece at a time: what is new comes in between
                more = await anyio.to_thread.run_sync(self.queue.add_codes)
        return None

    def wake(self) -> None:
        """Have the work done soon, where somebody does it in the background."""
        self.step.want()

    async def aclose(self) -> None:
        """Close the index, after the piece of work that is under way."""
        async with self._working:
            await anyio.to_thread.run_sync(self._keeper.close)

    async def reindex(self, *, force: bool) -> str | None:
        """See `EmbeddingQueue.reindex`."""
        notice = await anyio.to_thread.run_sync(lambda: self.queue.reindex(force=force))
        self.wake()
        return notice

    async def scrub(self) -> None:
        """Ask for the index to be built anew from the vectors that remain. Durable.

        Raises:
            StorageError: the ledger cannot be written.
        """
        await anyio.to_thread.run_sync(self.queue.request_scrub)
        self.wake()

    async def scrubbed(self, *, within: float | None = None) -> bool:
        """Wait until no scrub is pending, doing the work where nobody else does.

        Args:
            within: seconds; None: as long as it takes.

        Returns:
            Whether none is pending: False when the time is up, or it cannot go on now.
        """
        pending = self._states.scrubs.is_pending
        with anyio.move_on_after(within):
            if await anyio.to_thread.run_sync(pending):
                self._keeper.wake()
                await self.work()
        return not await anyio.to_thread.run_sync(pending)

    @property
    def has_work(self) -> bool:
        """Whether the index is not what it shall be, or the disk or its server refused lately."""
        refused = (IndexUnreachableError.kind, StorageError.kind)
        return self._keeper.has_work or (
            self._problem is not None and self._problem.kind in refused
        )

    def after_search(self) -> None:
        """Look again whether what failed goes now, when a search could not use the index."""
        if not self.has_work:
            return
        problem = self._problem
        if problem is None or time.monotonic() > self._asked_at + _ASKED_AGAIN_AFTER:
            self._asked_at = time.monotonic()
            self.wake()

    def stats(self) -> IndexStats:
        """What the index is, and what is being done about it. Blocks.

        Raises:
            StorageError: the ledger cannot be read.
        """
        # Before the rest: what it names as loaded is then told as loaded, too.
        notice = self.dense.why_not() if self.dense else None
        active, building = self._states.generations.live()
        present = active or building
        return IndexStats(
            place=self._keeper.place.name,
            generation=active.id if active else None,
            built_by=self._states.identity(present.embedder) if present else None,
            configured=self.dense.identity if self.dense else None,
            indexed=self._states.contents.count_indexed(present.id) if present else 0,
            scrub_pending=self._states.scrubs.is_pending(),
            damaged=tuple(self._keeper.place.set_aside_before()),
            notice=notice,
            progress=self.queue.progress(),
        )

    async def _load(self) -> bool:
        """Load what can be loaded; whether there is any work that can be done now."""
        try:
            await anyio.to_thread.run_sync(self.queue.load)
        except Exception as error:  # noqa: BLE001  the reason is kept, told and logged
            self._note(error)
            return isinstance(error, EmbeddingError)  # deleting goes without an embedder too
        self._problem = None
        if self.dense is not None:
            self.dense.problem = None
        return True

    def _note(self, error: Exception) -> None:
        self._problem = _problem(error)
        if self.dense is not None:
            self.dense.problem = self._problem


def _problem(error: Exception) -> Problem:
    if isinstance(error, RondoError):
        return error.problem()
    _log.error("embedding failed", exc_info=error)
    return Problem(kind="internal", title="Texts could not be embedded", detail=repr(error))
