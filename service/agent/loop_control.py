"""What an owner can do with a run loop besides talking to it: stop, end, resume, fork, replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import anyio
from anyio import to_thread

from service.domain.errors import ConflictError, InvalidInputError, StorageError
from service.domain.history.events import (
    TERMINAL,
    CompactionFinished,
    CompactionRequested,
    Event,
    EventBody,
    ForkPoint,
    MessageCompleted,
    MessageMoved,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopImported,
    RunLoopResumed,
    RunLoopStarted,
    Usage,
)
from service.domain.history.fold import fold
from service.domain.history.fold_moves import is_moved_out
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.state import RunLoopState
from service.domain.ids import new_id
from service.domain.run_loops import RESUMABLE, RunLoop
from service.loop.scheduler import Scheduler
from service.memory.journal.appends import copies_of
from service.memory.journal.event_feed import Feed
from service.memory.journal.protocol import Journal
from service.storage.concurrency import run_to_end

T = TypeVar("T")


class Control:
    """Acts on run loops, on behalf of their owner."""

    def __init__(
        self,
        journal: Journal,
        scheduler: Scheduler,
        feed: Feed,
        *,
        can_compact: Callable[[RunLoopState], bool],
    ) -> None:
        self._journal = journal
        self._scheduler = scheduler
        self._feed = feed
        self._can_compact = can_compact
        self._threads = anyio.CapacityLimiter(2)  # those that are shared may be used up by tools

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
                advice="Send a message with its id to resume it.",
            )
        return state

    async def cancel(self, run_loop_id: str, owner: str) -> RunLoop:
        """See `Agent.cancel`."""
        await self.active(run_loop_id, owner)
        if self._scheduler.is_within(run_loop_id):
            raise ConflictError(
                f"run loop {run_loop_id} cannot be cancelled by its own work, whose end that would"
                " have to wait for",
                advice="Cancel it from outside of its tools and hooks.",
            )
        return await run_to_end(self._cancel(run_loop_id))

    async def _cancel(self, run_loop_id: str) -> RunLoop:
        with _advising("Look at what became of it: somebody else has ended it just now."):
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
        with _advising("Wait until it has answered, or cancel it; if it has ended, all is done."):
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
                " send a message with its id to go on with it.",
            )
        return await run_to_end(self._resume(run_loop_id))

    async def _resume(self, run_loop_id: str) -> RunLoop:
        with _advising("It goes on already: send it a message, or watch it."):
            commit = await self._journal.append(run_loop_id, RunLoopResumed(), durable=True)
        self._scheduler.wake(run_loop_id)
        return commit.state.run_loop()

    async def compact(self, run_loop_id: str, owner: str) -> CompactionFinished:
        """See `Agent.compact`."""
        state = await self.active(run_loop_id, owner)
        if self._scheduler.is_within(run_loop_id):
            raise ConflictError(
                f"run loop {run_loop_id} cannot be summarised by its own work, whose next step that"
                " would have to wait for",
                advice="Do it from outside of its tools and hooks.",
            )
        if state.status == "waiting_for_human_input":
            raise ConflictError(
                f"run loop {run_loop_id} waits for you", advice="Answer it first, or cancel it."
            )
        if not self._can_compact(state):
            raise _nothing_to_compact(run_loop_id)
        seq = await run_to_end(self._request_compaction(run_loop_id))
        changes = self._feed.events(owner=owner, run_loop_id=run_loop_id, after=seq)
        async with aclosing(changes) as events:
            async for event in events:
                match event.body:
                    case CompactionFinished(messages=0):
                        raise _nothing_to_compact(run_loop_id)
                    case CompactionFinished() as done:
                        return done
                    case InputRequired():
                        raise ConflictError(
                            f"run loop {run_loop_id} waits for you now",
                            advice="It is summarised once you have answered.",
                        )
                    case body if isinstance(body, TERMINAL):
                        break
                    case _:
                        pass
        raise ConflictError(
            f"run loop {run_loop_id} has ended before it could be summarised",
            advice="Send a message with its id to resume it.",
        )

    async def _request_compaction(self, run_loop_id: str) -> int:
        """Journal the wish; its number. From there on it is carried out, whoever waits for it."""
        with _advising("It has ended just now."):
            commit = await self._journal.append(run_loop_id, CompactionRequested(), durable=True)
        self._scheduler.wake(run_loop_id)
        return commit.state.last_seq

    async def fork(self, run_loop_id: str, owner: str, at: int | None) -> RunLoop:
        """See `Agent.fork`."""
        return await run_to_end(self._fork(run_loop_id, owner, at))

    async def _fork(self, run_loop_id: str, owner: str, at: int | None) -> RunLoop:
        while True:
            await self._journal.run_loops.check_owner(run_loop_id, owner=owner)
            read_at = self._journal.lost_words_at
            events = await self._in_thread(history_to_copy, self._journal, run_loop_id, at)
            copies = copies_of(new_id(), events, owner=owner, read_at=read_at)
            try:
                [fork] = await self._journal.append_together(copies)
            except ConflictError:
                if self._journal.lost_words_at == read_at:
                    raise
            else:  # no words were forgotten meanwhile
                self._scheduler.wake(fork.state.id)
                return fork.state.run_loop()

    async def replay(self, run_loop_id: str, owner: str, at: int | None) -> RunLoopState:
        """See `Agent.replay`."""
        if at is None:
            return await self._journal.replay(run_loop_id, owner=owner)
        await self._journal.run_loops.check_owner(run_loop_id, owner=owner)
        return await self._in_thread(_state, self._journal, run_loop_id, at)

    async def _in_thread(
        self,
        work: Callable[[Journal, str, int | None], T],
        journal: Journal,
        run_loop_id: str,
        at: int | None,
    ) -> T:
        """Read and fold where a long history holds up nobody."""
        try:
            return await to_thread.run_sync(work, journal, run_loop_id, at, limiter=self._threads)
        except ValueError as error:  # pydantic's errors are of this kind too
            raise StorageError(
                f"the history of run loop {run_loop_id} cannot be read: {error}",
                advice="It may be of a newer version of Rondo; the other run loops go on.",
            ) from error


def _nothing_to_compact(run_loop_id: str) -> ConflictError:
    return ConflictError(
        f"there is nothing to summarise in run loop {run_loop_id}: no summary of what is old would"
        " be shorter",
        advice="Old rounds of it are summarised by themselves before the window is full.",
    )


@contextmanager
def _advising(advice: str) -> Iterator[None]:
    """Say what to do where the journal only says that something else came first."""
    try:
        yield
    except ConflictError as error:
        if error.advice:
            raise
        raise ConflictError(error.detail, advice=advice) from error


def _history(journal: Journal, run_loop_id: str, at: int | None) -> list[Event]:
    events = journal.read_blocking(run_loop_id=run_loop_id)
    return [event for event in events if at is None or (event.seq or 0) <= at]


def _state(journal: Journal, run_loop_id: str, at: int | None) -> RunLoopState:
    state = fold(_history(journal, run_loop_id, at))
    if state is None:
        raise _no_event(run_loop_id, at)
    return state


def _no_event(run_loop_id: str, at: int | None) -> InvalidInputError:
    return InvalidInputError(
        f"run loop {run_loop_id} has no event up to {at}",
        advice="`rondo loops watch` shows the numbers of its events.",
    )


def history_to_copy(journal: Journal, run_loop_id: str, at: int | None) -> list[Event]:
    """What a fork begins with: the same events, but for what was for the first loop alone.

    That is what it has paid for, and a person's yes to calls that have not begun: it was for one
    run, and the fork asks again.
    """
    events = _history(journal, run_loop_id, None)
    newest = events[-1].seq if events else None
    if at is not None and newest is not None and at > newest:
        raise InvalidInputError(
            f"run loop {run_loop_id} has no event {at}: its newest is {newest}",
            advice="`rondo loops watch` shows the numbers of its events.",
        )
    events = [event for event in events if at is None or (event.seq or 0) <= at]
    if events and isinstance(events[-1].body, TERMINAL):
        events.pop()  # what had not ended yet can go on
    state = fold(events)
    if state is None:
        raise _no_event(run_loop_id, at)
    last_move = next((e.body for e in reversed(events) if isinstance(e.body, MessageMoved)), None)
    if last_move is not None and is_moved_out(state):
        raise ConflictError(
            f"run loop {run_loop_id} has nothing left: all of it was moved, the last of it to"
            f" {last_move.to_run_loop_id}",
            advice="Fork that one; or fork this one at an event before the move.",
        )
    now = datetime.now(UTC)
    point = ForkPoint(run_loop_id=state.id, seq=state.last_seq)
    first: EventBody = RunLoopStarted(goal=state.goal, predecessor_id=state.id, forked_from=point)
    copies = [events[0].model_copy(update={"body": first, "at": now})]
    left_out = _unused_approvals(events, state)
    # What was brought in last from a file holds all the words that came before it.
    brought_in = (n for n, event in enumerate(events) if isinstance(event.body, RunLoopImported))
    words = max(brought_in, default=1)
    copies += [
        event
        for event in events[words:]
        if not isinstance(event.body, Usage) and event.seq not in left_out
    ]
    # It rests, or waits, from now on.
    copies[-1] = copies[-1].model_copy(update={"at": now})
    return copies


def _unused_approvals(events: list[Event], state: RunLoopState) -> set[int | None]:
    """The numbers of the answers that approved calls which have not begun."""
    unused = {each.call.id for each in state.pending if each.approved and not each.started}
    asking: set[str] = set()
    approving: set[int | None] = set()
    if not unused:
        return approving
    for event in events:
        match event.body:
            case MessageCompleted():  # calls of earlier messages may have had the same ids
                asking, approving = set(), set()
            case InputRequired(kind="approve", request_id=request_id, tool_calls=calls):
                if any(call.id in unused for call in calls):
                    asking.add(request_id)
            case InputReceived(request_id=request_id) if request_id in asking:
                approving.add(event.seq)
    return approving
