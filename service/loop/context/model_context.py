"""What the model is shown: what it remembers, the conversation, and tools, within its window.

What it begins with is in `system_prompt.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from service.domain.conversation.messages import ContentPart, Message, NotePart, TextPart
from service.domain.conversation.token_estimates import (
    BYTES_PER_TOKEN,
    estimate_tokens,
    tool_tokens,
)
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.history.events import Recollection
from service.domain.history.state import RunLoopState
from service.domain.text import NO_INSTRUCTIONS, from_outside, quoted, script_of
from service.llm.stop_notices import beside_what_comes_next
from service.loop.brain import DefaultBrain
from service.loop.context.conversation_rounds import rounds
from service.loop.context.offered_tools import offered_tools
from service.loop.context.shortening import cap_within, shortened
from service.loop.context.system_prompt import opening_of, recalled_for_small
from service.loop.executor_deps import ExecutorDeps
from service.loop.recall.care.limit_wording import beginning, reminder
from service.tools.registry import READ_RESULT
from service.tuning import CONTEXT_SHARE, CUT_LEAST_TOKENS


def within_window(brain: DefaultBrain, deps: ExecutorDeps) -> DefaultBrain:
    """The brain, which now has old rounds summarised before a call would be too long.

    Where its limits say from which length on, that counts; else it is a share of the window of the
    model that is asked next.
    """
    if deps.compaction == "off":
        brain = replace(brain, limits=replace(brain.limits, context_tokens=None))
    else:
        brain = replace(brain, most_call_tokens=partial(_most_call_tokens, deps))
    return replace(brain, next_call_tokens=partial(next_call_tokens, deps))


def _most_call_tokens(deps: ExecutorDeps, state: RunLoopState) -> int:
    return int(deps.model(state).window_tokens * CONTEXT_SHARE)


def next_call_tokens(deps: ExecutorDeps, state: RunLoopState) -> int:
    """How long the next call would be, in tokens; see `call_tokens`."""
    return call_tokens(
        state,
        opening=opening_of(deps, state, deps.model(state).llm),
        tools=offered_tools(deps, state),
        window_tokens=deps.model(state).window_tokens,
        landing=_landing(state),
    )


def estimated_next_call(deps: ExecutorDeps, state: RunLoopState) -> int:
    """The same by estimate alone."""
    return estimated_tokens(
        state,
        opening=opening_of(deps, state, deps.model(state).llm),
        tools=offered_tools(deps, state),
        landing=_landing(state),
    )


def _landing(state: RunLoopState) -> list[Message]:
    """What will land with the next call, or soon after it."""
    return [unseen.message for unseen in state.unseen]


_LEFT_OUT = (
    "[Earlier parts of this conversation were left out to fit. They are remembered word for word:"
    " the memory tools find them.]"
)
_SPEAKERS = {
    "user_message": "the person said",
    "response": "you answered",
    "reasoning": "you thought",
    "tool_call": "you called a tool",
    "tool_result": "a tool answered",
}
_MESSAGE_OVERHEAD = 8
_RECALLED_OVERHEAD = 30  # the anchor, the date and who spoke


def build_context(
    state: RunLoopState,
    *,
    opening: Sequence[Message],
    tools: Sequence[ToolDefinition] = (),
    window_tokens: int,
    small: bool = False,
) -> list[Message]:
    """The messages of one call: the opening, and as much of the history as fits.

    A person's message carries what was recalled for it: some endpoints refuse a second system
    message, and small models heed what stands next to the question.

    Where a limit of the person's matters, a small model is given the beginning of its answer, as
    the last message (see `limit_wording.py`).

    What does not fit, by `call_tokens`, is left out from the beginning, by whole rounds (a person's
    words and all that followed), so that no tool call is parted from its result; the model is told.
    The newest round always stays; where it alone does not fit, its longest texts are cut.
    """
    if not state.history:
        return [*opening]
    notes: dict[int, list[str]] = {}
    heeded: dict[int, list[str]] = {}
    for each in state.recalled:
        index = min(each.index, len(state.history) - 1)
        pieces = [piece for piece in each.pieces if not piece.heed]
        if pieces:
            in_words = _recalled(pieces)
            if small:
                in_words = recalled_for_small(pieces, script_of(state.history[index].text))
            if in_words:
                notes.setdefault(index, []).append(in_words)
        if len(pieces) < len(each.pieces):
            heeded[_last_landed(state, index)] = [p.content for p in each.pieces if p.heed]
    start, history = 0, state.history[:]
    tokens = call_tokens(state, opening=opening, tools=tools, window_tokens=window_tokens)
    if tokens > window_tokens:
        # Only a history that does not fit is looked through: a long one usually fits.
        estimate = estimated_tokens(state, opening=opening, tools=tools)
        beside = estimate - messages_tokens(state.history)
        left = window_tokens * estimate // max(tokens, estimate) - beside
        start = _first_that_fits(state.history, left)
        readable = any(tool.name == READ_RESULT for tool in tools)
        history = _cut_to_fit(state.history[start:], left, readable=readable)
        kept = [note for index in sorted(notes) if index <= start for note in notes.pop(index)]
        notes[start] = [*kept, *([_LEFT_OUT] if start else [])]
    for index, beside_it in notes.items():
        history[index - start] = _noted(beside_it, history[index - start])
    if small:
        begun = _begun(heeded, state.history)
        return [*opening, *beside_what_comes_next(history), *begun]
    for index, said in heeded.items():
        if index >= start:
            history[index - start] = _reminded(said, history[index - start])
    history = [_fenced(message) if message.outside else message for message in history]
    return [*opening, *beside_what_comes_next(history)]


# --- how long a call is


def call_tokens(
    state: RunLoopState,
    *,
    opening: Sequence[Message],
    tools: Sequence[ToolDefinition] = (),
    window_tokens: int,
    landing: Sequence[Message] = (),
) -> int:
    """How long a call would be that shows the whole conversation, in tokens.

    That is what the endpoint counted for the last call and its answer, and an estimate of what was
    added since; where nothing was counted, an estimate of everything. A call that can have shown
    only a part of the conversation, as the whole would not have fitted by the estimate, counts as
    nothing. Takes time for what was added, not for the whole history.

    Args:
        state: the run loop.
        opening: what the call begins with.
        tools: what is offered.
        window_tokens: how long a call may be.
        landing: messages that it will show besides.
    """
    estimate = estimated_tokens(state, opening=opening, tools=tools, landing=landing)
    if not state.measured_tokens:
        return estimate
    added = _added_since_measured(state) + messages_tokens(landing)
    return state.measured_tokens + added if estimate - added <= window_tokens else estimate


def estimated_tokens(
    state: RunLoopState,
    *,
    opening: Sequence[Message],
    tools: Sequence[ToolDefinition] = (),
    landing: Sequence[Message] = (),
) -> int:
    """The same by estimate alone: about four bytes a token, and a little for each message."""
    return (
        tool_tokens(tools)
        + messages_tokens(opening)
        + _tokens(state.history_size, len(state.history))
        + sum(_recalled_tokens(each.pieces) for each in state.recalled)
        + messages_tokens(landing)
    )


def messages_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens these messages are."""
    return _tokens(sum(message.size for message in messages), len(messages))


def _added_since_measured(state: RunLoopState) -> int:
    size = state.history_size - state.measured_size
    index, left = len(state.history), size
    while index and left > 0:
        index -= 1
        left -= state.history[index].size
    recalled = sum(_recalled_tokens(r.pieces) for r in state.recalled if r.index >= index)
    return _tokens(max(size, 0), len(state.history) - index) + recalled


def _tokens(size: int, messages: int) -> int:
    return size // BYTES_PER_TOKEN + messages * _MESSAGE_OVERHEAD


def _recalled_tokens(pieces: Sequence[Recollection]) -> int:
    return sum(estimate_tokens(piece.content) + _RECALLED_OVERHEAD for piece in pieces)


# --- making it fit


def _first_that_fits(history: Sequence[Message], left: int) -> int:
    """Where the newest rounds that fit begin; at the latest, where the last round does."""
    end = len(history)
    for span in reversed(rounds(history)):
        left -= messages_tokens(history[span.start : span.end])
        if left < 0 and end != len(history):
            return end
        end = span.start
    return end


def _cut_to_fit(messages: list[Message], left: int, *, readable: bool) -> list[Message]:
    """The messages, and where they do not fit, their longest texts cut down to the same length.

    `readable` says whether the model can read on in a tool's result.
    """
    if messages_tokens(messages) <= left:
        return messages
    texts = [estimate_tokens(part.text) for each in messages for part in _texts(each)]
    cap = cap_within(texts, left - (messages_tokens(messages) - sum(texts)))
    cap = max(cap, CUT_LEAST_TOKENS)
    return [_capped(message, cap, readable=readable) for message in messages]


def _capped(message: Message, cap: int, *, readable: bool) -> Message:
    if all(len(part.text) <= cap for part in _texts(message)):
        return message
    how = ""
    if readable and message.role == "tool":
        how = f' `{READ_RESULT}` with the call_id "{message.tool_call_id}" gives them.'
    content: list[ContentPart] = [
        TextPart(text=shortened(part.text, cap, how=how)) if isinstance(part, TextPart) else part
        for part in message.content
    ]
    return _with_content(message, content)


def _texts(message: Message) -> list[TextPart]:
    return [part for part in message.content if isinstance(part, TextPart)]


# --- what stands beside a person's words


def _noted(notes: Sequence[str], message: Message) -> Message:
    return _with_content(message, [*(NotePart(note=note) for note in notes), *message.content])


def _last_landed(state: RunLoopState, index: int) -> int:
    """The last of the messages that landed together, from the first of them."""
    others = {each.index for each in state.recalled}
    last = index
    while last + 1 < len(state.history) and last + 1 not in others:
        following = state.history[last + 1]
        if following.role != "user" or not following.text:
            break
        last += 1
    return last


def _begun(heeded: Mapping[int, Sequence[str]], history: Sequence[Message]) -> list[Message]:
    """The beginning of the answer to what was said last, where a limit matters to it."""
    newest_first = range(len(history) - 1, -1, -1)
    last = next((n for n in newest_first if history[n].role == "user"), -1)
    if last not in heeded:
        return []
    return [Message.assistant(beginning(heeded[last], history[last].text))]


def _reminded(said: Sequence[str], message: Message) -> Message:
    note = NotePart(note=reminder(said, message.text))
    return _with_content(message, [*message.content, note])


def _with_content(message: Message, content: Sequence[ContentPart]) -> Message:
    # Not `model_copy`, which would take over the cached size.
    return Message(
        role=message.role,
        content=tuple(content),
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        is_error=message.is_error,
        outside=message.outside,
    )


def _fenced(message: Message) -> Message:
    """A tool's result from outside as a quote. It is the last that is done to the words: where a
    text is cut, what follows the cut is quoted, too."""
    content: list[ContentPart] = [
        TextPart(text=from_outside(part.text)) if isinstance(part, TextPart) else part
        for part in message.content
    ]
    return _with_content(message, content)


def _recalled(recollections: Sequence[Recollection]) -> str:
    lines = [
        "[You remember this from earlier conversations, each with its anchor. It may or may not"
        f" matter here; {NO_INSTRUCTIONS}:"
    ]
    for piece in recollections:
        anchor = piece.anchor
        who = _SPEAKERS[anchor.segment_type]
        lines.append(f"- {anchor}, {_date(anchor.timestamp)}, {who}:\n{quoted(piece.content)}")
    return "\n".join((*lines, "That is all you remember of it.]"))


def _date(at: datetime) -> str:
    return at.astimezone().strftime("%A, %Y-%m-%d")
