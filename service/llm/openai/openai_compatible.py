"""A model behind an OpenAI-compatible endpoint, near or far: our messages in the form of its API.

Reasoning is not sent back: endpoints ignore it or refuse it. What would make an endpoint refuse the
whole conversation for good, such as arguments that are not JSON, is sent in a form that it takes.
The API has no mark for a tool's failure: its result begins with ``Error:``.

>>> wire_messages([Message.user("Hello")])
[{'role': 'user', 'content': 'Hello'}]
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from service.domain.conversation.messages import ImageUrlPart, Message, NotePart, TextPart, ToolCall
from service.domain.conversation.stream_parts import StreamPart
from service.domain.conversation.tool_definitions import ToolDefinition
from service.llm.openai.openai_chunks import ChunkReader
from service.llm.protocol import without_images
from service.llm.remote.answer_limit import UNBOUNDED, longest_of
from service.llm.remote.endpoints import MOST_ANSWER_BYTES, Endpoint, from_environment
from service.llm.remote.remote_model import RemoteLLM, SdkStream

if TYPE_CHECKING:
    import httpx2
    import openai

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


OPENAI_BASE_URL = "https://api.openai.com/v1"


class OpenAIModel(RemoteLLM["openai.AsyncOpenAI"]):
    """Chat completions, streamed. Satisfies `service.llm.protocol.LLM`."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        context_tokens: int = 32_768,
        timeout_seconds: float = 120,
        max_call_seconds: float = 3600,
        takes_images: bool = True,
        transport: httpx2.AsyncBaseTransport | None = None,
        configured_as: str = "",
        api_key_env: str = "",
        most_answer_bytes: int = MOST_ANSWER_BYTES,
    ) -> None:
        """Describe the endpoint.

        Args:
            model: its name there.
            base_url: where the API begins, mostly ending in ``/v1``; OpenAI's own when empty. None:
                ``OPENAI_BASE_URL``, and OpenAI's own where that is not set.
            api_key: empty for endpoints that want none. None: ``OPENAI_API_KEY``, but where a
                `base_url` is given no key, as that is for whoever the variable names.
            temperature: None for the endpoint's default.
            max_tokens: bound of an answer, where a call does not give its own; None for the
                endpoint's.
            context_tokens: how much the model takes, prompt and answer together.
            timeout_seconds: the longest silence.
            max_call_seconds: the longest that a call may take as a whole.
            configured_as: see `Endpoint`.
            api_key_env: see `Endpoint`.
            most_answer_bytes: see `Endpoint`.
            takes_images: whether the model is shown images; else it is told of them.
            transport: what carries the requests; None for connections of its own.
        """
        base_url, api_key = from_environment("OPENAI", base_url, api_key)
        endpoint = Endpoint(
            base_url or OPENAI_BASE_URL,
            model,
            timeout_seconds,
            api_key,
            max_call_seconds=max_call_seconds,
            configured_as=configured_as,
            api_key_env=api_key_env,
            most_answer_bytes=most_answer_bytes,
        )
        super().__init__(
            endpoint,
            context_tokens=context_tokens,
            transport=transport,
            takes_images=takes_images,
        )
        self._temperature = temperature
        self._max_tokens = max_tokens

    def most_output_tokens(self, max_tokens: int | None) -> int | None:
        """See `service.llm.protocol.most_output_tokens`."""
        return max_tokens or self._max_tokens

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Stream the answer (see the protocol).

        Raises:
            LLMError: of the kind that fits.
        """
        messages = messages if self.takes_images else without_images(messages)
        bound = max_tokens or self._max_tokens
        warmth = self._temperature if temperature is None else temperature

        async def send() -> SdkStream:
            client = await self._ready_client()
            import openai  # loaded by now, in a worker thread

            # Chunks as plain JSON: the SDK's own types would cast away what providers add.
            return await client.post(
                "/chat/completions",
                cast_to=object,
                body=self._body(messages, tools, response_schema, bound, warmth),
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )

        longest = UNBOUNDED if bound is None else longest_of(bound)
        return self._play(ChunkReader(self.model, longest=longest), send)

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        response_schema: dict[str, Any] | None,
        max_tokens: int | None,
        temperature: float | None,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": wire_messages(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if max_tokens is not None:
            # OpenAI's newer models refuse the old name; most other endpoints know no other.
            bound = "max_completion_tokens" if self._is_openai else "max_tokens"
            body[bound] = max_tokens
        if tools:
            body["tools"] = wire_tools(tools)
        if response_schema is not None:
            body["response_format"] = wire_response_format(response_schema)
        if temperature is not None:
            body["temperature"] = temperature
        return body

    def _make_client(self) -> openai.AsyncOpenAI:
        import openai

        options = self._http_options()
        return openai.AsyncOpenAI(
            api_key=self._endpoint.api_key or "none",
            base_url=self._endpoint.base_url,
            timeout=options["timeout"],
            max_retries=0,
            http_client=openai.DefaultAsyncHttpx2Client(**options),
        )

    @property
    def _is_openai(self) -> bool:
        host = urlsplit(self._endpoint.base_url).hostname or ""
        return host == "api.openai.com" or host.endswith(".openai.azure.com")
