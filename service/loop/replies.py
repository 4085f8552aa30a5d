"""What a message is to a run loop that waits for a person: its answer, or something else instead.

A loop that waits hears every message at once. The answer to a question in words is whatever is said
to it; that to a choice names options, or these are asked for once more; and whoever says something
while a yes is asked for has not said yes: what was to run is not run, and the loop goes on with the
message. Pure: events from a state.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.conversation.messages import Message
from service.domain.history.events import (
    EventBody,
    MessageReceived,
    RunLoopInterrupted,
    RunLoopResumed,
    ToolFinished,
)
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.state import RunLoopState
from service.domain.ids import new_id
from service.domain.routes import Route
from service.domain.text import main_script
from service.routing.choices.option_choice import chosen, may_choose

_NOT_ALLOWED = (
    "Not run: the person was asked to allow this, and said something else instead; their message"
    " follows. A message is never a yes: call it again if it is still wanted, and they are asked"
    " anew."
)
_NOT_ANSWERED = (
    "Not answered: the person said something else instead; their message follows. Ask again if it"
    " still matters."
)


def joining(
    route: Route,
    state: RunLoopState | None,
    received: MessageReceived,
    besides: Sequence[EventBody],
) -> tuple[EventBody, ...]:
    """What a message leads to in the loop that it joins, in order.

    Args:
        route: how it came there.
        state: of the loop; None: it has ended.
        received: the message.
        besides: what goes with it.
    """
    if state is None:
        resumed = (RunLoopResumed(),) if route.method == "explicit" else ()
        return *resumed, received, *besides
    if state.awaiting is not None and not state.asks_where:
        heard, *following = _reply(state, received)
        return heard, *besides, *following
    if _drops_what_goes_on(received, state):
        return received, *besides, RunLoopInterrupted(message_id=received.message_id)
    return received, *besides


def _drops_what_goes_on(received: MessageReceived, state: RunLoopState) -> bool:
    """Whether a loop does not go on with what it is at, once the message is there.

    A loop that waits to hear where its first message belongs is taken for a topic of its own by
    whoever goes on talking there.
    """
    if state.asks_where:
        return True
    return received.mode == "interrupt" and state.status != "idle"


def _reply(state: RunLoopState, received: MessageReceived) -> tuple[EventBody, ...]:
    """What a message leads to in a loop that waits; with the message, which comes first."""
    request = state.awaiting
    words = received.message.text.strip()
    if request is None or request.kind == "approve" or received.mode == "interrupt":
        return _instead(state, received)
    if not words or not _is_text(received.message):
        return _instead(
            state, received
        )  # an answer is words, and nothing would be left of the rest
    if request.kind == "prompt":
        return received, InputReceived(
            request_id=request.request_id, text=words, message_id=received.message_id
        )
    return received, _to_choice(request, words, received.message_id)


def withdrawn(
    state: RunLoopState, request: InputRequired | None, message_id: str
) -> tuple[EventBody, ...]:
    """What drops a request that a loop makes, or is about to make, for a message that lies there.

    Every call that waits has its result, which says why.
    """
    to_be_allowed = {call.id for call in request.tool_calls} if request is not None else set()
    closed = (
        ToolFinished(
            call_id=waiting.call.id,
            name=waiting.call.name,
            # What was asked back about is all the answer that there will be.
            content=waiting.words
            if waiting.words is not None
            else (_NOT_ALLOWED if waiting.call.id in to_be_allowed else _NOT_ANSWERED),
            is_error=waiting.words is None,
        )
        for waiting in state.pending
    )
    return (*closed, RunLoopInterrupted(message_id=message_id))


def _instead(state: RunLoopState, received: MessageReceived) -> tuple[EventBody, ...]:
    # A follow-up, too, is heard now: there is nothing that it could come after.
    heard = received.model_copy(update={"mode": "steer"})
    if received.mode == "interrupt":
        heard = received
    return heard, *withdrawn(state, state.awaiting, received.message_id)


def _to_choice(
    request: InputRequired, words: str, message_id: str
) -> InputReceived | InputRequired:
    choices = chosen(words, request.options, multiple=request.multiple)
    if choices:
        return InputReceived(request_id=request.request_id, choices=choices, message_id=message_id)
    if request.message_id is None and may_choose(words):
        return request.model_copy(
            update={
                "request_id": new_id(),
                "prompt": _asked_again(request, words),
                "message_id": message_id,
            }
        )
    # A question about the choice, or a wish that is not offered: the model sees what was said.
    return InputReceived(request_id=request.request_id, text=words, message_id=message_id)


def _asked_again(request: InputRequired, words: str) -> str:
    """The question once more, saying what can be chosen, in its language."""
    chinese = "cjk" in (main_script(request.prompt), main_script(words))
    numbered = [f"{number}. {option}" for number, option in enumerate(request.options, 1)]
    if chinese:
        which = "可以选几项" if request.multiple else "请选一项"
        return f"没有听懂您选的是哪一项。{request.prompt}\n{which}：{'；'.join(numbered)}。"
    which = "Choose one or more of" if request.multiple else "Choose one of"
    return (
        f"That does not say which of the options is meant. {request.prompt}\n"
        f"{which}: {'; '.join(numbered)}."
    )


def _is_text(message: Message) -> bool:
    return all(part.type == "text" for part in message.content)
