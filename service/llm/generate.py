"""One call of the model: its stream, merged into one message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

from service.domain.conversation.messages import FinishReason, Message, ToolCall
from service.domain.conversation.stream_parts import (
    MessageAssembler,
    StreamPart,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.conversation.token_estimates import (
    BYTES_PER_TOKEN,
    estimate_tokens,
    tool_tokens,
)
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMStreamError
from service.llm.protocol import LLM
from service.llm.stop_notices import WithoutEcho

OnPart = Callable[[StreamPart], None]
OnCall = Callable[[ToolCall], None]


@dataclass(frozen=True, slots=True)
class Generated:
    """What a call gave."""

    message: Message
    """The assistant message, with text, reasoning and tool calls."""
    usage: TokenUsage
    """What it used."""
    estimated: bool = False
    """Whether the endpoint did not say what it used: then it is told from the words."""
    response_id: str | None = None
    """Under which the provider knows the answer."""
    finish_reason: FinishReason | None = None
    """Why the answer is not whole."""
    cut_calls: frozenset[str] = frozenset()
    """Of an answer that is not whole: the ids of tool calls in which it can have broken off."""


async def generate(
    llm: LLM,
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolDefinition] = (),
    response_schema: dict[str, Any] | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    size: int | None = None,
    on_part: OnPart | None = None,
    on_call: OnCall | None = None,
) -> Generated:
    """Call the model once and merge what it streams.

    Args:
        llm: the model.
        messages: the conversation.
        tools: what it may call.
        response_schema: what its text must satisfy, as JSON Schema.
        max_tokens: bound of the answer.
        temperature: None for the client's default.
        size: bytes of all messages, see `Message.size`, where the caller knows it.
        on_part: told of each piece as it arrives; must not block.
        on_call: told of each tool call as soon as its arguments are a whole JSON object, which may
            be before the stream ends; must not block.

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
    own = WithoutEcho()

    def add(part: StreamPart) -> None:
        assembler.add(part)
        if on_part is not None:
            on_part(part)

    # Streams are async generators: closing them here, not whenever they are collected, is what
    # ends the request when we are cancelled.
    async with aclosing(cast("Any", stream)):
        async for part in stream:
            for each in own.passing(part):
                add(each)
            if on_call is not None and isinstance(part, ToolCallDelta):
                call = assembler.completed_call(part.index)
                if call is not None:
                    on_call(call)
    for each in own.rest():
        add(each)
    message = assembler.message()
    if not message.text.strip() and not message.tool_calls:
        raise LLMStreamError(
            f"{llm.model} gave neither words nor a tool call",
            advice="Try again; if it goes on, choose another model.",
        )
    usage = assembler.usage
    estimated = usage is None or not (usage.input_tokens or usage.output_tokens)
    if usage is None or estimated:
        # Zeros would be wrong, and a budget would never be used up.
        if size is None:
            size = sum(map(_size, messages))
        usage = _estimate(llm.model, size, tools, message)
    return Generated(
        message,
        usage,
        estimated=estimated,
        response_id=assembler.response_id,
        finish_reason=assembler.finish_reason,
        cut_calls=assembler.cut_calls() if assembler.finish_reason else frozenset(),
    )


_size = attrgetter("size")  # histories are long, and this is faster than a comprehension


def _estimate(
    model: str, size: int, tools: Sequence[ToolDefinition], answer: Message
) -> TokenUsage:
    given = size // BYTES_PER_TOKEN
    said = answer.size // BYTES_PER_TOKEN + estimate_tokens(answer.reasoning)
    return TokenUsage(model, max(1, given + tool_tokens(tools)), max(1, said))
