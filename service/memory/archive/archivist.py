"""The archivist: brings run loops into long-term memory: those that have ended, and what is done of
those that are open: when they come to rest, wait for a person, are summarised, or go on after their
end.

It works in the background, one step behind: nobody waits for it, and what it has not done when the
process dies, it finds out from the journal at the next start. Archiving and embedding go on side by
side, so that a new loop is found by its words while older ones still wait for their vectors.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import anyio
from anyio.abc import TaskStatus

from service.domain.closed_part import closed_part
from service.domain.errors import InvalidInputError, Problem, RondoError
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.memory.long_term import LongTermMemory
from service.memory.outline import Outline
from service.memory.tuned import REST_BEFORE_ARCHIVING

_log = logging.getLogger(__name__)

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0


class RunLoopSource(Protocol):
    """Where finished run loops are kept for good: the journal."""

    async def finished_run_loops(self) -> Iterable[Outline]:
        """All run loops, of all owners, that have ended."""
        ...

    async def load(self, run_loop_id: str) -> RunLoop | None:
        """A run loop, whole; None when it is gone meanwhile."""
        ...


class Archivist:
    """A background worker. `run` it in a task group; `submit` to it from the same event loop."""

    def __init__(
        self,
        memory: LongTermMemory,
        source: RunLoopSource,
        *,
        first_pause: float = _FIRST_PAUSE,
        rest: float = REST_BEFORE_ARCHIVING,
    ) -> None:
        """Name the parts.

        Args:
            memory: where run loops go; started.
            source: what is asked, at the start, for loops that memory lacks.
            first_pause: seconds before a failed step is tried again; doubles each time it fails.
            rest: seconds from a loop's coming to rest until what is done of it is archived.
        """
        self._memory = memory
        self._source = source
        self._first_pause = first_pause
        self.before: Callable[[RunLoop], Awaitable[None]] = _nobody
        """Told before a loop is archived. MUST NOT raise; is waited for."""
        self.after: Callable[[RunLoop], Awaitable[None]] = _nobody
        """Told once a loop is archived. MUST NOT raise; is waited for."""
        self.reread: Callable[[str], Awaitable[RunLoop | None]] = source.load
        """Gives what is done of a run loop, as it is now; None when it is gone."""
        self.caught_up: Callable[[Outline], Awaitable[None]] = _no_outline
        """Told once a loop of which memory lagged behind is archived. MUST NOT raise."""
        self._turn = anyio.Lock()
        self._rewritten: set[tuple[str, str]] = set()
        """Loops of which what is about to be archived may be old."""
        self._held: set[tuple[str, str]] = set()
        """Loops that have lost words since the start: they are never archived as somebody has kept
        them. Few, so that they are not let go."""
        self._bringing = 0
        self._reconciled: str | None = None
        self._waiting: dict[tuple[str, str], RunLoop] = {}
        self._resting: dict[tuple[str, str], RunLoopState] = {}
        self._rest = rest
        self._hurry = anyio.Event()
        self._archiving = _Step(self._archive_waiting)
        self._watching = _Step(self._take_what_rests)
        self._reconciling = _Step(self._reconcile)
        self._embedding = _Step(self._embed)
        self._steps = (self._reconciling, self._watching, self._archiving, self._embedding)
        self._running = False
        memory.index.wake = self._embedding.want

    @asynccontextmanager
    async def held(self, run_loops: Iterable[tuple[str, str]] = ()) -> AsyncGenerator[None]:
        """Nothing is archived meanwhile; of these loops (owner and id), nothing old afterwards.

        What was to be archived of them is read anew: it may hold words that are forgotten.
        """
        async with self._turn:
            self._held.update(run_loops)
            yield

    @contextmanager
    def bringing(self) -> Generator[None]:
        """What is read within, and archived within, is known to be old if words go meanwhile."""
        self._bringing += 1
        try:
            yield
        finally:
            self._bringing -= 1
            self._let_go()

    def _let_go(self) -> None:
        """Nobody is on the way with something old: it need not be known any more."""
        if not (self._bringing or self._waiting or self._resting or self._turn.locked()):
            self._rewritten.clear()

    def submit(self, run_loop: RunLoop) -> None:
        """Have a run loop archived soon. Of several states of a loop, the last one counts."""
        key = (run_loop.owner, run_loop.id)
        self._resting.pop(key, None)
        if run_loop.id == self._reconciled:
            self._rewritten.add(key)
        self._waiting[key] = run_loop
        self._archiving.want()

    def rest(self, state: RunLoopState) -> None:
        """Have what is done of an open loop archived after a while. Takes no time.

        A loop that goes on meanwhile, and rests again, is archived once.
        """
        if state.closed_iterations or closed_part(state).iterations:
            self._resting[state.owner, state.id] = state
            self._watching.want()

    async def archive(self, run_loop: RunLoop) -> Problem | None:
        """Have a run loop archived now, and embedded soon; why it was not, if so."""
        return await self._archive(run_loop)

    async def archive_many(self, run_loops: Sequence[RunLoop]) -> Problem | None:
        """Have run loops archived now, in one transaction; why one was not, if so."""
        with self.bringing():
            return await self._archive_many(run_loops)

    async def _archive_many(self, run_loops: Sequence[RunLoop]) -> Problem | None:
        for run_loop in run_loops:
            if run_loop.id == self._reconciled:
                self._rewritten.add((run_loop.owner, run_loop.id))
            await self.before(run_loop)
        try:
            async with self._turn:
                found = [await self._current(run_loop) for run_loop in run_loops]
                current = [run_loop for run_loop in found if run_loop is not None]
                changed = await self._memory.archive_many(current)
        except Exception:  # noqa: BLE001  one shall not keep the others out: each by itself tells it
            problems = [await self._bring_in(run_loop) for run_loop in run_loops]
            return next(filter(None, problems), None)
        if changed:
            self._embedding.want()
        for run_loop in current:
            await self.after(run_loop)
        return None

    def catch_up(self) -> None:
        """Have all that memory lacks of finished loops brought in, as at the start."""
        self._reconciling.want()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled. First of all, bring in what a crash left undone."""
        self._running = True
        self._reconciling.want()
        self._embedding.want()
        try:
            async with anyio.create_task_group() as tasks:
                for step in self._steps:
                    tasks.start_soon(self._repeat, step)
                task_status.started()
        finally:
            self._running = False
            for step in self._steps:
                step.changed.set()

    async def drain(self) -> Problem | None:
        """Wait until everything submitted is archived and embedded, or has been tried and failed.

        Returns:
            What keeps it from being complete, if anything does.
        """
        while self._running and (busy := [step for step in self._steps if step.busy]):
            if self._watching.busy:
                self._hurry.set()
            await busy[0].changed.wait()
        for step in self._steps:
            if step.problem is not None:
                return step.problem
        if any(step.busy for step in self._steps):
            return Problem(kind="stopped", title="The archivist has stopped before it was done")
        return None

    async def _repeat(self, step: _Step) -> None:
        pause = self._first_pause
        while True:
            # After a failure, try again when the pause is over, or when there is something new.
            with anyio.move_on_after(pause if step.problem else None):
                await step.wanted.wait()
            step.begin()
            try:
                problem = await step.work()
            except Exception as error:  # noqa: BLE001  the worker outlives any failure, and tells it
                problem = _problem(error)
            if problem is not None:
                _report(problem)
                pause = min(2 * pause, _LONGEST_PAUSE) if step.problem else self._first_pause
            step.end(problem)

    async def _take_what_rests(self) -> Problem | None:
        with anyio.move_on_after(self._rest):
            await self._hurry.wait()
        self._hurry = anyio.Event()
        resting, self._resting = self._resting, {}
        for state in resting.values():
            self.submit(closed_part(state))
        return None

    async def _archive_waiting(self) -> Problem | None:
        problem = None
        for key, run_loop in list(self._waiting.items()):
            failed = await self._archive(run_loop)
            if failed is None and self._waiting.get(key) is run_loop:
                del self._waiting[key]
            problem = problem or failed
        self._let_go()
        return problem

    async def _reconcile(self) -> Problem | None:
        problem = None
        finished = await self._source.finished_run_loops()
        lagging = list(await self._memory.outdated(finished))
        try:
            for done, outline in enumerate(lagging):
                self._memory.catching_up = (done, len(lagging))
                with self.bringing():
                    problem = await self._catch_up_with(outline) or problem
        finally:
            self._memory.catching_up = None
        return problem

    async def _catch_up_with(self, outline: Outline) -> Problem | None:
        self._reconciled = outline.id  # what is submitted from here on is newer
        try:
            run_loop = await self.reread(outline.id)
            problem = await self._archive(run_loop) if run_loop is not None else None
        except RondoError as error:  # the other loops shall not wait for this one
            return error.problem()
        finally:
            self._reconciled = None
        if problem is None:
            await self.caught_up(outline)
        return problem

    async def _embed(self) -> Problem | None:
        return (await self._memory.embed_pending()).problem

    async def _archive(self, run_loop: RunLoop) -> Problem | None:
        """Archive one loop; one that can never be archived is told, and given up."""
        with self.bringing():
            await self.before(run_loop)
            return await self._bring_in(run_loop)

    async def _current(self, run_loop: RunLoop) -> RunLoop | None:
        """A loop without what it has lost since; None when it is gone. To be asked in turn."""
        if (run_loop.owner, run_loop.id) in self._rewritten | self._held:
            return await self.reread(run_loop.id)
        return run_loop

    async def _bring_in(self, run_loop: RunLoop) -> Problem | None:
        try:
            async with self._turn:
                current = await self._current(run_loop)
                if current is None:
                    return None
                run_loop = current
                changed = await self._memory.archive(run_loop)
        except InvalidInputError as error:
            _report(error.problem())
            return None
        except Exception as error:  # noqa: BLE001  the other loops shall not wait for this one
            return _problem(error)
        if changed:
            self._embedding.want()
        await self.after(run_loop)
        return None


class _Step:
    """One kind of work: whether it is wanted, and what kept it from being done the last time."""

    def __init__(self, work: Callable[[], Awaitable[Problem | None]]) -> None:
        self.work = work
        self.wanted = anyio.Event()
        self.changed = anyio.Event()
        """Set, and replaced, when a go has ended."""
        self.problem: Problem | None = None
        self._working = False

    @property
    def busy(self) -> bool:
        return self._working or self.wanted.is_set()

    def want(self) -> None:
        self.wanted.set()

    def begin(self) -> None:
        self.wanted = anyio.Event()
        self._working = True

    def end(self, problem: Problem | None) -> None:
        self.problem = problem
        self._working = False
        self.changed.set()
        self.changed = anyio.Event()


def _report(problem: Problem) -> None:
    _log.warning("long-term memory lags behind: %s", problem.in_words())


async def _nobody(run_loop: RunLoop) -> None:
    pass


async def _no_outline(outline: Outline) -> None:
    pass


def _problem(error: Exception) -> Problem:
    if isinstance(error, RondoError):
        return error.problem()
    _log.error("archiving failed", exc_info=error)
    return Problem(kind="internal", title="A run loop was not archived", detail=repr(error))
