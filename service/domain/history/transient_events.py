"""What is sent while it happens and never journaled: events of `service.domain.history.events`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from service.domain.conversation.tool_definitions import OutputStream


class _Streamed(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReasoningDelta(_Streamed):
    """A piece of reasoning as it streams (transient)."""

    type: Literal["reasoning.delta"] = "reasoning.delta"
    text: str


class MessageDelta(_Streamed):
    """A piece of the answer as it streams (transient)."""

    type: Literal["message.delta"] = "message.delta"
    text: str
    whole: bool = Field(default=False, exclude_if=lambda whole: not whole)
    """Whether this is all that has streamed of the message so far, for a reader who comes in the
    middle of it: it stands in the place of what they had."""


class ToolOutput(_Streamed):
    """A piece of what a tool writes while it runs (transient); its result has all that counts."""

    type: Literal["tool.output"] = "tool.output"
    call_id: str
    text: str
    stream: OutputStream = "stdout"
