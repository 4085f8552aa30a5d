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
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from service.domain.closed_part import closed_part
from service.domain.errors import InvalidInputError, NotFoundError, Problem, RondoError
from service.domain.events import MessageMoved, RunLoopResumed
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.memory.archive.pending import Key, Pending, coalesced
from service.memory.history.changes import Change, Commit
from service.memory.history.journal import Journal
from service.memory.long_term import LongTermMemory
from service.memory.steps import FIRST_PAUSE, Step, problem_of
from service.memory.tuned import REST_BEFORE_ARCHIVING

log = logging.getLogger(__name__)

NAME = "long-term memory"
"""What it is called as a reader of the change feed."""
_PAGE = 1000


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
    """A background worker: `open` it with the files, and `run` it in a task group."""

    def __init__(
        self,
        memory: LongTermMemory,
        journal: Journal,
        *,
        first_pause: float = FIRST_PAUSE,
        rest: float = REST_BEFORE_ARCHIVING,
    ) -> None:
        """Name the parts.

        Args:
            memory: where run loops go; started.
            journal: where they are kept for good; open.
            first_pause: seconds before a failed step is tried again; doubles each time it fails.
            rest: seconds from a loop's coming to rest until what is done of it is archived.
        """
        self._memory = memory
        self._journal = journal
        self._listed = memory.pending
        self._first_pause = first_pause
        self._rest = rest
        self._hooks: ArchivingHooks = NoHooks()
        self._turn = anyio.Lock()
        self._place = 0
        self._keeps_place = True
        self._pending: dict[Key, Pending] = {}
        """All that is listed."""
        self._due: dict[Key, None] = {}
        """Of these, those to be archived as soon as possible."""
        self._resting: set[Key] = set()
        """Of these, those that have come to rest just now."""
        self._archived: dict[Key, int] = {}
        """What was archived as of a change that is not read yet."""
        self._expected: set[Key] = set()
        """What somebody else is about to archive."""
        self._left_undone = 0
        """How many of those due were so at the start."""
        self._hurry = anyio.Event()
        self._changes = journal.changes.subscribe(NAME, _concerns)
        self._reading = Step(self._read)
        self._watching = Step(self._take_what_rests)
        self._archiving = Step(self._archive_due)
        self._embedding = memory.index.step
        self._steps = (self._reading, self._watching, self._archiving, self._embedding)
        self._went_on = anyio.Event()
        self._running = False

    # --- its place in the change feed

    @property
    def place(self) -> int:
        """The newest change that was taken in."""
        return self._place

    async def is_in_step(self) -> bool:
        """Whether all that it has read is in this journal still: else it is to be rebuilt.

        Raises:
            StorageError: a file cannot be read.
        """
        place = await to_thread.run_sync(self._listed.checkpoint)
        if place is None:
            return False
        return await to_thread.run_sync(self._journal.changes.matches, place)

    async def open(self, *, rebuild: bool, keep_place: bool = True) -> None:
        """Take up what an earlier process left.

        Args:
            rebuild: whether the journal is another one than before, or no place is known: then
                journal and ledger are compared, and what differs is archived anew.
            keep_place: False: the next start is to compare them, too.

        Raises:
            StorageError: a file cannot be read or written.
        """
        self._keeps_place = keep_place
        if rebuild:
            await self._rebuild()
        else:
            place = await to_thread.run_sync(self._listed.checkpoint)
            self._place = 0 if place is None else place.number
            for each in await to_thread.run_sync(self._listed.all):
                self._pending[each.key] = each
        await self._take_in()
        await self._schedule(self._pending)
        self._left_undone = len(self._due)

    async def _rebuild(self) -> None:
        journal = self._journal
        outlines = await to_thread.run_sync(journal.run_loops.outlines)
        place, last = 0, journal.changes.last
        if await to_thread.run_sync(self._listed.checkpoint) is not None:
            place = last  # no loop can be told to be as it was when it was archived
        else:
            # It has never read the feed: what looks the same is, but for what the feed says.
            outlines = await self._memory.outdated(outlines)
        found = {each.key: Pending(*each.key, last) for each in outlines}
        await self._list(found, place=place, anew=True)

    async def _changes_after(self, number: int) -> list[Change]:
        return await to_thread.run_sync(
            lambda: self._journal.changes.read(after=number, limit=_PAGE)
        )

    async def _take_in(self) -> None:
        """List what has changed since, and move the place on."""
        while changes := await self._changes_after(self._place):
            found = {
                key: each
                for key, each in coalesced(changes).items()
                if self._archived.get(key, 0) < each.change
            }
            await self._list(found, place=changes[-1].number)
            await self._schedule(found)
            self._archived = {k: n for k, n in self._archived.items() if n > self._place}
        self._changes.done(self._place)

    async def _list(self, found: Mapping[Key, Pending], *, place: int, anew: bool = False) -> None:
        def write() -> None:
            checkpoint = self._journal.changes.checkpoint(place) if self._keeps_place else None
            self._listed.take_in(list(found.values()), checkpoint, anew=anew)

        await to_thread.run_sync(write)
        self._place = place
        if anew:
            self._pending.clear()
        for key, each in found.items():
            before = self._pending.get(key)
            lost_words = each.lost_words or (before is not None and before.lost_words)
            self._pending[key] = each._replace(lost_words=lost_words)

    async def _schedule(self, keys: Iterable[Key]) -> None:
        """Say when those that are listed are archived: now, after a while, or once they rest."""
        at_work: list[Key] = []
        for key in keys:
            state = self._journal.state(key[1])
            if key in self._expected:
                continue
            if state is None or self._pending[key].lost_words:
                self._want(key)
            elif state.status == "running":
                at_work.append(key)
            else:
                self._resting.add(key)
                self._watching.want()
        if at_work:
            # What goes on is not remembered as finished any more: its second end will be.
            ids = [run_loop_id for _, run_loop_id in at_work]
            lacking = frozenset(await self._memory.lacking(ids))
            for key in at_work:
                if key[1] not in lacking:
                    self._want(key)

    def _want(self, key: Key) -> None:
        self._resting.discard(key)
        self._due[key] = None
        self._archiving.want()

    async def _settle(self, archived: Mapping[Key, int]) -> None:
        """These are archived, each as of this change."""
        listed = {k: n for k, n in archived.items() if k in self._pending}
        if listed:
            await to_thread.run_sync(self._listed.settle, listed)
        for key, number in archived.items():
            if number > self._place:
                self._archived[key] = number
            if key in self._pending and self._pending[key].change <= number:
                del self._pending[key]
            if key not in self._pending:
                self._due.pop(key, None)
                self._resting.discard(key)

    # --- what others ask for

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Nothing is archived meanwhile."""
        async with self._turn:
            yield

    @contextmanager
    def expecting(self, keys: Iterable[Key]) -> Generator[None]:
        """Within it the caller writes to run loops, and then has them archived itself."""
        expected = set(keys)
        self._expected |= expected
        try:
            yield
        finally:
            self._expected -= expected
            for key in expected & self._pending.keys():
                self._want(key)

    async def forgotten(self, keys: Iterable[Key]) -> None:
        """Within `held`: the ledger has no more of these run loops than the journal has now.

        Raises:
            StorageError: the disk refuses; they are looked at once more.
        """
        await self._settle(dict.fromkeys(keys, self._journal.changes.last))

    def submit(self, state: RunLoopState) -> None:
        """Have what is done of a run loop archived soon, though it is at work."""
        self._want((state.owner, state.id))

    async def archive(self, states: Sequence[RunLoopState], *, read_at: int) -> Problem | None:
        """Have what is done of run loops archived now, in one transaction, and embedded soon.

        Args:
            states: of loops, each at most once.
            read_at: a change that they hold already, with all before it.

        Returns:
            Why one was not, if so; it is tried again.
        """
        loops = {(each.owner, each.id): closed_part(each) for each in states}
        loops = {key: loop for key, loop in loops.items() if await self._is_worth_it(loop)}
        for run_loop in loops.values():
            await self._hooks.before_archiving(run_loop)
        try:
            async with self._turn:
                if self._journal.lost_words_at > read_at:
                    read_at = self._journal.changes.last
                    again = {key: await self._read_loop(key) for key in loops}
                    loops = {key: loop for key, loop in again.items() if loop is not None}
                changed = await self._memory.archive_many(list(loops.values()))
                await self._settle(dict.fromkeys(loops, read_at))
        except Exception:  # noqa: BLE001  one shall not keep the others out: each by itself tells it
            problems = [await self._archive_one(key) for key in loops]
            self._archiving.want()
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
                for step in self._steps:
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
        if self._due or self._archiving.problem:
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
            await self._take_in()
        return None

    async def _take_what_rests(self) -> Problem | None:
        with anyio.move_on_after(self._rest):
            await self._hurry.wait()
        self._hurry = anyio.Event()
        for key in list(self._resting):
            self._want(key)
        return None

    async def _archive_due(self) -> Problem | None:
        problem = None
        due = list(self._due)
        undone, self._left_undone = self._left_undone, 0
        try:
            for done, key in enumerate(due):
                if done < undone:
                    self._memory.catching_up = (done, undone)
                else:
                    self._memory.catching_up = None
                problem = await self._archive_one(key) or problem
        finally:
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
                await self._settle({key: read_at})
        except InvalidInputError as error:
            log.warning("long-term memory lacks %s: %s", key[1], error.problem().in_words())
            await self._settle({key: read_at})
            return None
        except Exception as error:  # noqa: BLE001  the other loops shall not wait for this one
            return await self._failed(key, problem_of(error))
        if changed:
            self._embedding.want()
        if changed is not None and run_loop is not None:
            await self._tell(run_loop)
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
        listed = self._pending.get(key)
        lost_words = listed is not None and listed.lost_words
        if lost_words and await self._memory.knows(run_loop_id, owner=owner):
            log.warning("run loop %s has lost words, of which memory is rid only now", run_loop_id)
            gone = [run_loop_id] if run_loop is None else []
            await self._memory.forget(owner, gone, [] if run_loop is None else [run_loop])
            await self._memory.scrub_file()
        if run_loop is None or not await self._is_worth_it(run_loop):
            return None
        return await self._memory.archive(run_loop)

    async def _failed(self, key: Key, problem: Problem) -> Problem:
        """Keep a loop listed, with what keeps it from being archived."""
        self._due[key] = None
        try:
            await to_thread.run_sync(self._listed.failed, key, problem.in_words())
        except RondoError as error:
            log.warning("nor can that be written down: %s", error.problem().in_words())
        return problem


def _concerns(change: Change) -> bool:
    """Whether long-term memory may have to follow: nothing that a loop at work does."""
    if not isinstance(change, Commit) or change.state.status != "running":
        return True
    return any(isinstance(event.body, RunLoopResumed | MessageMoved) for event in change.news)
