"""What the results of tool calls change in a run loop."""

from __future__ import annotations

from dataclasses import replace

from service.domain.conversation.messages import Message, ToolResult
from service.domain.history.events import ToolFinished, ToolStarted
from service.domain.history.growing import Growing
from service.domain.history.state import (
    OUTCOME_UNKNOWN,
    PendingCall,
    RunLoopState,
    changed,
    open_iteration,
    with_messages,
)
from service.domain.run_loops import Iteration


def with_started(state: RunLoopState, began: ToolStarted) -> RunLoopState:
    """The state in which a tool has begun to run."""
    pending = tuple(
        _begun(waiting, began) if waiting.call.id == began.call_id else waiting
        for waiting in state.pending
    )
    return changed(state, pending=pending)


def _begun(waiting: PendingCall, began: ToolStarted) -> PendingCall:
    if waiting.kept is not None:  # it goes on with an answer, which is used up by that
        waiting = replace(waiting, kept=None, answer=None)
    return replace(waiting, started=True, idempotency_key=began.idempotency_key)


def with_finished(state: RunLoopState, finished: ToolFinished) -> RunLoopState:
    """The state in which a call has its result; the first one counts."""
    matching = [waiting for waiting in state.pending if waiting.call.id == finished.call_id]
    if not matching:
        return state  # a second result of the same call: the first one counts
    whole = finished.content if finished.whole is None else finished.whole
    result = ToolResult(
        id=finished.call_id,
        content=whole,
        is_error=finished.is_error,
        notice=finished.notice or _is_notice(matching[0], finished),
        outside=finished.outside,
    )
    shown = result.model_copy(update={"content": finished.content})
    iteration = open_iteration(state)
    iteration = iteration.model_copy(update={"tool_results": (*iteration.tool_results, result)})
    pending = tuple(each for each in state.pending if each.call.id != finished.call_id)
    state = changed(
        _with_result(state, Message.tool(shown)),
        iteration=iteration,
        pending=pending,
        cut_results=state.cut_results or finished.whole is not None,
    )
    return state if pending else _look_back(state, iteration)


def with_closed_calls(state: RunLoopState, why: str) -> RunLoopState:
    """The state in which every call has its result: what a person has said to it, if they have."""
    for waiting in state.pending:
        notice = f"Not run: {why} first."
        if waiting.started:
            notice = (
                f"Interrupted, as {why}: whether the tool did its work is unknown. Check before it"
                " is called again."
            )
        closed = ToolFinished(
            call_id=waiting.call.id,
            name=waiting.call.name,
            content=notice if waiting.words is None else waiting.words,
            is_error=waiting.words is None,
            notice=waiting.words is None,
        )
        state = with_finished(state, closed)
    return state


def _with_result(state: RunLoopState, result: Message) -> RunLoopState:
    """The state with a result in the history: in the order of the calls, whichever ended first."""
    order = [call.id for call in open_iteration(state).tool_calls]
    later = set(order[order.index(result.tool_call_id or "") + 1 :])
    at = len(state.history)
    while at and later and state.history[at - 1].tool_call_id in later:
        at -= 1
    if at == len(state.history):
        return with_messages(state, result)
    return changed(
        state,
        history=Growing((*state.history[:at], result, *state.history[at:])),
        history_size=state.history_size + result.size,
    )


def _is_notice(waiting: PendingCall, finished: ToolFinished) -> bool:
    """Whether a result whose event does not say so, as in older journals, is no tool's.

    Where no tool has begun and no person has answered, nobody but Rondo has spoken.
    """
    nothing_ran = not waiting.started and waiting.answer is None and not waiting.said
    return nothing_ran or finished.content == OUTCOME_UNKNOWN


def _look_back(state: RunLoopState, iteration: Iteration) -> RunLoopState:
    """All calls of a step have their results: did it get anywhere?"""
    results = {result.id: result for result in iteration.tool_results}
    outcomes = tuple(
        (call.name, call.arguments, results[call.id].content) for call in iteration.tool_calls
    )
    failed = all(result.is_error for result in iteration.tool_results)
    names = {call.name for call in iteration.tool_calls}
    worked = {call.name for call in iteration.tool_calls if not results[call.id].is_error}
    same = outcomes == state.last_outcomes
    return changed(
        state,
        failures=state.failures + 1 if failed else 0,
        failing={name: state.failing.get(name, 0) + 1 for name in names - worked},
        repetitions=state.repetitions + 1 if same else 1,
        last_outcomes=outcomes,
    )
