"""The memory of the house as one thing: journal, short-term and long-term memory of a data folder.

One process owns a data folder. The journal is the truth; the rest follows it: each commit updates
short-term memory and its subscribers, and a loop that has ended, or that goes on after its end,
goes to the archivist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread

from service.domain.closed_part import closed_part
from service.domain.errors import NotFoundError, StorageError
from service.domain.events import TERMINAL, RunLoopResumed
from service.domain.run_loops import RunLoop
from service.memory.archivist import Archivist
from service.memory.data_folder import DataFolder
from service.memory.feed import Feed
from service.memory.journal import Commit, Journal
from service.memory.long_term import LongTermMemory
from service.memory.protocol import Embedder
from service.memory.short_term import ShortTermMemory

_LONGEST_WARM_UP = 30.0  # seconds; then words alone must do


class Memory:
    """All that is remembered, in one folder. It works inside ``async with``, beside `work`."""

    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        self._folder = DataFolder(folder)
        folder = self._folder.path
        self.journal = Journal(folder / "journal.sqlite3")
        self.feed = Feed(self.journal)
        self.short_term = ShortTermMemory(self.journal, self.feed)
        self.long_term = LongTermMemory(folder, embedder)
        self.archivist = Archivist(self.long_term, self)
        self.on_rest: Callable[[], None] = lambda: None
        """Called when a loop has come to rest."""
        self._warm = anyio.Event()
        self._patience_ends = math.inf
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Take the folder and open what is in it. Loads no model.

        Raises:
            DataFolderInUseError: another process owns the folder.
            StorageError: the folder cannot be used, or its journal is lost.
        """
        async with AsyncExitStack() as stack:
            self._folder.acquire()
            stack.callback(self._folder.release)
            stack.push_async_callback(self.journal.aclose)
            for state in await anyio.to_thread.run_sync(self.journal.open, self._follow):
                self.short_term.add(state)
            stack.callback(self.short_term.close)
            await self.long_term.start()
            stack.push_async_callback(self.long_term.aclose)
            await self._check_that_history_is_there()
            await self._take_back_resumed_loops()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the files and give the folder back."""
        await self._stack.aclose()

    async def work(self) -> None:
        """Load what is heavy, finish what a crash left undone, and archive, for ever."""
        self._patience_ends = anyio.current_time() + _LONGEST_WARM_UP
        async with anyio.create_task_group() as group:
            group.start_soon(self.archivist.run)
            await self.long_term.warm_up()
            self._warm.set()

    async def warmed_up(self) -> None:
        """Wait, for a while from the start, until the embedder is loaded or known to be missing."""
        with anyio.CancelScope(deadline=self._patience_ends):
            await self._warm.wait()

    async def finished_run_loops(self) -> Iterable[str]:
        """Ids of all run loops that have ended; what long-term memory must have."""
        return await self.journal.run_loops.finished_ids()

    async def load(self, run_loop_id: str) -> RunLoop | None:
        """A run loop as the journal has it; None when it is gone."""
        try:
            return (await self.journal.replay(run_loop_id)).run_loop()
        except NotFoundError:
            return None

    async def _check_that_history_is_there(self) -> None:
        """What long-term memory knows came from the journal: one without a past was lost."""
        if self.journal.last_seq:
            return
        known = (await self.long_term.stats()).run_loops
        if known:
            folder = self._folder.path
            raise StorageError(
                f"journal.sqlite3 in {folder} is missing or empty, but memory.sqlite3 knows"
                f" {known} run loops that were in it",
                title="The journal is lost",
                advice="Restore journal.sqlite3 from a backup; or, to begin anew without this"
                f" history, move memory.sqlite3* and chroma out of {folder}.",
            )

    async def _take_back_resumed_loops(self) -> None:
        """Let no loop that goes on be remembered as ended, as a crash may have left it."""
        states = {state.id: state for state in self.short_term.states()}
        lacking = set(await self.long_term.lacking(states))
        for run_loop_id in states.keys() - lacking:
            self.archivist.submit(closed_part(states[run_loop_id]))

    def _follow(self, commit: Commit) -> None:
        self.short_term.update(commit)
        for event in commit.news:
            if isinstance(event.body, (*TERMINAL, RunLoopResumed)):
                # What goes on is not remembered as finished any more: its second end will be.
                self.archivist.submit(closed_part(commit.state))
        if commit.state.status == "idle":
            self.on_rest()
