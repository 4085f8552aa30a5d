"""The fold: from a run loop's events to its state.

The state is nothing but the fold of the loop's events: `fold` of the same events always gives the
same state, and every prefix of a history folds to a valid one. A step takes the same time however
long the history is; but a ``message.moved``, which takes words out of it, time in proportion to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, assert_never

from service.domain.answered import answered
from service.domain.errors import LLMContextError
from service.domain.events import (
    CompactionFinished,
    CompactionStarted,
    ErrorOccurred,
    Event,
    InputReceived,
    InputRequired,
    IterationAbandoned,
    IterationStarted,
    LLMRetry,
    MemoryRecalled,
    MessageCompleted,
    MessageDelta,
    MessageMoved,
    MessageReceived,
    ReasoningDelta,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
    RunLoopImported,
    RunLoopInterrupted,
    RunLoopResumed,
    RunLoopStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.growing import Growing
from service.domain.imported import grown, imported
from service.domain.messages import Message, NotePart, ToolResult
from service.domain.moved import moved_away
from service.domain.run_loops import Iteration, Status
from service.domain.state import (
    PendingCall,
    Recalled,
    RunLoopState,
    UnseenMessage,
    changed,
)


def fold(events: Iterable[Event]) -> RunLoopState | None:
    """The state after these events of one loop, in order; None for no events.

    Raises:
        ValueError: the history does not begin with ``run_loop.started`` or ``.imported``.
    """
    state: RunLoopState | None = None
    for event in events:
        state = begin(event) if state is None else evolve(state, event)
    return state


def begin(event: Event) -> RunLoopState:
    """The state after a loop's first event.

    Raises:
        ValueError: the event is neither ``run_loop.started`` nor ``run_loop.imported``.
    """
    if isinstance(event.body, RunLoopImported) and event.seq is not None:
        return imported(event, event.body.run_loop)
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
        forked_from=event.body.forked_from,
    )


def evolve(state: RunLoopState, event: Event) -> RunLoopState:
    """The state after one more event. Transient and already applied events change nothing."""
    if event.seq is None or event.seq <= state.last_seq:
        return state
    state = changed(state, last_seq=event.seq, updated_at=event.at)
    match event.body:
        case MessageReceived() as received:
            return _receive(state, received)
        case MessageMoved() as moved:
            return moved_away(state, moved)
        case MemoryRecalled(recollections=()):
            return state  # it was forgotten since
        case MemoryRecalled(recollections=pieces):
            return changed(state, recalled=(*state.recalled, Recalled(len(state.history), pieces)))
        case IterationStarted() as started:
            return _observe(state, started, event.at)
        case IterationAbandoned():
            return _abandon(state)
        case MessageCompleted() as completed:
            return _think(state, completed)
        case ToolStarted() as began:
            return changed(state, pending=_started(state, began))
        case ToolFinished() as finished:
            return _finish_call(state, finished)
        case InputRequired() as request:
            return changed(state, awaiting=request, status="waiting_for_human_input")
        case InputReceived() as answer:
            return answered(state, answer)
        case CompactionFinished() as compaction:
            return _compact(state, compaction)
        case Usage() as usage:
            return _account(state, usage)
        case RunLoopInterrupted():
            state = _close_calls(state, "a new message of the person's came in its place")
            return changed(state, status="running", awaiting=None, thinking=False)
        case RunLoopIdle():
            return changed(state, status="idle")
        case RunLoopResumed():
            # What was tried before the end may be tried again: compacting, above all.
            return changed(
                state, status="running", completed_at=None, problem=None, compacted=False
            )
        case RunLoopCompleted():
            return _end(state, "completed", event.at)
        case RunLoopFailed(problem=problem):
            return changed(_end(state, "failed", event.at), problem=problem)
        case RunLoopCancelled():
            return _end(state, "cancelled", event.at)
        case ErrorOccurred(problem=problem):
            overflowed = state.overflowed or problem.kind == LLMContextError.kind
            return changed(state, overflowed=overflowed)
        case RunLoopImported(run_loop=run_loop):
            return grown(state, run_loop)
        case RunLoopStarted():
            raise ValueError(f"run loop {state.id} started twice (event {event.seq})")
        case RouteDecided() | LLMRetry() | CompactionStarted() | ReasoningDelta() | MessageDelta():
            return state
        case _:
            assert_never(event.body)


# --- observe


def _receive(state: RunLoopState, received: MessageReceived) -> RunLoopState:
    unseen = UnseenMessage(
        received.message_id,
        received.message,
        received.mode,
        received.metadata,
        at=state.updated_at,
    )
    status = "running" if state.status == "idle" else state.status
    words = received.message.text.strip()
    if state.goal_moved and words:
        state = changed(state, goal=words, goal_moved=False)
    return changed(state, unseen=(*state.unseen, unseen), status=status)


def _observe(state: RunLoopState, started: IterationStarted, at: datetime) -> RunLoopState:
    wanted = started.message_ids
    seen = [each for each in state.unseen if wanted is None or each.id in wanted]
    words = "\n\n".join(each.message.text for each in seen)
    messages = [each.message for each in seen]
    if started.nudge is not None:
        messages.append(Message(role="user", content=(NotePart(note=started.nudge),)))
    heard = bool(seen)
    return changed(
        _with_messages(state, *messages),
        status="running",
        closed_iterations=_closed(state),
        iteration=Iteration(
            user_message=words or None,
            timestamp=at,
            metadata=_metadata(state, seen),
            forgotten=started.forgotten,
        ),
        unseen=tuple(each for each in state.unseen if each not in seen),
        cut=False,
        thinking=True,
        # After an answer that was stopped, a nudge asks for the rest of it, not for a better one.
        enhanced=state.enhanced or (started.nudge is not None and not state.cut),
        iterations_since_user=1 if heard else state.iterations_since_user + 1,
        failures=0 if heard else state.failures,
        repetitions=0 if heard else state.repetitions,
        last_outcomes=() if heard else state.last_outcomes,
    )


def _metadata(state: RunLoopState, seen: Sequence[UnseenMessage]) -> dict[str, Any]:
    """What came along with the messages observed; a step of the same round has its round's."""
    if not seen:
        return state.iteration.metadata if state.iteration else {}
    return {name: value for each in seen for name, value in each.metadata.items()}


def _open_iteration(state: RunLoopState) -> Iteration:
    if state.iteration is None:
        raise ValueError(f"run loop {state.id} has no iteration that this could belong to")
    return state.iteration


def _closed(state: RunLoopState) -> Growing[Iteration]:
    if state.iteration is None:
        return state.closed_iterations
    return state.closed_iterations.plus(state.iteration)


# --- think


def _think(state: RunLoopState, completed: MessageCompleted) -> RunLoopState:
    message = completed.message
    iteration = _open_iteration(state).model_copy(
        update={
            "reasoning": message.reasoning or None,
            "response": message.text or None,
            "tool_calls": message.tool_calls,
        }
    )
    return changed(
        _with_messages(state, message),
        iteration=iteration,
        cut=completed.cut,
        thinking=False,
        compacted=False,
        overflowed=False,
        pending=tuple(PendingCall(call) for call in message.tool_calls),
    )


def _abandon(state: RunLoopState) -> RunLoopState:
    """The state without the words that asked for a better answer."""
    if not state.thinking or not state.history:
        return state
    asked = state.history[-1]
    return changed(
        state,
        history=Growing(state.history[:-1]),
        history_size=state.history_size - asked.size,
        thinking=False,
    )


def _account(state: RunLoopState, usage: Usage) -> RunLoopState:
    state = changed(
        state,
        input_tokens=state.input_tokens + usage.input_tokens,
        output_tokens=state.output_tokens + usage.output_tokens,
        cached_input_tokens=state.cached_input_tokens + usage.cached_input_tokens,
        cost=state.cost if usage.cost is None else (state.cost or 0.0) + usage.cost,
    )
    if usage.purpose != "answer" or usage.estimated or not usage.input_tokens:
        return state
    return changed(
        state,
        # The answer's own tokens count reasoning too, which is never sent again.
        measured_tokens=usage.input_tokens,
        measured_size=state.history_size - (state.history[-1].size if state.history else 0),
    )


def _compact(state: RunLoopState, compaction: CompactionFinished) -> RunLoopState:
    gone, new = compaction.messages, compaction.replacement
    history = Growing((*new, *state.history[gone:]))
    return changed(
        state,
        history=history,
        history_size=sum(message.size for message in history),
        # What was recalled beside a message that is gone stands beside the first from now on.
        recalled=tuple(
            replace(each, index=each.index - gone + len(new) if each.index >= gone else 0)
            for each in state.recalled
        ),
        compacted=True,
        overflowed=False,
        measured_tokens=0,
        measured_size=0,
    )


# --- act


def _started(state: RunLoopState, began: ToolStarted) -> tuple[PendingCall, ...]:
    return tuple(
        replace(waiting, started=True, idempotency_key=began.idempotency_key)
        if waiting.call.id == began.call_id
        else waiting
        for waiting in state.pending
    )


def _finish_call(state: RunLoopState, finished: ToolFinished) -> RunLoopState:
    if all(waiting.call.id != finished.call_id for waiting in state.pending):
        return state  # a second result of the same call: the first one counts
    whole = finished.content if finished.whole is None else finished.whole
    result = ToolResult(id=finished.call_id, content=whole, is_error=finished.is_error)
    shown = result.model_copy(update={"content": finished.content})
    iteration = _open_iteration(state)
    iteration = iteration.model_copy(update={"tool_results": (*iteration.tool_results, result)})
    pending = tuple(each for each in state.pending if each.call.id != finished.call_id)
    state = changed(
        _with_messages(state, Message.tool(shown)),
        iteration=iteration,
        pending=pending,
        cut_results=state.cut_results or finished.whole is not None,
    )
    return state if pending else _look_back(state, iteration)


def _look_back(state: RunLoopState, iteration: Iteration) -> RunLoopState:
    """All calls of a step have their results: did it get anywhere?"""
    results = {result.id: result for result in iteration.tool_results}
    outcomes = tuple(
        (call.name, call.arguments, results[call.id].content) for call in iteration.tool_calls
    )
    failed = all(result.is_error for result in iteration.tool_results)
    same = outcomes == state.last_outcomes
    return changed(
        state,
        failures=state.failures + 1 if failed else 0,
        repetitions=state.repetitions + 1 if same else 1,
        last_outcomes=outcomes,
    )


# --- end


def _end(state: RunLoopState, status: Status, at: datetime) -> RunLoopState:
    # What nobody has observed yet waits on: it lands when the loop is resumed.
    state = _close_calls(state, f"the run loop was {status}")
    return changed(state, status=status, completed_at=at, awaiting=None, thinking=False)


def _close_calls(state: RunLoopState, why: str) -> RunLoopState:
    """The state in which every call has its result."""
    for waiting in state.pending:
        notice = f"Not run: {why} first."
        if waiting.started:
            notice = (
                f"Interrupted, as {why}: whether the tool did its work is unknown. Check before it"
                " is called again."
            )
        closed = ToolFinished(
            call_id=waiting.call.id, name=waiting.call.name, content=notice, is_error=True
        )
        state = _finish_call(state, closed)
    return state


def _with_messages(state: RunLoopState, *messages: Message) -> RunLoopState:
    if not messages:
        return state
    return changed(
        state,
        history=state.history.plus(*messages),
        history_size=state.history_size + sum(message.size for message in messages),
    )
