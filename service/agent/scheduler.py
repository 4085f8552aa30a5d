"""The scheduler: one task for each run loop that is running, and the means to stop it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from service.agent.brain import Brain
from service.agent.executors import Executor
from service.agent.runner import run
from service.domain.errors import NotFoundError, Problem, RondoError
from service.domain.events import ErrorOccurred, Event, EventBody, RunLoopFailed
from service.domain.instructions import InstructionKind
from service.domain.state import RunLoopState
from service.memory.memory import Memory

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Run:
    """A loop's task."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class Scheduler:
    """Runs loops. A loop has at most one task; it has one exactly while it is running."""

    def __init__(
        self,
        group: TaskGroup,
        memory: Memory,
        brain: Brain,
        executors: Mapping[InstructionKind, Executor],
    ) -> None:
        self._group = group
        self._memory = memory
        self._brain = brain
        self._executors = executors
        self._runs: dict[str, _Run] = {}
        self._stopping: set[str] = set()

    def wake(self, run_loop_id: str) -> None:
        """See to it that a loop goes on, if it has something to do."""
        state = self._memory.short_term.state(run_loop_id)
        if state is None or state.status != "running":
            return
        if run_loop_id in self._runs or run_loop_id in self._stopping:
            return
        self._runs[run_loop_id] = _Run()
        self._group.start_soon(self._run, run_loop_id, name=f"run loop {run_loop_id}")

    def is_running(self, run_loop_id: str) -> bool:
        """Whether a loop's task is at work."""
        return run_loop_id in self._runs

    async def stop(self, run_loop_id: str) -> None:
        """Stop a loop's task and wait until its work has really ended. `release` lets it go on."""
        self._stopping.add(run_loop_id)
        running = self._runs.get(run_loop_id)
        if running is not None:
            running.scope.cancel()
            await running.ended.wait()

    def release(self, run_loop_id: str) -> None:
        """After `stop`: the loop may run again."""
        self._stopping.discard(run_loop_id)
        self.wake(run_loop_id)

    async def _run(self, run_loop_id: str) -> None:
        running = self._runs[run_loop_id]
        parked = False
        try:
            with running.scope:
                handle = LoopHandle(self._memory, run_loop_id)
                parked = not await self._guarded(handle)
        finally:
            # From here to the next await nothing can come between: a message that came in while
            # the loop was coming to rest finds no task, and starts one.
            del self._runs[run_loop_id]
            running.ended.set()
        if not parked:
            self.wake(run_loop_id)

    async def _guarded(self, handle: LoopHandle) -> bool:
        """Run a loop; False when it had to be left where it was."""
        try:
            await run(handle, self._brain, self._executors)
        except RondoError as error:
            # Nothing could be journaled, so nothing is: the loop stays as it was, and goes on
            # with its next message or the next start.
            log.error("run loop %s is left where it was: %s", handle.id, error)
            handle.stream(ErrorOccurred(problem=error.problem()))
            return False
        except Exception as error:
            log.exception("run loop %s failed", handle.id)
            problem = Problem(
                kind="internal",
                title="The assistant made a mistake of its own",
                detail=f"{type(error).__name__}: {error}",
                advice="Please report it; the daemon's log has the details.",
            )
            await handle.emit(RunLoopFailed(problem=problem))
        return True


class LoopHandle:
    """A run loop as its executors see it."""

    def __init__(self, memory: Memory, run_loop_id: str) -> None:
        self._memory = memory
        self.id = run_loop_id
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
