"""Events without their words.

What is left of an event keeps its number, its time and its place, so that the history of its run
loop stays well formed: every tool call has its one result, and iterations keep their indexes.
"""

from __future__ import annotations

from collections.abc import Container

from service.domain.conversation.messages import Message, TextPart, ToolCall
from service.domain.errors import Problem
from service.domain.forgetting_terms import FORGOTTEN, FORGOTTEN_ARGUMENTS
from service.domain.history import events, human_input
from service.domain.run_loops import Iteration

_GOAL = {"goal": FORGOTTEN}


def redacted(body: events.EventBody) -> events.EventBody:
    """An event's body without any words of a person, a model or a tool."""
    match body:
        case events.RunLoopStarted():
            return body.model_copy(update={"goal": FORGOTTEN})
        case events.MessageReceived():
            return body.model_copy(update={"message": _message(body.message), "metadata": {}})
        case events.RouteDecided():
            return body.model_copy(
                update={"route": body.route.model_copy(update={"reason": FORGOTTEN})}
            )
        case events.MemoryRecalled():
            return body.model_copy(update={"recollections": ()})
        case events.IterationStarted():
            return body.model_copy(update={"forgotten": True, "nudge": _marked(body.nudge)})
        case events.MessageCompleted():
            # By its id the provider would give the words.
            gone = {"message": _message(body.message), "response_id": None}
            return body.model_copy(update=gone)
        case events.ToolStarted():
            return body.model_copy(update={"arguments": FORGOTTEN_ARGUMENTS, "about": None})
        case events.ToolFinished():
            return body.model_copy(update={"content": FORGOTTEN, "whole": None})
        case human_input.InputRequired() | human_input.InputReceived():
            return _without_question(body)
        case events.CompactionFinished():
            return body.model_copy(update={"replacement": tuple(map(_message, body.replacement))})
        case (
            events.LLMRetry()
            | events.LLMFallback()
            | events.ErrorOccurred()
            | events.RunLoopFailed()
        ):
            return body.model_copy(update={"problem": _problem(body.problem)})
        case events.RunLoopCompleted() | events.RunLoopCancelled():
            return body.model_copy(update={"reason": FORGOTTEN})
    return body


def without_words(body: events.EventBody) -> events.EventBody:
    """The same of a run loop that came in from a file, too: all of it."""
    if not isinstance(body, events.RunLoopImported):
        return redacted(body)
    bare = redacted_import(body, range(len(body.run_loop.iterations)))
    return bare.model_copy(update={"run_loop": bare.run_loop.model_copy(update=_GOAL)})


def redacted_import(body: events.RunLoopImported, gone: Container[int]) -> events.RunLoopImported:
    """A run loop that came in from a file, with these of its iterations forgotten.

    The same body where it has none of them. Its goal is what opened it, and goes with that.
    """
    run_loop = body.run_loop
    iterations = tuple(
        _iteration(each) if index in gone else each
        for index, each in enumerate(run_loop.iterations)
    )
    if iterations == run_loop.iterations:
        return body
    goal = FORGOTTEN if 0 in gone else run_loop.goal
    return body.model_copy(
        update={"run_loop": run_loop.model_copy(update={"iterations": iterations, "goal": goal})}
    )


def _iteration(iteration: Iteration) -> Iteration:
    return Iteration(
        user_message=_marked(iteration.user_message),
        tool_calls=tuple(map(_call, iteration.tool_calls)),
        tool_results=tuple(
            each.model_copy(update={"content": FORGOTTEN}) for each in iteration.tool_results
        ),
        response=_marked(iteration.response),
        timestamp=iteration.timestamp,
        forgotten=True,
    )


def _without_question(
    body: human_input.InputRequired | human_input.InputReceived,
) -> events.EventBody:
    if isinstance(body, human_input.InputRequired):
        return body.model_copy(
            update={
                "prompt": FORGOTTEN,
                "tool_calls": tuple(map(_call, body.tool_calls)),
                "options": tuple(FORGOTTEN for _ in body.options),
                "scopes": {},
                "rules": {},
                "previews": {},
                "metadata": {},
                "descriptions": {},
            }
        )
    # A yes that was to be remembered is not: what it covered may be words, so a person is asked.
    decisions = tuple(
        each.model_copy(update={"reason": _marked(each.reason), "arguments": None})
        for each in body.decisions
    )
    return body.model_copy(
        update={
            "text": _marked(body.text),
            "choices": tuple(FORGOTTEN for _ in body.choices),
            "decisions": decisions,
            "scopes": (),
            "rules": (),
            "narrow": None,
            "subjects": {},
            "remember": None,
        }
    )


def _message(message: Message) -> Message:
    said = any(part.type != "think" for part in message.content)
    return message.model_copy(
        update={
            "content": (TextPart(text=FORGOTTEN),) if said else (),
            "tool_calls": tuple(map(_call, message.tool_calls)),
        }
    )


def _call(call: ToolCall) -> ToolCall:
    return call.model_copy(update={"arguments": FORGOTTEN_ARGUMENTS})


def _problem(problem: Problem) -> Problem:
    return problem.model_copy(update={"detail": FORGOTTEN})


def _marked(text: str | None) -> str | None:
    return None if text is None else FORGOTTEN
