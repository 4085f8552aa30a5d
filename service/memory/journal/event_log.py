"""The log of what happens in run loops, at ``debug``: a line an event, with the loop's id.

It says what was done, by ids, names of tools, counts and times, and never what anybody said: a log
is copied around, and nothing is forgotten in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from service.domain.conversation.messages import ToolCall
from service.domain.history import events, human_input

log = logging.getLogger(__name__)


def log_events(happened: Iterable[events.Event]) -> None:
    """Write a line for each event."""
    for event in happened:
        said = " ".join(without_words(event.body).split())  # a model can call a tool anything
        log.debug("run loop %s: %s", event.run_loop_id, f"{event.type} {said}".strip())


def without_words(body: events.EventBody) -> str:
    """What an event says of itself that nobody has said.

    >>> without_words(events.ToolFinished(call_id="c0", name="add", content="4", is_error=False))
    "'add' (c0), 1 character"
    """
    match body:
        case events.MessageReceived(message_id=message_id, message=message, mode=mode):
            return f"{message_id} ({mode}), {_length(message.text)}"
        case events.RouteDecided(message_id=message_id, route=route):
            took = "" if route.latency_ms is None else f", {route.latency_ms:.0f} ms"
            which = f"{route.method}, confidence {route.confidence:.2f}"
            return (
                f"{message_id}: {route.decision} ({which}, {len(route.candidates)} weighed{took})"
            )
        case events.MessageMoved(message_ids=ids, to_run_loop_id=to):
            return f"{', '.join(ids)} to {to}"
        case events.MemoryRecalled(recollections=pieces):
            return ", ".join(str(piece.anchor) for piece in pieces)
        case events.IterationStarted(index=index, message_ids=ids) as started:
            asked = ", goes on" if started.continues else ", nudged" if started.nudge else ""
            return f"{index}, sees {', '.join(ids or ()) or 'no new message'}{asked}"
        case events.MessageCompleted(message=message, cut=cut, finish_reason=reason):
            calls = f", calls {_names(message.tool_calls)}" if message.tool_calls else ""
            ended = ", cut" if cut else f", not whole ({reason})" if reason else ""
            return f"{_length(message.text)}{calls}{ended}"
        case events.LLMRetry(attempt=attempt, delay_seconds=delay, problem=problem):
            return f"attempt {attempt}, again in {delay:.1f} s: {problem.kind}"
        case events.LLMFallback(model=model, fallback=fallback, problem=problem):
            return f"{fallback} instead of {model}: {problem.kind}"
        case events.ToolStarted(name=name, call_id=call_id):
            return f"{name[:80]!r} ({call_id[:80]})"
        case events.ToolFinished(name=name, call_id=call_id, content=content, is_error=is_error):
            failed = ", failed" if is_error else ""
            return f"{name[:80]!r} ({call_id[:80]}), {_length(content)}{failed}"
        case human_input.InputRequired(kind=kind, request_id=request_id, tool_calls=calls):
            return f"{request_id} ({kind}){f' {_names(calls)}' if calls else ''}"
        case human_input.InputReceived(request_id=request_id, approved=approved, remember=remember):
            said = "answered" if approved is None else ("yes" if approved else "no")
            return f"{request_id}: {said}{f', remembered ({remember})' if remember else ''}"
        case events.CompactionStarted(tokens=tokens, limit=limit):
            return f"{tokens} tokens of {limit}"
        case events.CompactionFinished(messages=messages, method=method) as done:
            return f"{messages} messages ({method}), {done.tokens_before} to {done.tokens_after}"
        case events.Usage(model=model, input_tokens=given, output_tokens=taken, purpose=purpose):
            return f"{purpose} ({model}), {given} tokens in, {taken} out"
        case events.RunLoopFailed(problem=problem) | events.ErrorOccurred(problem=problem):
            return problem.kind
        case _:
            return ""


def _length(text: str) -> str:
    return f"{len(text)} character{'' if len(text) == 1 else 's'}"


def _names(calls: Iterable[ToolCall]) -> str:
    return ", ".join(f"{call.name[:80]!r} ({call.id[:80]})" for call in calls)
