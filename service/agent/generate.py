"""One call of the model: its stream, merged into one message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from service.agent.llm.protocol import LLM
from service.domain.errors import LLMStreamError
from service.domain.messages import Message
from service.domain.stream import MessageAssembler, StreamPart, TokenUsage
from service.domain.tools import ToolDefinition

OnPart = Callable[[StreamPart], None]


@dataclass(frozen=True, slots=True)
class Generated:
    """What a call gave."""

    message: Message
    """The assistant message, with text, reasoning and tool calls."""
    usage: TokenUsage | None
    """What it used; None when the endpoint did not say."""


async def generate(
    llm: LLM,
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolDefinition] = (),
    response_schema: dict[str, Any] | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    on_part: OnPart | None = None,
) -> Generated:
    """Call the model once and merge what it streams.

    Args:
        llm: the model.
        messages: the conversation.
        tools: what it may call.
        response_schema: what its text must satisfy, as JSON Schema.
        max_tokens: bound of the answer.
        temperature: None for the client's default.
        on_part: told of each piece as it arrives; must not block.

    Raises:
        LLMError: the call failed, broke off, or gave neither words nor a tool call.
    """
    assembler = MessageAssembler()
    stream = llm.stream(
        messages,
        tools=tools,
        response_schema=response_schema,
        max_tokens=max_tokens,
        temperature=temperature,
    )
    # Streams are async generators: closing them here, not whenever they are collected, is what
    # ends the request when we are cancelled.
    async with aclosing(cast("Any", stream)):
        async for part in stream:
            assembler.add(part)
            if on_part is not None:
                on_part(part)
    message = assembler.message()
    if not message.text.strip() and not message.tool_calls:
        raise LLMStreamError(
            f"{llm.model} gave neither words nor a tool call",
            advice="Try again; if it goes on, choose another model.",
        )
    return Generated(message, assembler.usage)
