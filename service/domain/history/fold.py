"""The fold: from a run loop's events to its state.

The state is nothing but the fold of the loop's events: `fold` of the same events always gives the
same state, and every prefix of a history folds to a valid one. A step takes the same time however
long the history is; but a ``message.moved``, which takes words out of it, time in proportion to it,
and so does a tool that has its result before one that was called before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, assert_never

from service.domain.conversation.messages import Message, NotePart
from service.domain.errors import LLMContextError
from service.domain.history.events import (
    CompactionFinished,
    CompactionRequested,
    CompactionStarted,
    ErrorOccurred,
    Event,
    IterationAbandoned,
    IterationStarted,
    LLMFallback,
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
    ToolOutput,
    ToolStarted,
    Usage,
)
from service.domain.history.fold_answers import answered, asked
from service.domain.history.fold_moves import moved_away
from service.domain.history.fold_results import with_closed_calls, with_finished, with_started
from service.domain.history.growing import Growing
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.imported import grown, imported
from service.domain.history.state import (
    PendingCall,
    Recalled,
    RunLoopState,
    UnseenMessage,
    changed,
    named_model,
    open_iteration,
    with_messages,
)
from service.domain.run_loops import Iteration, Status


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
    if state.allowed_narrowly:  # what is over stays over, also where the clock is set back
        left = tuple(rule for rule in state.allowed_narrowly if not rule.is_over(event.at))
        state = changed(state, allowed_narrowly=left)
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
            return with_started(state, began)
        case ToolFinished() as finished:
            return with_finished(state, finished)
        case InputRequired() as request:
            return asked(state, request)
        case InputReceived() as answer:
            return answered(state, answer)
        case CompactionRequested():
            status = "running" if state.status == "idle" else state.status
            return changed(state, compacting=True, status=status)
        case CompactionFinished() as compaction:
            return changed(_compact(state, compaction), before_answer=None)
        case Usage() as usage:
            return _account(state, usage)
        case RunLoopInterrupted():
            state = with_closed_calls(state, "a new message of the person's came in its place")
            return changed(state, status="running", awaiting=None, thinking=False)
        case RunLoopIdle():
            return changed(state, status="idle", enhanced=True)
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
            return changed(grown(state, run_loop), taken_back=(), before_answer=None)
        case RunLoopStarted():
            raise ValueError(f"run loop {state.id} started twice (event {event.seq})")
        case RouteDecided() | LLMRetry() | LLMFallback() | CompactionStarted():
            return state
        case ReasoningDelta() | MessageDelta() | ToolOutput():
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
        model=received.model,
    )
    status = "running" if state.status == "idle" else state.status
    words = received.message.words.strip()
    if state.goal_moved and words:
        state = changed(state, goal=words, goal_moved=False)
    return changed(state, unseen=(*state.unseen, unseen), status=status)


def _observe(state: RunLoopState, started: IterationStarted, at: datetime) -> RunLoopState:
    message_ids = started.message_ids
    seen = [each for each in state.unseen if message_ids is None or each.id in message_ids]
    words = "\n\n".join(each.message.words for each in seen)
    messages = [each.message for each in seen]
    if started.nudge is not None:
        messages.append(Message(role="user", content=(NotePart(note=started.nudge),)))
    heard = bool(seen)
    return changed(
        with_messages(state, *messages),
        status="running",
        closed_iterations=_closed(state),
        taken_back=(),
        before_answer=None if heard else state.before_answer,
        iteration=Iteration(
            user_message=words or None,
            timestamp=at,
            metadata=_metadata(state, seen),
            forgotten=started.forgotten,
        ),
        unseen=tuple(each for each in state.unseen if each not in seen),
        model=named_model(seen, state.model),
        cut=False,
        cut_off=False,
        continuations=state.continuations + 1 if started.continues else 0,
        thinking=True,
        enhanced=(state.enhanced and not heard) or _asks_for_better(state, started),
        iterations_since_user=1 if heard else state.iterations_since_user + 1,
        failures=0 if heard else state.failures,
        failing={} if heard else state.failing,
        repetitions=0 if heard else state.repetitions,
        last_outcomes=() if heard else state.last_outcomes,
    )


def _asks_for_better(state: RunLoopState, started: IterationStarted) -> bool:
    """Whether a nudge asks for a better answer; and not for the rest of one that was stopped."""
    return started.nudge is not None and not started.continues and not state.cut


def _metadata(state: RunLoopState, seen: Sequence[UnseenMessage]) -> dict[str, Any]:
    """What came along with the messages observed; a step of the same round has its round's."""
    if not seen:
        return state.iteration.metadata if state.iteration else {}
    return {name: value for each in seen for name, value in each.metadata.items()}


def _closed(state: RunLoopState) -> Growing[Iteration]:
    if state.iteration is None:
        return state.closed_iterations
    return state.closed_iterations.plus(state.iteration, *state.taken_back)


# --- think


def _think(state: RunLoopState, completed: MessageCompleted) -> RunLoopState:
    message = completed.message
    iteration = open_iteration(state).model_copy(
        update={
            "reasoning": message.reasoning or None,
            "response": message.text or None,
            "tool_calls": message.tool_calls,
            "finish_reason": completed.finish_reason,
            "response_id": completed.response_id,
        }
    )
    return changed(
        with_messages(state, message),
        iteration=iteration,
        cut=completed.cut,
        # Where it wants tools to be called, it goes on from their results.
        cut_off=completed.finish_reason == "length" and not message.tool_calls,
        thinking=False,
        compacted=False,
        overflowed=False,
        pending=tuple(PendingCall(call) for call in message.tool_calls),
    )


def _abandon(state: RunLoopState) -> RunLoopState:
    """The state without the words that asked for a better answer, or for the rest of one."""
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
        # What was recalled beside a message that is gone stands beside the first from now on; but
        # what was to be heeded there is told anew where it matters.
        recalled=tuple(
            replace(each, index=each.index - gone + len(new))
            if each.index >= gone
            else replace(each, index=0, pieces=tuple(p for p in each.pieces if not p.heed))
            for each in state.recalled
        ),
        compacting=False,
        compacted=state.compacted or not state.compacting,
        overflowed=False,
        measured_tokens=0,
        measured_size=0,
    )


# --- end


def _end(state: RunLoopState, status: Status, at: datetime) -> RunLoopState:
    # What nobody has observed yet waits on: it lands when the loop is resumed.
    state = with_closed_calls(state, f"the run loop was {status}")
    return changed(
        state, status=status, completed_at=at, awaiting=None, thinking=False, compacting=False
    )
