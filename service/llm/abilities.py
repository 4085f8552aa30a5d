"""What not every model can do, and how it is spared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from service.domain.conversation.messages import ContentPart, ImageUrlPart, Message, TextPart
from service.llm.protocol import LLM

Size = Literal["tiny", "small", "large"]

_SMALL_FROM, _LARGE_FROM = 1e9, 4e9
UNSEEN = "[an image that you cannot see]"


def takes_images(llm: LLM) -> bool:
    """Whether a model is shown images. One that does not tell, by a ``takes_images``, is."""
    return bool(getattr(llm, "takes_images", True))


def size_of(llm: LLM) -> Size:
    """How much a model can be told. One that does not tell how many ``parameters`` it has can be
    told everything.

    One that is not large must go on from the beginning of its answer where the assistant's own
    words come last in the conversation, and begin its answer with it.
    """
    parameters = getattr(llm, "parameters", None)
    if parameters is None or parameters >= _LARGE_FROM:
        return "large"
    return "small" if parameters >= _SMALL_FROM else "tiny"


def without_images(messages: Sequence[Message]) -> list[Message]:
    """The conversation with words in the place of each image."""
    return [_told(message) if message.images else message for message in messages]


def _told(message: Message) -> Message:
    parts: list[ContentPart] = [
        TextPart(text=UNSEEN) if isinstance(part, ImageUrlPart) else part
        for part in message.content
    ]
    # Not `model_copy`, which would take over the cached size.
    return Message(role=message.role, content=tuple(parts))
