"""Messages and their parts: what people, models and tools say to each other.

>>> Message.user("Hello").text
'Hello'
>>> message = Message(role="assistant", content=(ThinkPart(think="easy"), TextPart(text="4")))
>>> message.reasoning, message.text
('easy', '4')
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["system", "user", "assistant", "tool"]


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


class NotePart(_Part):
    """What the house puts beside a person's words for the model, such as what it remembers."""

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


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(frozen=True)

    role: Role
    content: tuple[ContentPart, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """In a tool message: the id of the call that it answers."""

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
        return cls(role="tool", content=(TextPart(text=result.content),), tool_call_id=result.id)

    @property
    def text(self) -> str:
        """All text parts, joined: what was said."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def notes(self) -> str:
        """All notes, each a paragraph."""
        return "\n\n".join(part.note for part in self.content if isinstance(part, NotePart))

    @cached_property
    def size(self) -> int:
        """Bytes of UTF-8 that a model is given: text, notes, names and arguments of tool calls."""
        calls = (call.name + call.arguments for call in self.tool_calls)
        words = (self.text, self.notes, *calls)
        return sum(len(each.encode("utf-8", "replace")) for each in words)

    @property
    def reasoning(self) -> str:
        """All reasoning, joined."""
        return "".join(part.think for part in self.content if isinstance(part, ThinkPart))
