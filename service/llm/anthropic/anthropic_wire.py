"""Our messages in the form of Anthropic's Messages API.

Reasoning goes back as it came, with its signature and in its place: the API verifies it, and a
model that was interrupted by a tool thinks on from there. Reasoning that was never signed, from
another provider, stays out. A redacted thought has no words at all: a `ThinkPart` keeps it as a
signature that begins with `REDACTED`, which no signature of the API can (they are base64).

What would make the API refuse the whole conversation for good is sent in a form that it takes:
empty texts not at all, arguments that are not JSON as an object, foreign ids of tool calls in its
own alphabet.

Source: https://platform.claude.com/docs/en/api/messages

>>> request = wire_request([Message.user("Hello")])
>>> request["messages"][0]["role"], request["messages"][0]["content"][0]["text"]
('user', 'Hello')
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes
from zlib import crc32

from service.domain.conversation.messages import (
    ContentPart,
    ImageUrlPart,
    Message,
    NotePart,
    TextPart,
    ThinkPart,
    ToolCall,
)
from service.domain.conversation.tool_definitions import ToolDefinition
from service.llm.openai.openai_compatible import Wire, clean, is_object

REDACTED = "redacted_thinking:"
"""How the signature of a redacted thought begins; its data follow."""

_CACHED = {"type": "ephemeral"}
_OPENING = "[The conversation so far:]"
_THOUGHTS = ("thinking", "redacted_thinking")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_DATA_URL = re.compile(r"data:(image/[\w.+-]+)?((?:;[^,;]*)*),(.*)", re.DOTALL | re.IGNORECASE)


def wire_request(
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition] = (),
    *,
    thoughts: bool = True,
    without: Collection[str] = (),
    goes_on: bool = True,
) -> Wire:
    """The members ``system``, ``messages``, ``tools`` and ``tool_choice`` of a request.

    What stays the same from call to call is marked to be cached: the tools and the system message,
    and the conversation up to now, if it will be gone on with. (Writing to the cache costs a
    quarter more than not caching, reading from it a tenth.)

    Args:
        messages: the conversation.
        tools: what the model may call.
        thoughts: whether earlier reasoning is sent.
        without: signatures of reasoning that the API has refused.
        goes_on: whether the conversation is to be continued.
    """
    system = "\n\n".join(filter(str.strip, (_words(m) for m in messages if m.role == "system")))
    turns = _turns(messages, thoughts=thoughts, without=without)
    request: Wire = {"messages": turns}
    definitions = [_tool(tool) for tool in tools]
    if not definitions and (used := _tools_used(turns)):
        # The API wants every tool of the conversation defined, also where none is on offer.
        definitions = [_no_longer_there(name) for name in used]
        request["tool_choice"] = {"type": "none"}
    if definitions:
        request["tools"] = definitions
    if system:
        request["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
    elif definitions:
        definitions[-1]["cache_control"] = _CACHED
    if goes_on and turns and turns[-1]["role"] == "user":
        turns[-1]["content"][-1]["cache_control"] = _CACHED
    return request


def goes_on_from_a_thought(turns: Sequence[Wire]) -> bool:
    """Whether extended thinking may be asked for: a turn with tools must have begun with it."""
    for turn in reversed(turns):
        if turn["role"] == "assistant":
            blocks = turn["content"]
            has_tools = any(block["type"] == "tool_use" for block in blocks)
            return not has_tools or blocks[0]["type"] in _THOUGHTS
    return True


def signatures(messages: Sequence[Message]) -> set[str]:
    """The signatures of all reasoning in a conversation."""
    return {
        part.signature
        for message in messages
        for part in message.content
        if isinstance(part, ThinkPart) and part.signature
    }


def _turns(messages: Sequence[Message], *, thoughts: bool, without: Collection[str]) -> list[Wire]:
    turns: list[Wire] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message, thoughts=thoughts, without=without))
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":  # results first: the API finds none behind other blocks
            turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [_text(_OPENING)]})
    return turns


def _blocks(message: Message, *, thoughts: bool, without: Collection[str]) -> Iterator[Wire]:
    if message.role == "tool":
        result: Wire = {"type": "tool_result", "tool_use_id": _own(message.tool_call_id or "")}
        words = clean(message.text)
        if message.is_error:
            result["is_error"] = True  # refused without words
            words = words if words.strip() else clean(message.told_result)
        if words.strip():
            result["content"] = words
        yield result
        return
    for part in message.content:
        if isinstance(part, ThinkPart):
            signed = part.signature and part.signature not in without
            if message.role == "assistant" and thoughts and signed:
                yield _thought(part)
        elif isinstance(part, ImageUrlPart):
            if message.role == "user":
                yield _image(part.url)
        elif (words := clean(_said(part))).strip():
            yield _text(words)
    for call in message.tool_calls:
        yield _tool_use(call)


def _words(message: Message) -> str:
    return "\n\n".join(filter(None, (clean(_said(part)) for part in message.content)))


def _said(part: ContentPart) -> str:
    match part:
        case TextPart(text=text):
            return text
        case NotePart(note=note):
            return note
        case _:
            return ""


def _text(words: str) -> Wire:
    return {"type": "text", "text": words}


def _thought(part: ThinkPart) -> Wire:
    signature = part.signature or ""
    if signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
    return {"type": "thinking", "thinking": part.think, "signature": signature}


def _image(url: str) -> Wire:
    if not url.lower().startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return _text("[an image that cannot be read]")
    kind, options, data = match.groups()
    if ";base64" in options.lower():
        data = re.sub(r"\s", "", data)
    else:
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    source = {"type": "base64", "media_type": (kind or "image/png").lower(), "data": data}
    return {"type": "image", "source": source}


def _tool_use(call: ToolCall) -> Wire:
    arguments = clean(call.arguments)
    given: dict[str, Any] = (
        json.loads(arguments) if is_object(arguments) else {"invalid_json": arguments}
    )
    return {"type": "tool_use", "id": _own(call.id), "name": _own(call.name)[:128], "input": given}


def _tool(tool: ToolDefinition) -> Wire:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def _no_longer_there(name: str) -> Wire:
    return {
        "name": name,
        "description": "Not available at present.",
        "input_schema": {"type": "object"},
    }


def _tools_used(turns: Sequence[Mapping[str, Any]]) -> list[str]:
    blocks = (block for turn in turns for block in turn["content"])
    return sorted({block["name"] for block in blocks if block["type"] == "tool_use"})


def _own(name: str) -> str:
    """A name or an id in the alphabet that the API takes, still told apart from its like."""
    changed = _FOREIGN.sub("_", name)
    if changed == name and name:
        return name
    return f"{changed}_{crc32(name.encode('utf-8', 'replace')):08x}"
