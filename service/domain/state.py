"""A run loop's state, and the fold of events that makes it.

The state is nothing but the fold of the loop's events: `fold` of the same events always gives the
same state, and every prefix of a history folds to a valid one. Valid means that each tool call in
`history` has exactly one result, except those in `pending`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from service.domain.errors import Problem
from service.domain.events import (
    ErrorOccurred,
    Event,
    InputReceived,
    InputRequired,
    IterationStarted,
    LLMRetry,
    MemoryRecalled,
    MessageCompleted,
    MessageDelta,
    MessageReceived,
    ReasoningDelta,
    Recollection,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
    RunLoopStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.messages import Message, ToolCall, ToolResult
from service.domain.run_loops import ACTIVE, Iteration, RunLoop, RunLoopSummary, Status


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that has no result yet."""

    call: ToolCall
    started: bool = False
    """Whether the tool began to run: after a crash its outcome is in doubt."""
    approved: bool | None = None
    """A person's decision; None when none was made."""
    denial: str = ""
    """The reason of a denial, if one was given."""


@dataclass(frozen=True, slots=True)
class RunLoopState:
    """All that is known of a run loop."""

    id: str
    owner: str
    goal: str
    status: Status
    created_at: datetime
    updated_at: datetime
    last_seq: int
    predecessor_id: str | None = None
    completed_at: datetime | None = None
    iterations: tuple[Iteration, ...] = ()
    history: tuple[Message, ...] = ()
    """The conversation that the model sees, without the system prompt."""
    history_size: int = 0
    """Bytes of all messages in `history`, see `Message.size`."""
    unseen: tuple[Message, ...] = ()
    """Messages that came in and wait for the next iteration."""
    pending: tuple[PendingCall, ...] = ()
    awaiting: InputRequired | None = None
    recollections: tuple[Recollection, ...] = ()
    thinking: bool = False
    """Whether the last iteration has started and its message is still to come."""
    iterations_since_user: int = 0
    """Iterations since a person last spoke: what `max_iterations` bounds."""
    input_tokens: int = 0
    output_tokens: int = 0
    problem: Problem | None = None
    """Why the loop failed."""

    @property
    def is_active(self) -> bool:
        """Whether a message can still join."""
        return self.status in ACTIVE

    def run_loop(self) -> RunLoop:
        """The loop as people see it; words not yet observed are its last iteration."""
        return RunLoop(
            id=self.id,
            owner=self.owner,
            goal=self.goal,
            status=self.status,
            iterations=_with_unseen(self).iterations,
            created_at=self.created_at,
            completed_at=self.completed_at,
            predecessor_id=self.predecessor_id,
        )

    def summary(self) -> RunLoopSummary:
        """The loop as a line in a list."""
        return RunLoopSummary(
            id=self.id,
            owner=self.owner,
            goal=self.goal,
            status=self.status,
            created_at=self.created_at,
            updated_at=self.updated_at,
            completed_at=self.completed_at,
            predecessor_id=self.predecessor_id,
            iteration_count=len(self.iterations),
        )


def fold(events: Iterable[Event]) -> RunLoopState | None:
    """The state after these events of one loop, in order; None for no events.

    Raises:
        ValueError: the history does not begin with ``run_loop.started``.
    """
    state: RunLoopState | None = None
    for event in events:
        state = begin(event) if state is None else evolve(state, event)
    return state


def begin(event: Event) -> RunLoopState:
    """The state after a loop's first event.

    Raises:
        ValueError: the event is not ``run_loop.started``.
    """
    if not isinstance(event.body, RunLoopStarted) or event.seq is None:
        raise ValueError(f"a history begins with run_loop.started, not with {event.type}")
    return RunLoopState(
        id=event.run_loop_id,
        owner=event.owner,
        goal=event.body.goal,
        status="running",
        created_at=event.at,
        updated_at=event.at,
        last_seq=event.seq,
        predecessor_id=event.body.predecessor_id,
    )


def evolve(state: RunLoopState, event: Event) -> RunLoopState:
    """The state after one more event. Transient and already applied events change nothing."""
    if event.seq is None or event.seq <= state.last_seq:
        return state
    state = replace(state, last_seq=event.seq, updated_at=event.at)
    match event.body:
        case MessageReceived(message=message):
            status = "running" if state.status == "idle" else state.status
            return replace(state, unseen=(*state.unseen, message), status=status)
        case MemoryRecalled(recollections=recollections):
            return replace(state, recollections=(*state.recollections, *recollections))
        case IterationStarted():
            return _observe(state, event.at)
        case MessageCompleted(message=message):
            return _think(state, message)
        case ToolStarted(call_id=call_id):
            return replace(state, pending=_pending(state, call_id, started=True))
        case ToolFinished(call_id=call_id, content=content, is_error=is_error):
            return _act(state, ToolResult(id=call_id, content=content, is_error=is_error))
        case InputRequired() as request:
            return replace(state, awaiting=request, status="waiting_for_human_input")
        case InputReceived() as answer:
            return _answered(state, answer)
        case Usage(input_tokens=input_tokens, output_tokens=output_tokens):
            return replace(
                state,
                input_tokens=state.input_tokens + input_tokens,
                output_tokens=state.output_tokens + output_tokens,
            )
        case RunLoopIdle():
            return replace(state, status="idle")
        case RunLoopCompleted():
            return _end(state, "completed", event.at)
        case RunLoopFailed(problem=problem):
            return replace(_end(state, "failed", event.at), problem=problem)
        case RunLoopCancelled():
            return _end(state, "cancelled", event.at)
        case RunLoopStarted():
            raise ValueError(f"run loop {state.id} started twice (event {event.seq})")
        case RouteDecided() | LLMRetry() | ErrorOccurred() | ReasoningDelta() | MessageDelta():
            return state
        case _:
            assert_never(event.body)


def _observe(state: RunLoopState, at: datetime) -> RunLoopState:
    words = "\n\n".join(message.text for message in state.unseen)
    heard = bool(state.unseen)
    return replace(
        state,
        status="running",
        iterations=(*state.iterations, Iteration(user_message=words or None, timestamp=at)),
        history=(*state.history, *state.unseen),
        history_size=state.history_size + sum(message.size for message in state.unseen),
        unseen=(),
        thinking=True,
        iterations_since_user=1 if heard else state.iterations_since_user + 1,
    )


def _think(state: RunLoopState, message: Message) -> RunLoopState:
    iteration = state.iterations[-1].model_copy(
        update={
            "reasoning": message.reasoning or None,
            "response": message.text or None,
            "tool_calls": message.tool_calls,
        }
    )
    return replace(
        state,
        iterations=(*state.iterations[:-1], iteration),
        history=(*state.history, message),
        history_size=state.history_size + message.size,
        thinking=False,
        pending=tuple(PendingCall(call) for call in message.tool_calls),
    )


def _act(state: RunLoopState, result: ToolResult) -> RunLoopState:
    if all(waiting.call.id != result.id for waiting in state.pending):
        return state  # a second result of the same call: the first one counts
    last = state.iterations[-1]
    iteration = last.model_copy(update={"tool_results": (*last.tool_results, result)})
    message = Message.tool(result)
    return replace(
        state,
        iterations=(*state.iterations[:-1], iteration),
        history=(*state.history, message),
        history_size=state.history_size + message.size,
        pending=tuple(waiting for waiting in state.pending if waiting.call.id != result.id),
    )


def _pending(state: RunLoopState, call_id: str, *, started: bool) -> tuple[PendingCall, ...]:
    return tuple(
        replace(waiting, started=started) if waiting.call.id == call_id else waiting
        for waiting in state.pending
    )


def _answered(state: RunLoopState, answer: InputReceived) -> RunLoopState:
    request = state.awaiting
    if request is None or request.request_id != answer.request_id:
        return state  # an answer that comes twice, or too late, counts once
    asked = {call.id for call in request.tool_calls}
    return replace(
        state,
        awaiting=None,
        status="running",
        pending=tuple(
            replace(waiting, approved=answer.approved is True, denial=answer.text or "")
            if waiting.call.id in asked
            else waiting
            for waiting in state.pending
        ),
    )


def _with_unseen(state: RunLoopState) -> RunLoopState:
    """The state with words that no iteration has observed in an iteration of their own."""
    return _observe(state, state.updated_at) if state.unseen else state


def _end(state: RunLoopState, status: Status, at: datetime) -> RunLoopState:
    for waiting in state.pending:
        notice = f"Not finished: the run loop was {status} first."
        if waiting.started:
            notice = (
                f"Interrupted, as the run loop was {status}: whether the tool did its work is"
                " unknown. Check before it is called again."
            )
        state = _act(state, ToolResult(id=waiting.call.id, content=notice, is_error=True))
    state = _with_unseen(state)
    return replace(state, status=status, completed_at=at, awaiting=None, thinking=False)
