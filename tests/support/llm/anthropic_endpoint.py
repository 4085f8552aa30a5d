"""What the tests of the Anthropic client share: its events, and an endpoint that sends them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import MessageAssembler, StreamPart
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMError
from service.llm.anthropic.anthropic_messages import AnthropicModel
from tests.support.llm.endpoint import Call, Endpoint, Handler, endpoint

ADD = ToolDefinition(
    name="add",
    description="Add.",
    parameters={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
)
HELLO = [Message.user("Hello")]
Event = dict[str, Any]


def client(base_url: str, **options: Any) -> AnthropicModel:
    address = base_url.removesuffix("/v1")
    return AnthropicModel(model="claude-x", base_url=address, api_key="sk-ant-test", **options)


async def collect(
    llm: AnthropicModel, messages: Sequence[Message] = HELLO, **options: Any
) -> list[StreamPart]:
    try:
        return [part async for part in llm.stream(messages, **options)]
    finally:
        await llm.aclose()


async def failure(handler: Handler, **options: Any) -> LLMError:
    async with endpoint(without_abilities(handler)) as served:
        with pytest.raises(LLMError) as raised:
            await collect(client(served.base_url, **options))
    return raised.value


def assembled(parts: Sequence[StreamPart]) -> Message:
    assembler = MessageAssembler()
    for part in parts:
        assembler.add(part)
    return assembler.message()


def without_abilities(handler: Handler) -> Handler:
    """The handler, at an endpoint that does not tell what its models can do."""

    async def either(call: Call) -> None:
        if call.path.startswith("/v1/models/"):
            await call.reply("404 Not Found", {"error": {"type": "not_found_error"}})
        else:
            await handler(call)

    return either


def with_thinking(handler: Handler, *forms: str, max_tokens: int | None = None) -> Handler:
    """The handler, at an endpoint whose model takes these forms of thinking and no others."""
    forms_of_thinking = ("adaptive", "enabled", "disabled", "between_tools")
    types = {form: {"supported": form in forms} for form in forms_of_thinking}
    info = {
        "id": "claude-x",
        "max_tokens": max_tokens,
        "capabilities": {"thinking": {"supported": bool(forms), "types": types}},
    }

    async def either(call: Call) -> None:
        if call.path == "/v1/models/claude-x":
            await call.reply("200 OK", info)
        else:
            await handler(call)

    return either


def stream_of(events: Sequence[Event]) -> str:
    """The events as they go over the wire."""
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    )


def playing_events(*events: Event) -> Handler:
    """A handler that streams these events and then closes."""

    async def handler(call: Call) -> None:
        await call.begin()
        await call.send(stream_of(events).encode())

    return without_abilities(handler)


def start(**usage: int) -> Event:
    counts = {"input_tokens": 9, "output_tokens": 1, **usage}
    return {"type": "message_start", "message": {"role": "assistant", "usage": counts}}


def block(index: int, kind: str, *deltas: Event, **members: Any) -> list[Event]:
    """A content block: its beginning, what is added to it, and its end."""
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": kind, **members}},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(*pieces: str) -> list[Event]:
    return [{"type": "text_delta", "text": piece} for piece in pieces]


def thoughts(*pieces: str, signature: str = "") -> list[Event]:
    deltas: list[Event] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    return [*deltas, {"type": "signature_delta", "signature": signature}] if signature else deltas


def arguments(*pieces: str) -> list[Event]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def end(stop: str | None = "end_turn", **usage: int) -> list[Event]:
    counts = {"output_tokens": 2, **usage}
    return [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": counts},
        {"type": "message_stop"},
    ]


def answer(words: str, *, stop: str = "end_turn") -> list[Event]:
    """A whole answer of some words."""
    blocks = block(0, "text", *text(words), text="") if words else []
    return [start(), *blocks, *end(stop)]


def sent(served: Endpoint) -> list[dict[str, Any]]:
    """The bodies of the calls, without the look at what the model can do."""
    return [call.body for call in served.calls if call.path == "/v1/messages"]
