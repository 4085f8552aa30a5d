"""What Rondo tells a model of an answer that was stopped, and a model that says it after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.domain.conversation.messages import ContentPart, Message, NotePart
from service.domain.conversation.stream_parts import StreamPart, TextDelta

STOPPED = "[The person stopped you here.]"
"""Marks an answer that a person stopped, in its history. No model is shown it there: small ones
take it for their own words, and say it again."""
STOPPED_BEFORE = "[The person stopped your last answer, which stands above, before its end.]"
"""What a model is told instead, beside what the person says next."""
GO_ON = "[Go on with the answer in which you were stopped.]"

_TOLD = (STOPPED, STOPPED_BEFORE, GO_ON)


def beside_what_comes_next(messages: Sequence[Message]) -> list[Message]:
    """A conversation in which no answer bears a mark, and the words behind a stopped one tell it.

    A wish to go on with it (`GO_ON`) tells it already.
    """
    annotated = list(messages)
    for place, message in enumerate(messages):
        if message.role != "assistant" or NotePart(note=STOPPED) not in message.content[-1:]:
            continue
        annotated[place] = _of(message, message.content[:-1])
        following = annotated[place + 1] if place + 1 < len(annotated) else None
        if following is not None and following.role == "user" and following.text:
            note = NotePart(note=STOPPED_BEFORE)
            annotated[place + 1] = _of(following, (note, *following.content))
    return annotated


class WithoutEcho:
    """Leaves out what a model says after Rondo, word for word and before anything else."""

    def __init__(self) -> None:
        """Begin an answer."""
        self._held: str | None = ""
        """What may be the beginning of such words; None once something else was said."""
        self._left_out = False

    def passing(self, part: StreamPart) -> Iterator[StreamPart]:
        """What of a piece is the model's own; it may come with a later one."""
        if self._held is None or not isinstance(part, TextDelta):
            yield part
            return
        self._held += part.text
        while echoed := next((each for each in _TOLD if self._begins_with(each)), None):
            self._held = self._held.lstrip()[len(echoed) :]
            self._left_out = True
        begun = self._held.lstrip()
        if any(each.startswith(begun) for each in _TOLD):
            return
        yield from self.rest()

    def rest(self) -> Iterator[StreamPart]:
        """What was held back and turned out to be the model's own."""
        held, self._held = self._held, None
        if held and self._left_out:
            held = held.lstrip()
        if held:
            yield TextDelta(held)

    def _begins_with(self, notice: str) -> bool:
        return self._held is not None and self._held.lstrip().startswith(notice)


def _of(message: Message, content: Sequence[ContentPart]) -> Message:
    # Not `model_copy`, which would take over the cached size.
    return Message(role=message.role, content=tuple(content), tool_calls=message.tool_calls)
