"""Messages and their parts: what people, models and tools say to each other.

>>> Message.user("Hello").text
'Hello'
>>> message = Message(role="assistant", content=(ThinkPart(think="easy"), TextPart(text="4")))
>>> message.reasoning, message.text
('easy', '4')
>>> image = ImageUrlPart(url="https://example.org/lemur.png")
>>> Message(role="user", content=(TextPart(text="What is this?"), image)).words
'What is this? (an image)'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from service.domain.text import from_outside

Role = Literal["system", "user", "assistant", "tool"]

FinishReason = Literal["length", "content_filter"]
"""Why an answer is not whole: its tokens were used up, or a filter of the endpoint's stopped it."""

IMAGE_WORDS = "(an image)"
"""What stands for an image wherever only words are kept: in goals, memory, exports, lists."""
IMAGE_SIZE = 4800
"""What an image counts in `Message.size`: 1,200 tokens of four bytes. An image of 1024 x 1024 is
765 tokens at OpenAI and 1,398 at Anthropic, and larger ones are scaled down to little more:
https://platform.openai.com/docs/guides/images-vision#calculating-costs,
https://platform.claude.com/docs/en/build-with-claude/vision#calculate-image-costs"""


_SAYS_ERROR = re.compile(r"\s*error\s*[:：]", re.IGNORECASE)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class TextPart(_Part):
    """Words for the reader."""

    type: Literal["text"] = "text"
    text: str


class ThinkPart(_Part):
    """A model's reasoning, with the provider's signature where it gives one."""

    type: Literal["think"] = "think"
    think: str
    signature: str | None = None


class ImageUrlPart(_Part):
    """An image by its address (``https:`` or ``data:``)."""

    type: Literal["image_url"] = "image_url"
    url: str
    id: str | None = None
    """What its sender or a provider calls it."""


class NotePart(_Part):
    """What Rondo puts beside a person's words for the model, such as what it remembers."""

    type: Literal["note"] = "note"
    note: str


ContentPart = Annotated[TextPart | ThinkPart | ImageUrlPart | NotePart, Field(discriminator="type")]


class ToolCall(_Part):
    """A model's wish to call a tool. `arguments` is JSON as the model wrote it, perhaps invalid."""

    id: str
    name: str
    arguments: str = "{}"


class ToolResult(_Part):
    """What a tool call came to. Failures are results too."""

    id: str
    """The id of the `ToolCall`."""
    content: str
    is_error: bool = False
    notice: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether these are Rondo's own words, such as why the call was not run: the model is told, and
    long-term memory keeps no segment of them."""
    outside: bool = Field(default=False, exclude_if=lambda outside: not outside)
    """Whether the words come from outside, such as a page of the web: the model reads them as
    quotes, which give no instructions."""


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(frozen=True)

    role: Role
    content: tuple[ContentPart, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """In a tool message: the id of the call that it answers."""
    is_error: bool = Field(default=False, exclude_if=lambda value: not value)
    """In a tool message: whether the call failed."""
    outside: bool = Field(default=False, exclude_if=lambda outside: not outside)
    """In a tool message: whether its words come from outside, see `ToolResult`."""

    @classmethod
    def system(cls, text: str) -> Message:
        """A system message of one text."""
        return cls(role="system", content=(TextPart(text=text),))

    @classmethod
    def user(cls, text: str) -> Message:
        """A user message of one text."""
        return cls(role="user", content=(TextPart(text=text),))

    @classmethod
    def assistant(cls, text: str, tool_calls: tuple[ToolCall, ...] = ()) -> Message:
        """An assistant message of one text (or none) and its tool calls."""
        return cls(
            role="assistant",
            content=(TextPart(text=text),) if text else (),
            tool_calls=tool_calls,
        )

    @classmethod
    def tool(cls, result: ToolResult) -> Message:
        """The message that hands a tool's result to the model."""
        return cls(
            role="tool",
            content=(TextPart(text=result.content),),
            tool_call_id=result.id,
            is_error=result.is_error,
            outside=result.outside,
        )

    @property
    def told_result(self) -> str:
        """What a tool gave, in one text: for models to which a failure can be told by words only.

        >>> Message.tool(ToolResult(id="c", content="no such file", is_error=True)).told_result
        'Error: no such file'
        >>> Message.tool(ToolResult(id="c", content="ERROR: full", is_error=True)).told_result
        'ERROR: full'
        """
        text = self.text
        if not self.is_error or _SAYS_ERROR.match(text):
            return text
        return f"Error: {text}" if text.strip() else "Error: the tool does not say why it failed"

    @property
    def text(self) -> str:
        """All text parts, joined: what was said."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImageUrlPart, ...]:
        """All images, in order."""
        return tuple(part for part in self.content if isinstance(part, ImageUrlPart))

    @property
    def words(self) -> str:
        """All text parts, joined, with a word in the place of each image."""
        if not self.images:
            return self.text
        words = ""
        for part in self.content:
            if isinstance(part, ImageUrlPart):
                gap = " " if words and not words[-1].isspace() else ""
                words += f"{gap}{IMAGE_WORDS}"
            elif isinstance(part, TextPart) and part.text:
                gap = " " if words.endswith(IMAGE_WORDS) and not part.text[0].isspace() else ""
                words += f"{gap}{part.text}"
        return words

    @property
    def notes(self) -> str:
        """All notes, each a paragraph."""
        return "\n\n".join(part.note for part in self.content if isinstance(part, NotePart))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed, whose `size` is its own."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("size", None)
        return copied

    @cached_property
    def size(self) -> int:
        """Bytes of UTF-8 that a model is given: text, notes, names and arguments of tool calls; and
        `IMAGE_SIZE` for each image.
        """
        calls = (call.name + call.arguments for call in self.tool_calls)
        text = from_outside(self.text) if self.outside else self.text
        words = (text, self.notes, *calls)
        images = IMAGE_SIZE * len(self.images)
        return images + sum(len(each.encode("utf-8", "replace")) for each in words)

    @property
    def reasoning(self) -> str:
        """All reasoning, joined."""
        return "".join(part.think for part in self.content if isinstance(part, ThinkPart))
