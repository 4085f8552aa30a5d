"""The archivist: brings run loops into long-term memory: those that have ended, and what is done of
those that are open: when they come to rest, wait for a person, are summarised, or go on after their
end.

It reads the journal's change feed, one step behind: nobody waits for it, and what it has not done
when the process dies, it goes on with at the next start. A loop is read when its turn comes, as it
is then. Archiving and embedding go on side by side, so that a new loop is found by its words while
older ones still wait for their vectors.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import anyio
from anyio.abc import TaskStatus

from service.domain.errors import InvalidInputError, NotFoundError, Problem, RondoError
from service.domain.history.events import MessageMoved, RunLoopResumed
from service.domain.history.own_part import closed_part
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.archive.backlog import Backlog
from service.memory.journal.change_feed import Change, Commit
from service.memory.journal.protocol import Journal
from service.memory.ledger.protocol import Key
from service.memory.long_term import LongTermMemory
from service.memory.memory_tuning import REST_BEFORE_ARCHIVING
from service.storage.concurrency import FIRST_PAUSE, Step, problem_of

log = logging.getLogger(__name__)

NAME = "long-term memory"
"""What it is called as a reader of the change feed."""


class ArchivingHooks(Protocol):
    """Custom code around archiving. MUST NOT raise; is waited for."""

    async def before_archiving(self, run_loop: RunLoop) -> None:
        """A run loop is about to be archived."""
        ...

    async def after_archiving(self, run_loop: RunLoop) -> None:
        """A run loop is archived."""
        ...


class NoHooks:
    """No custom code."""

    async def before_archiving(self, run_loop: RunLoop) -> None:
        """Nothing."""

    async def after_archiving(self, run_loop: RunLoop) -> None:
        """Nothing."""


class Archivist:
    """A background worker: `open` it once the files are, and `run` it in a task group."""

    def __init__(
        self,
        memory: LongTermMemory,
        journal: Journal,
        *,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        """Name the parts.

        Args:
            memory: where run loops go; started.
            journal: where they are kept for good; open.
            first_pause: seconds before a failed step is tried again; doubles each time it fails.
        """
        self._memory = memory
        self._journal = journal
        self._backlog = Backlog(memory, journal)
        self._first_pause = first_pause
        self._hooks: ArchivingHooks = NoHooks()
        self._turn = anyio.Lock()
        self._begins: tuple[bool, bool] | None = None
        self._left_undone = 0
        """How many of those due were so at the start."""
        self._hurry = anyio.Event()
        self._changes = journal.changes.subscribe(NAME, _concerns)
        self._reading = Step(self._read)
        self._watching = Step(self._take_what_rests)
        self._archiving = Step(self._archive_due)
        self._embedding = memory.index.step
        self._steps = (self._reading, self._watching, self._archiving, self._embedding)
        self._aside = memory.index.coding
        self._went_on = anyio.Event()
        self._rid_of_lost_words = anyio.Event()
        self._running = False

    # --- its place in the change feed

    @property
    def place(self) -> int:
        """The newest change that was read."""
        return self._backlog.place

    async def is_in_step(self) -> bool:
        """Whether all that was read is in this journal still: else it is to be rebuilt.

        Raises:
            StorageError: a file cannot be read.
        """
        return await self._backlog.is_in_step()

    def open(self, *, rebuild: bool, keep_place: bool = True) -> None:
        """Say how `run` is to take up what an earlier process left.

        Args:
            rebuild: whether the journal is another one than before, or no place is known: then
                journal and ledger are compared, and what differs is archived anew.
            keep_place: False: the next start is to compare them, too.
        """
        self._begins = (rebuild, keep_place)

    def _wake(self) -> None:
        """Begin with what is due, and wait with what rests."""
        if self._backlog.due:
            self._archiving.want()
        if self._backlog.resting:
            self._watching.want()

    # --- what others ask for

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Nothing is archived meanwhile."""
        async with self._turn:
            yield

    @contextmanager
    def expecting(self, keys: Iterable[Key]) -> Generator[None]:
        """Within it the caller writes to run loops, and then has them archived itself."""
        try:
            with self._backlog.expecting(keys):
                yield
        finally:
            self._wake()

    async def forgotten(self, keys: Iterable[Key]) -> None:
        """Within `held`: the ledger has no more of these run loops than the journal has now.

        Raises:
            StorageError: the disk refuses; they are looked at once more.
        """
        await self._backlog.settle(dict.fromkeys(keys, self._journal.changes.last))

    def submit(self, state: RunLoopState) -> None:
        """Have what is done of a run loop archived soon, though it is at work."""
        self._backlog.want((state.owner, state.id))
        self._wake()

    async def archive(self, states: Sequence[RunLoopState], *, read_at: int) -> Problem | None:
        """Have what is done of run loops archived now, in one transaction, and embedded soon.

        Args:
            states: of loops, each at most once.
            read_at: a change that they hold already, with all before it.

        Returns:
            Why one was not, if so; it is tried again.
        """
        loops = {(each.owner, each.id): closed_part(each) for each in states}
        try:
            loops = {key: loop for key, loop in loops.items() if await self._is_worth_it(loop)}
            for run_loop in loops.values():
                await self._hooks.before_archiving(run_loop)
            async with self._turn:
                if self._journal.lost_words_at > read_at:
                    read_at = self._journal.changes.last
                    again = {key: await self._read_loop(key) for key in loops}
                    loops = {key: loop for key, loop in again.items() if loop is not None}
                changed = await self._memory.archive_many(list(loops.values()))
                await self._backlog.settle(dict.fromkeys(loops, read_at))
        except Exception:  # noqa: BLE001  one shall not keep the others out: each by itself tells it
            problems = [await self._archive_one(key) for key in loops]
            self._wake()
            return next(filter(None, problems), None)
        if changed:
            self._embedding.want()
        for run_loop in loops.values():
            await self._tell(run_loop)
        return None

    async def _tell(self, run_loop: RunLoop) -> None:
        await self._hooks.after_archiving(run_loop)
        self._went_on.set()
        self._went_on = anyio.Event()

    async def rid_of_lost_words(self) -> None:
        """Wait until what was forgotten before the start is gone from long-term memory, too.

        That is so at once but after a crash, or where an older copy of a file was put back. It ends
        also where the disk refused: then it is tried again later.
        """
        await self._rid_of_lost_words.wait()

    async def next_archived(self) -> None:
        """Wait until another run loop is archived."""
        await self._went_on.wait()

    async def run(
        self,
        hooks: ArchivingHooks | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Work until cancelled, with custom code around it."""
        self._hooks = hooks or NoHooks()
        self._running = True
        self._reading.want()
        self._embedding.want()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow)
                for step in (*self._steps, self._aside):
                    tasks.start_soon(step.repeat, self._first_pause)
                task_status.started()
        finally:
            self._running = False
            for step in self._steps:
                step.stop()

    async def _follow(self) -> None:
        while True:
            await self._changes.changed()
            if self._reading.problem is None:  # else it is tried again after a pause
                self._reading.want()
            await self._reading.ended.wait()

    async def drain(self) -> Problem | None:
        """Wait until all that has changed is archived and embedded, or has been tried and failed.

        Returns:
            What keeps it from being complete, if anything does.
        """
        if self._changes.lag:
            self._reading.want()
        if self._backlog.due or self._archiving.problem:
            self._archiving.want()  # what has failed is tried once more
        while self._running and (busy := [step for step in self._steps if step.busy]):
            if self._watching.busy:
                self._hurry.set()
            await busy[0].ended.wait()
        for step in self._steps:
            if step.problem is not None:
                return step.problem
        if any(step.busy for step in self._steps):
            return Problem(kind="stopped", title="The archivist has stopped before it was done")
        return None

    # --- the work

    async def _read(self) -> Problem | None:
        async with self._turn:
            if self._begins is None:
                await self._backlog.read()
            else:  # not when it is opened: a full disk keeps nobody from starting
                rebuild, keep_place = self._begins
                try:
                    await self._backlog.begin(rebuild=rebuild, keep_place=keep_place)
                except Exception:
                    self._rid_of_lost_words.set()
                    raise
                self._begins, self._left_undone = None, len(self._backlog.due)
        self._changes.done(self._backlog.place)
        if not any(map(self._backlog.has_lost_words, self._backlog.due)):
            self._rid_of_lost_words.set()
        self._wake()
        return None

    async def _take_what_rests(self) -> Problem | None:
        with anyio.move_on_after(REST_BEFORE_ARCHIVING):
            await self._hurry.wait()
        self._hurry = anyio.Event()
        for key in list(self._backlog.resting):
            self._backlog.want(key)
        self._wake()
        return None

    async def _archive_due(self) -> Problem | None:
        problem = None
        undone, self._left_undone = self._left_undone, 0
        try:
            # What was forgotten goes first: until then a search would find it.
            due = sorted(self._backlog.due, key=lambda key: not self._backlog.has_lost_words(key))
            for done, key in enumerate(due):
                if not self._backlog.has_lost_words(key):
                    self._rid_of_lost_words.set()
                self._memory.catching_up = (done, undone) if done < undone else None
                problem = await self._archive_one(key) or problem
        finally:
            self._rid_of_lost_words.set()
            self._memory.catching_up = None
        return problem

    async def _archive_one(self, key: Key) -> Problem | None:
        """Archive one loop as it is; one that can never be archived is told, and given up."""
        read_at = self._journal.changes.last
        try:
            run_loop = await self._read_loop(key)
            if run_loop is not None and await self._is_worth_it(run_loop):
                await self._hooks.before_archiving(run_loop)
            async with self._turn:
                if self._journal.lost_words_at > read_at:
                    read_at = self._journal.changes.last
                    run_loop = await self._read_loop(key)
                changed = await self._write(key, run_loop)
                await self._backlog.settle({key: read_at})
        except InvalidInputError as error:
            log.warning("long-term memory lacks %s: %s", key[1], error.problem().in_words())
            return await self._give_up(key, read_at)
        except Exception as error:  # noqa: BLE001  the other loops shall not wait for this one
            problem = problem_of(error)
            await self._backlog.failed(key, problem)
            return problem
        if changed:
            self._embedding.want()
        if changed is not None and run_loop is not None:
            await self._tell(run_loop)
        return None

    async def _give_up(self, key: Key, read_at: int) -> Problem | None:
        try:
            await self._backlog.settle({key: read_at})
        except RondoError as error:
            return error.problem()
        return None

    async def _read_loop(self, key: Key) -> RunLoop | None:
        """What long-term memory is given of a run loop as it is now; None when it is gone."""
        owner, run_loop_id = key
        try:
            return closed_part(await self._journal.replay(run_loop_id, owner=owner))
        except NotFoundError:
            return None

    async def _is_worth_it(self, run_loop: RunLoop) -> bool:
        """Whether there is anything to archive, or there was."""
        if run_loop.iterations or not run_loop.is_active:
            return True
        return await self._memory.knows(run_loop.id, owner=run_loop.owner)

    async def _write(self, key: Key, run_loop: RunLoop | None) -> int | None:
        """How many segments are new; None where there was nothing to archive."""
        owner, run_loop_id = key
        if self._backlog.has_lost_words(key) and await self._memory.knows(run_loop_id, owner=owner):
            log.warning("run loop %s has lost words, of which memory is rid only now", run_loop_id)
            gone = [run_loop_id] if run_loop is None else []
            await self._memory.forget(owner, gone, [] if run_loop is None else [run_loop])
            await self._memory.scrub_file()
        if run_loop is None or not await self._is_worth_it(run_loop):
            return None
        return await self._memory.archive(run_loop)


def _concerns(change: Change) -> bool:
    """Whether long-term memory may have to follow: nothing that a loop at work does."""
    if not isinstance(change, Commit) or change.state.status != "running":
        return True
    return any(isinstance(event.body, RunLoopResumed | MessageMoved) for event in change.news)
