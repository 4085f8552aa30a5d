"""What an owner can do with a run loop besides talking to it: stop, end, resume, fork, replay."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio

from service.agent.scheduler import Scheduler
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.events import (
    TERMINAL,
    Event,
    EventBody,
    ForkPoint,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopResumed,
    RunLoopStarted,
    Usage,
)
from service.domain.fold import fold
from service.domain.ids import new_id
from service.domain.run_loops import RESUMABLE, RunLoop
from service.domain.state import RunLoopState
from service.memory.journal import Journal


class Control:
    """Acts on run loops, on behalf of their owner."""

    def __init__(self, journal: Journal, scheduler: Scheduler) -> None:
        self._journal = journal
        self._scheduler = scheduler

    async def active(self, run_loop_id: str, owner: str) -> RunLoopState:
        """The state of a loop that has not ended.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended.
        """
        state = await self._journal.replay(run_loop_id, owner=owner)
        if not state.is_active:
            raise ConflictError(
                f"run loop {run_loop_id} is {state.status} already",
                advice="Send a message with its id to take the matter up again.",
            )
        return state

    async def cancel(self, run_loop_id: str, owner: str) -> RunLoop:
        """See `Agent.cancel`."""
        await self.active(run_loop_id, owner)
        with anyio.CancelScope(shield=True):
            async with self._scheduler.held(run_loop_id, "cancel"):
                commit = await self._journal.append(run_loop_id, RunLoopCancelled(), durable=True)
        return commit.state.run_loop()

    async def complete(self, run_loop_id: str, owner: str) -> RunLoop:
        """See `Agent.complete`."""
        state = await self.active(run_loop_id, owner)
        if state.status != "idle":
            raise ConflictError(
                f"run loop {run_loop_id} is {state.status.replace('_', ' ')}",
                advice="Wait until it has answered, or cancel it.",
            )
        commit = await self._journal.append(
            run_loop_id, RunLoopCompleted(), durable=True, if_last_seq=state.last_seq
        )
        return commit.state.run_loop()

    async def resume(self, run_loop_id: str, owner: str) -> RunLoop:
        """See `Agent.resume`."""
        state = await self._journal.replay(run_loop_id, owner=owner)
        if state.status not in RESUMABLE:
            raise ConflictError(
                f"run loop {run_loop_id} is {state.status.replace('_', ' ')}",
                advice="Only one that was cancelled or has failed can be taken up where it ended;"
                " send a message with its id to go on with the matter.",
            )
        commit = await self._journal.append(run_loop_id, RunLoopResumed(), durable=True)
        self._scheduler.wake(run_loop_id)
        return commit.state.run_loop()

    async def fork(self, run_loop_id: str, owner: str, at: int | None) -> RunLoop:
        """See `Agent.fork`."""
        await self._journal.run_loops.check_owner(run_loop_id, owner=owner)
        events = await self._journal.read(run_loop_id=run_loop_id)
        common = [event for event in events if at is None or (event.seq or 0) <= at]
        if common and isinstance(common[-1].body, TERMINAL):
            common.pop()  # what had not ended yet can go on
        if not common or (state := fold(common)) is None:
            raise InvalidInputError(
                f"run loop {run_loop_id} has no event up to {at}",
                advice="`rondo loops watch` shows the numbers of its events.",
            )
        copies = _copies(common, state)
        fork = await self._journal.append_copies(new_id(), copies, owner=owner)
        self._scheduler.wake(fork.state.id)
        return fork.state.run_loop()

    async def replay(self, run_loop_id: str, owner: str, at: int | None) -> RunLoopState:
        """See `Agent.replay`."""
        if at is None:
            return await self._journal.replay(run_loop_id, owner=owner)
        await self._journal.run_loops.check_owner(run_loop_id, owner=owner)
        events = await self._journal.read(run_loop_id=run_loop_id)
        state = fold(event for event in events if (event.seq or 0) <= at)
        if state is None:
            raise InvalidInputError(
                f"run loop {run_loop_id} has no event up to {at}",
                advice="`rondo loops watch` shows the numbers of its events.",
            )
        return state


def _copies(events: list[Event], state: RunLoopState) -> list[Event]:
    """What the fork begins with: the same events, but for what the first loop has paid for."""
    now = datetime.now(UTC)
    point = ForkPoint(run_loop_id=state.id, seq=state.last_seq)
    first: EventBody = RunLoopStarted(goal=state.goal, predecessor_id=state.id, forked_from=point)
    copies = [events[0].model_copy(update={"body": first, "at": now})]
    copies += [event for event in events[1:] if not isinstance(event.body, Usage)]
    # It rests, or waits, from now on.
    copies[-1] = copies[-1].model_copy(update={"at": now})
    return copies
