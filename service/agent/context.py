"""What the model is shown: who it is, what it remembers, and the conversation, within its window.

The prompt's beginning stays the same from call to call of a loop, so that endpoints can cache it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from service.domain.events import Recollection
from service.domain.messages import Message, NotePart
from service.domain.state import RunLoopState
from service.memory.tokens import BYTES_PER_TOKEN

PERSONA = (
    "You are Rondo, a personal assistant with a long memory. Answer in the language of the"
    " person you talk to, briefly and truthfully. Use a tool when it helps; never invent what a"
    " tool or your memory would have to tell. When you do not know, say so."
)
_LAST_ANSWER = (
    "No more tool calls are possible now. Answer with what you have found so far, and say openly"
    " what is missing."
)
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


def system_message(
    began: datetime, *, instructions: str = "", last_answer: bool = False
) -> Message:
    """The system message: the same for all run loops of a day, so that endpoints can cache it.

    Args:
        began: when the conversation began.
        instructions: the owner's own, added to the built-in ones.
        last_answer: whether this is the last call, without tools.
    """
    parts = [PERSONA]
    if instructions:
        parts.append(instructions)
    parts.append(f"This conversation began on {_date(began)}.")
    if last_answer:
        parts.append(_LAST_ANSWER)
    return Message.system("\n\n".join(parts))


def build_context(state: RunLoopState, *, system: Message, budget_tokens: int) -> list[Message]:
    """The messages of one call: the system message, and as much of the history as fits.

    The first of the person's messages carries what was recalled: some endpoints refuse a second
    system message, and small models heed what stands next to the question.

    History is left out from its beginning, by whole rounds (a person's words and all that
    followed), so that no tool call is parted from its result. The newest round always stays.
    """
    notes = [_recalled(state.recollections)] if state.recollections else []
    left = budget_tokens - _cost((system, _noted(notes, Message(role="user"))))
    rounds: list[Sequence[Message]] = [state.history]
    if _tokens(state.history_size, len(state.history)) > left:
        # Only a history that does not fit is looked through: a long one usually fits.
        rounds = _newest(list(_rounds(state.history)), left)
        notes.append(_LEFT_OUT)
    history = [message for messages in rounds for message in messages]
    return [system, *(_noted(notes, first) for first in history[:1]), *history[1:]]


def _newest(rounds: Sequence[Sequence[Message]], left: int) -> list[Sequence[Message]]:
    kept: list[Sequence[Message]] = []
    for messages in reversed(rounds):
        left -= _cost(messages)
        if left < 0 and kept:
            break
        kept.insert(0, messages)
    return kept


def _noted(notes: Sequence[str], message: Message) -> Message:
    parts = tuple(NotePart(note=note) for note in notes)
    return Message(role=message.role, content=(*parts, *message.content))


def _rounds(history: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """A person's words, and all that followed; the first message is always a person's."""
    start = 0
    for index, message in enumerate(history):
        if message.role == "user" and index > start and history[index - 1].role != "user":
            yield history[start:index]
            start = index
    if start < len(history):
        yield history[start:]


def _cost(messages: Sequence[Message]) -> int:
    return _tokens(sum(message.size for message in messages), len(messages))


def _tokens(size: int, messages: int) -> int:
    return size // BYTES_PER_TOKEN + messages * _MESSAGE_OVERHEAD


def _recalled(recollections: Sequence[Recollection]) -> str:
    lines = [
        "[You remember this from earlier conversations, word for word, each with its anchor."
        " It may or may not matter here:"
    ]
    for piece in recollections:
        anchor = piece.anchor
        who = _SPEAKERS[anchor.segment_type]
        lines.append(f"- {anchor}, {_date(anchor.timestamp)}, {who}: {piece.content.strip()}")
    return "\n".join(lines) + "]"


def _date(at: datetime) -> str:
    return at.astimezone().strftime("%A, %Y-%m-%d")
