"""Answers that are not whole: how the model is asked to go on, and what must not come of them."""

from __future__ import annotations

from collections.abc import Iterable

from service.domain.conversation.messages import FinishReason, Message, ToolCall
from service.domain.errors import Problem
from service.domain.history.events import ErrorOccurred, EventBody, IterationAbandoned, ToolFinished
from service.domain.history.state import RunLoopState
from service.llm.generate import Generated

CONTINUE = (
    "[Your answer was cut off at its limit of tokens. Go on exactly where it stopped, if need be in"
    " the middle of a word: what you write now is put right behind it. Repeat nothing of it, and do"
    " not mention this request.]"
)
_OPENING = 100
"""So many characters that are the same as those of the answer's beginning: it is begun anew."""
_BROKE_OFF: dict[FinishReason, str] = {
    "length": "Your answer reached its limit of tokens",
    "content_filter": "A filter of the endpoint's stopped your answer",
}


def repeats(state: RunLoopState, message: Message) -> bool:
    """Whether what is to go on with an answer brings nothing new.

    Args:
        state: while the model is being asked to go on.
        message: what it said.
    """
    if not state.continuations or message.tool_calls:
        return False
    said = message.text.strip()
    # Of each part the message, and the words that asked for the next one.
    asked = state.history[-2 * state.continuations :]
    parts = [each.text for each in asked if each.role == "assistant"]
    whole = "".join(parts).strip()
    begun_anew = len(whole) >= _OPENING and said.startswith(whole[:_OPENING])
    return begun_anew or whole.endswith(said) or any(said == part.strip() for part in parts)


def given_up(state: RunLoopState) -> tuple[EventBody, ...]:
    """That the model only repeats itself: its answer stays as far as it came."""
    problem = Problem(
        kind="answer-repeats",
        title="The model did not go on with its answer",
        detail="asked for the rest of an answer that was cut off, it repeated what it had said",
        advice="Ask for the rest in words of your own, or for a shorter answer.",
    )
    return (ErrorOccurred(problem=problem), IterationAbandoned(index=state.iteration_count - 1))


def without_cut(calls: Iterable[ToolCall], generated: Generated) -> list[ToolFinished]:
    """The results of those tool calls in which an answer broke off: half a call is not run."""
    reason = generated.finish_reason
    if reason is None:
        return []
    content = (
        f"Not run: {_BROKE_OFF[reason]} in the middle of this call. Call again with less in it,"
        " or in several calls, one after another."
    )
    return [
        ToolFinished(call_id=call.id, name=call.name, content=content, is_error=True, notice=True)
        for call in calls
        if call.id in generated.cut_calls
    ]
