"""The scheduler: one task for each run loop that is running, and the means to stop it.

One loop that fails, in whatever way, ends neither the others nor the agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from service.domain.conversation.instructions import InstructionKind
from service.domain.errors import ConflictError, NotFoundError, StorageError
from service.domain.history.events import ErrorOccurred, Event, EventBody, RunLoopFailed
from service.domain.history.state import RunLoopState
from service.loop import unexpected_errors
from service.loop.brain import Decide
from service.loop.execution import EarlyCalls, Executor, StopReason
from service.loop.runner import run
from service.memory.memory import Memory
from service.storage.concurrency import start_unless_ending
from service.tools.protocol import caller_is_cancelled

log = logging.getLogger(__name__)


class Activity:
    """Something happens: a message comes in, or a run loop begins or ends to work.

    Watched by what may only work while nobody is waited for.
    """

    def __init__(self) -> None:
        self._came = anyio.Event()

    def happened(self) -> None:
        """Something has happened just now. Takes no time."""
        self._came.set()
        self._came = anyio.Event()

    async def next(self) -> None:
        """Wait until something happens."""
        await self._came.wait()


@dataclass(slots=True, eq=False)
class _Run:
    """A loop's task."""

    handle: LoopHandle
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


_within: ContextVar[_Run | None] = ContextVar("the run within which code is called", default=None)


def step_outside() -> None:
    """Say of the present task that it is no part of the loop in which it was started."""
    _within.set(None)


class Scheduler:
    """Runs loops. A loop has at most one task; it has one exactly while it is running."""

    def __init__(
        self,
        group: TaskGroup,
        memory: Memory,
        decide: Decide,
        executors: Mapping[InstructionKind, Executor],
        activity: Activity,
        *,
        storage_retry_seconds: float,
    ) -> None:
        self._storage_retry = storage_retry_seconds
        self._group = group
        self._memory = memory
        self._decide = decide
        self._executors = executors
        self._runs: dict[str, _Run] = {}
        self._stopping: Counter[str] = Counter()
        self._waits: list[tuple[_Run, _Run]] = []
        """Whose work waits for the end of whose."""
        self._activity = activity

    @property
    def at_work(self) -> bool:
        """Whether any loop is at work."""
        return bool(self._runs)

    def wake(self, run_loop_id: str) -> None:
        """See to it that a loop goes on, if it has something to do."""
        state = self._memory.short_term.state(run_loop_id)
        if state is None or not (state.status == "running" or state.is_spoken_to):
            return
        if run_loop_id in self._runs or run_loop_id in self._stopping:
            return
        self._runs[run_loop_id] = _Run(LoopHandle(self._memory, run_loop_id))
        name = f"run loop {run_loop_id}"
        if not start_unless_ending(self._group, self._run, run_loop_id, name=name):
            del self._runs[run_loop_id]
            log.info("%s goes on when Rondo starts again", name)
            return
        self._activity.happened()

    @asynccontextmanager
    async def held(self, run_loop_id: str, why: StopReason) -> AsyncGenerator[None]:
        """Within it a loop does not run: its work has really ended. After it, it may go on.

        Raises:
            ConflictError: that work waits for the end of the caller's.
        """
        self._stopping[run_loop_id] += 1
        try:
            running = self._runs.get(run_loop_id)
            if running is not None:
                with self._waiting_for(running):
                    running.handle.stopping = why
                    running.scope.cancel()
                    await running.ended.wait()
            yield
        finally:
            self._stopping[run_loop_id] -= 1
            if self._stopping[run_loop_id] <= 0:
                del self._stopping[run_loop_id]
            self.wake(run_loop_id)

    async def at_rest(self, run_loop_id: str) -> None:
        """Wait until a loop has no task, for the time being.

        Raises:
            ConflictError: its work waits for the end of the caller's.
        """
        running = self._runs.get(run_loop_id)
        if running is not None:
            with self._waiting_for(running):
                await running.ended.wait()

    @contextmanager
    def _waiting_for(self, awaited: _Run) -> Generator[None]:
        """Note that the caller waits for the end of some work, unless neither would ever end."""
        waiter = _within.get()
        if waiter is None or waiter.ended.is_set():
            yield
            return
        reached = {awaited}
        while further := {to for of, to in self._waits if of in reached} - reached:
            reached |= further
        if waiter in reached:
            raise ConflictError(
                f"the work of run loop {awaited.handle.id} waits for the end of that of"
                f" {waiter.handle.id}, which would have to wait for it in turn",
                advice="Do it from outside of tools and hooks, once they have ended.",
            )
        wait = (waiter, awaited)
        self._waits.append(wait)
        try:
            yield
        finally:
            self._waits.remove(wait)

    def is_within(self, run_loop_id: str) -> bool:
        """Whether the caller is part of this loop's work: waiting for its end would never end."""
        running = _within.get()
        return running is not None and self._runs.get(run_loop_id) is running

    async def _run(self, run_loop_id: str) -> None:
        running, task = self._runs[run_loop_id], asyncio.current_task()
        _within.set(running)
        try:
            with running.scope:
                await self._persist(running.handle)
        except BaseException as error:
            if unexpected_errors.passes_through(error, task):
                raise
            # The last resort. Woken again at once it would come here again: a message wakes it.
            log.critical("run loop %s is left where it is", run_loop_id, exc_info=error)
            return
        finally:
            # From here to the next await nothing can come between: a message that came in while
            # the loop was coming to rest finds no task, and starts one.
            del self._runs[run_loop_id]
            running.ended.set()
            self._activity.happened()
        if not caller_is_cancelled():
            self.wake(run_loop_id)

    async def _persist(self, handle: LoopHandle) -> None:
        """Run a loop; while nothing can be journaled, stay where it is, and try again."""
        while True:
            try:
                await self._run_or_fail(handle)
            except StorageError as error:
                log.error("run loop %s waits where it is: %s", handle.id, error)
                handle.stream(ErrorOccurred(problem=error.problem()))
                await anyio.sleep(self._storage_retry)
            else:
                return

    async def _run_or_fail(self, handle: LoopHandle) -> None:
        failure = await self._failure_of(handle)
        if failure is None:
            return
        if caller_is_cancelled():
            # It is being stopped: what went wrong on the way out is no reason to fail.
            log.warning("run loop %s did not stop cleanly", handle.id, exc_info=failure)
            await anyio.lowlevel.checkpoint_if_cancelled()
            return
        error = unexpected_errors.one_of(failure)
        if isinstance(error, StorageError):
            raise error
        log.error("run loop %s failed", handle.id, exc_info=failure)
        if handle.state.is_active:
            try:
                await handle.emit(RunLoopFailed(problem=unexpected_errors.problem_of(error)))
            except ConflictError:
                log.info("run loop %s has ended meanwhile", handle.id)

    async def _failure_of(self, handle: LoopHandle) -> BaseException | None:
        """Run a loop. What keeps it from going on, from wherever it came; a group as a group."""
        task = asyncio.current_task()
        failure: BaseException | None = None
        ended = False
        try:
            async with anyio.create_task_group() as tasks:
                handle.tasks, handle.early_calls = tasks, EarlyCalls()
                try:
                    await run(handle, self._decide, self._executors)
                    ended = True
                except BaseException as error:  # out of the group it would come wrapped
                    if unexpected_errors.passes_through(error, task):
                        raise
                    failure = error
                finally:
                    handle.early_calls.drop()
        except BaseException as error:
            if unexpected_errors.passes_through(error, task):
                raise
            failure = failure or error
        if failure is None and not ended:
            return asyncio.CancelledError("a task of the loop's was cancelled by its own work")
        return failure


class LoopHandle:
    """A run loop as its executors see it."""

    def __init__(self, memory: Memory, run_loop_id: str) -> None:
        self._memory = memory
        self.id = run_loop_id
        self.tasks: TaskGroup
        self.early_calls = EarlyCalls()
        self.stopping: StopReason | None = None
        state = memory.short_term.state(run_loop_id)
        if state is None:
            raise NotFoundError(f"run loop {run_loop_id} is not active")
        self._last = state

    @property
    def state(self) -> RunLoopState:
        """The newest state; of a loop that has ended, its last."""
        newest = self._memory.short_term.state(self.id)
        if newest is not None:
            self._last = newest
        return self._last

    async def emit(
        self, *bodies: EventBody, durable: bool = False, if_last_seq: int | None = None
    ) -> None:
        """Journal events of this loop."""
        commit = await self._memory.journal.append(
            self.id, *bodies, durable=durable, if_last_seq=if_last_seq
        )
        self._last = commit.state

    def stream(self, body: EventBody) -> None:
        """Show listeners an event that is not journaled."""
        event = Event(
            seq=None,
            at=datetime.now(UTC),
            owner=self._last.owner,
            run_loop_id=self.id,
            body=body,
        )
        self._memory.feed.publish((event,))
