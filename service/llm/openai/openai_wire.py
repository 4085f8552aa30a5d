"""Our messages in the form of the chat-completions API.

Reasoning is not sent back: endpoints ignore it or refuse it. What would make an endpoint refuse the
whole conversation for good, such as arguments that are not JSON, is sent in a form that it takes.
The API has no mark for a tool's failure: its result begins with ``Error:``.

>>> wire_messages([Message.user("Hello")])
[{'role': 'user', 'content': 'Hello'}]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from service.domain.conversation.messages import ImageUrlPart, Message, NotePart, TextPart, ToolCall
from service.domain.conversation.tool_definitions import ToolDefinition

Wire = dict[str, Any]
"""A JSON object of the API."""


def wire_messages(messages: Sequence[Message]) -> list[Wire]:
    """The conversation as the API wants it."""
    return [_message(message) for message in messages]


def wire_tools(tools: Sequence[ToolDefinition]) -> list[Wire]:
    """The tools as the API wants them."""
    return [{"type": "function", "function": tool.model_dump(mode="json")} for tool in tools]


def wire_response_format(schema: Mapping[str, Any]) -> Wire:
    """A request for an answer that satisfies a JSON Schema."""
    properties = schema.get("properties", {})
    # Strict mode takes only objects whose properties are all required and no others allowed.
    strict = schema.get("additionalProperties") is False and set(schema.get("required", ())) == set(
        properties
    )
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": dict(schema), "strict": strict},
    }


def _message(message: Message) -> Wire:
    match message.role:
        case "tool":
            return {
                "role": "tool",
                "tool_call_id": message.tool_call_id or "",
                "content": clean(message.told_result),
            }
        case "assistant" if message.tool_calls:
            return {
                "role": "assistant",
                "content": _words(message) or None,
                "tool_calls": [_tool_call(call) for call in message.tool_calls],
            }
        case role:
            return {"role": role, "content": _content(message)}


def _content(message: Message) -> str | list[Wire]:
    if message.role != "user" or not any(isinstance(p, ImageUrlPart) for p in message.content):
        return _words(message)
    pieces: list[Wire] = []
    for part in message.content:
        if isinstance(part, TextPart):
            pieces.append({"type": "text", "text": clean(part.text)})
        elif isinstance(part, NotePart):
            pieces.append({"type": "text", "text": clean(part.note)})
        elif isinstance(part, ImageUrlPart):
            pieces.append({"type": "image_url", "image_url": {"url": part.url}})
    return pieces


def _words(message: Message) -> str:
    """What was said and noted, in this order; a note is a paragraph of its own."""
    words, after_note = "", False
    for part in message.content:
        if isinstance(part, NotePart) and part.note:
            words += f"\n\n{part.note}" if words else part.note
            after_note = True
        elif isinstance(part, TextPart) and part.text:
            words += f"\n\n{part.text}" if after_note else part.text
            after_note = False
    return clean(words)


def _tool_call(call: ToolCall) -> Wire:
    arguments = clean(call.arguments)
    if not is_object(arguments):
        arguments = json.dumps({"invalid_json": arguments}, ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def clean(text: str) -> str:
    """The text without lone surrogates, which cannot be sent as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
