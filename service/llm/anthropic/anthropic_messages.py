"""A Claude model by Anthropic's own API, the Messages API.

How much a model is asked to think has three forms, and each model refuses some of them: a budget
(up to Claude 4.6), adaptive thinking (from 4.6 on), and none, which some models call ``disabled``,
one ``between_tools``, and some do not know. The API tells which it takes, so that no list of names
is needed here; endpoints that do not tell know the oldest form, the budget.

Source: https://platform.claude.com/docs/en/build-with-claude/thinking
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import ConfigurationError
from service.llm.anthropic.anthropic_events import EventReader
from service.llm.anthropic.anthropic_wire import goes_on_from_a_thought, signatures, wire_request
from service.llm.openai.openai_compatible import Wire
from service.llm.protocol import without_images
from service.llm.remote.answer_limit import longest_of
from service.llm.remote.endpoints import MOST_ANSWER_BYTES, Endpoint, from_environment
from service.llm.remote.remote_model import RemoteLLM, SdkStream
from service.llm.remote.sdk_errors import said_by

if TYPE_CHECKING:
    import anthropic
    import httpx2

ROOM = 8192
"""Tokens for a model that thinks whether it is asked to or not."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the API tells of a model.

    >>> types = {"adaptive": {"supported": True}, "enabled": {"supported": False}}
    >>> info = {"capabilities": {"thinking": {"types": types}}, "max_tokens": 128_000}
    >>> sorted(Abilities.of(info).thinking), Abilities.of(info).max_tokens
    (['adaptive'], 128000)
    """

    thinking: frozenset[str] | None = None
    """The forms of thinking that it takes; None where that is not told."""
    max_tokens: int | None = None
    """The longest answer that may be asked for."""

    @classmethod
    def of(cls, model_info: object) -> Abilities:
        """Read ``GET /v1/models/{id}``; whatever is not of the expected form is not told."""
        info = _object(model_info)
        types = _object(_object(_object(info.get("capabilities")).get("thinking")).get("types"))
        forms = {name for name, form in types.items() if _object(form).get("supported") is True}
        most = info.get("max_tokens")
        return cls(
            thinking=frozenset(forms) if types else None,
            max_tokens=most if isinstance(most, int) and most > 0 else None,
        )


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a request says of thinking."""

    config: Wire | None
    """The member ``thinking``; None to say nothing."""
    room: int
    """How many tokens it takes beside those of the answer: the API counts them together."""

    @property
    def is_off(self) -> bool:
        """Whether the model is told not to think, so that earlier thoughts are of no use."""
        return self.config == _OFF

    @property
    def has_budget(self) -> bool:
        """Whether it is the oldest form, which has rules of its own."""
        return self.config is not None and self.config["type"] == "enabled"


_OFF: Wire = {"type": "disabled"}
NO_THINKING = Thinking(_OFF, room=0)


def thinking(tokens: int, abilities: Abilities) -> Thinking:
    """What to ask of a model.

    Args:
        tokens: how much it may think; 0 for not at all, where it can do without.
        abilities: what is known of it.

    >>> thinking(2048, Abilities()).config
    {'type': 'enabled', 'budget_tokens': 2048}
    >>> thinking(0, Abilities(thinking=frozenset({"adaptive", "between_tools"}))).config
    {'type': 'between_tools'}
    """
    forms = abilities.thinking
    if tokens:
        if forms is not None and "adaptive" in forms:
            return Thinking({"type": "adaptive", "display": "summarized"}, room=tokens)
        if forms is None or "enabled" in forms:
            return Thinking({"type": "enabled", "budget_tokens": tokens}, room=tokens)
        return Thinking(None, room=0)
    if forms is None:
        return Thinking(None, room=0)
    if "disabled" in forms:
        return NO_THINKING
    if "between_tools" in forms:
        return Thinking({"type": "between_tools"}, room=0)
    return Thinking(None, room=ROOM if "adaptive" in forms else 0)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


ANTHROPIC_BASE_URL = "https://api.anthropic.com"
DEFAULT_MAX_TOKENS = 2048
_COME_AGAIN = (408, 429, 503, 529)
_MOST_REFUSED = 10_000


class AnthropicModel(RemoteLLM["anthropic.AsyncAnthropic"]):
    """Messages, streamed. Satisfies `service.llm.protocol.LLM`.

    The first call is preceded by one look at what the model takes (``GET /v1/models/{id}``).

    It never retries a call. But where the API finds that earlier reasoning does not fit the
    conversation any more (it is bound to all that came before it, such as the system message), the
    call is made without that reasoning: the same conversation could never be sent again otherwise.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = None,
        thinking_tokens: int = 0,
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
            base_url: what comes before ``/v1/messages``; Anthropic's own when empty. None:
                ``ANTHROPIC_BASE_URL``, and Anthropic's own where that is not set.
            api_key: empty for endpoints that want none. None: ``ANTHROPIC_API_KEY``, but where a
                `base_url` is given no key, as that is for whoever the variable names.
            max_tokens: bound of an answer, where a call does not give its own; None for 2,048, as
                the API wants one.
            thinking_tokens: how much it may think before and beside the answer; 0 for not at all,
                where the model can do without. Newer models decide for themselves how much of it
                they use.
            context_tokens: how much the model takes, prompt and answer together.
            timeout_seconds: the longest silence.
            max_call_seconds: the longest that a call may take as a whole.
            takes_images: whether the model is shown images; else it is told of them.
            transport: what carries the requests; None for connections of its own.
            configured_as: see `Endpoint`.
            api_key_env: see `Endpoint`.
            most_answer_bytes: see `Endpoint`.

        Raises:
            ConfigurationError: Anthropic's SDK is not installed.
        """
        if find_spec("anthropic") is None:
            raise ConfigurationError(
                "llm.provider is anthropic, and Anthropic's SDK is not installed",
                advice="Install it with `pip install 'rondo-agent[anthropic]'`, or choose another"
                " RONDO_LLM__PROVIDER.",
            )
        base_url, api_key = from_environment("ANTHROPIC", base_url, api_key)
        address = (base_url or ANTHROPIC_BASE_URL).rstrip("/").removesuffix("/v1")
        endpoint = Endpoint(
            address,
            model,
            timeout_seconds,
            api_key,
            "anthropic",
            max_call_seconds,
            configured_as,
            api_key_env,
            most_answer_bytes,
        )
        super().__init__(
            endpoint,
            context_tokens=context_tokens,
            transport=transport,
            takes_images=takes_images,
        )
        self._max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        self._thinking_tokens = thinking_tokens
        self._known: Abilities | None = None
        self._looking = anyio.Lock()
        self._refused: set[str] = set()

    def most_output_tokens(self, max_tokens: int | None) -> int:
        """See `service.llm.protocol.most_output_tokens`."""
        return (max_tokens or self._max_tokens) + (self._thinking_tokens or ROOM)

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

        The API takes no temperature any more: `temperature` makes no difference.

        Raises:
            LLMError: of the kind that fits.
        """
        messages = messages if self.takes_images else without_images(messages)
        bound = max_tokens or self._max_tokens

        async def send() -> SdkStream:
            client = await self._ready_client()
            asked = thinking(self._thinking_tokens, await self._abilities(client))
            body = self._body(messages, tools, response_schema, bound, asked)
            try:
                return await self._post(client, body)
            except Exception as error:
                sent = signatures(messages) - self._refused
                if not (sent and self._refuses_thoughts(error)):
                    raise
                self._refuse(sent)
            body = self._body(messages, tools, response_schema, bound, asked)
            return await self._post(client, body)

        longest = longest_of(self.most_output_tokens(max_tokens))
        reader = EventReader(self.model, longest=longest)
        return self._play(reader, send)

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        response_schema: dict[str, Any] | None,
        max_tokens: int,
        asked: Thinking,
    ) -> dict[str, Any]:
        once = response_schema is not None  # a judgement, not a turn of a conversation
        request = wire_request(
            messages, tools, thoughts=not asked.is_off, without=self._refused, goes_on=not once
        )
        if asked.has_budget and not goes_on_from_a_thought(request["messages"]):
            asked = NO_THINKING
            request = wire_request(messages, tools, thoughts=False, goes_on=not once)
        most = (self._known or Abilities()).max_tokens
        longest = max_tokens + asked.room
        body = {
            "model": self.model,
            "max_tokens": longest if most is None else min(longest, most),
            **request,
            "stream": True,
        }
        if asked.config is not None:
            body["thinking"] = asked.config
        if response_schema is not None:
            from anthropic import transform_schema  # loaded by now

            # The API takes a part of JSON Schema; what it does not take becomes description.
            schema = transform_schema(response_schema)
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return body

    async def _post(self, client: anthropic.AsyncAnthropic, body: dict[str, Any]) -> SdkStream:
        import anthropic  # loaded by now

        # Events as plain JSON: the API may add kinds that the SDK's types do not know.
        return await client.post(
            "/v1/messages",
            cast_to=object,
            body=body,
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
        )

    async def _abilities(self, client: anthropic.AsyncAnthropic) -> Abilities:
        """What the model takes. Asked for until there is an answer."""
        import anthropic  # loaded by now

        async with self._looking:
            if self._known is not None:
                return self._known
            try:
                info = await client.get(f"/v1/models/{quote(self.model, safe='')}", cast_to=object)
            except anthropic.APIStatusError as error:
                if error.status_code in _COME_AGAIN:
                    raise
                if error.status_code >= 500:
                    return Abilities()  # it may tell the next time
                info = None  # there is no such look-up here, or not with this key
            except ValueError:  # no JSON
                info = None
            self._known = Abilities.of(info)
            return self._known

    def _refuses_thoughts(self, error: Exception) -> bool:
        import anthropic  # loaded by now

        if not isinstance(error, anthropic.BadRequestError):
            return False
        said = said_by(error, self._endpoint)
        return "thinking" in said and ("signature" in said or "block" in said)

    def _refuse(self, signed: set[str]) -> None:
        if len(self._refused) + len(signed) > _MOST_REFUSED:
            self._refused.clear()
        self._refused |= signed

    def _make_client(self) -> anthropic.AsyncAnthropic:
        import anthropic

        options = self._http_options()
        return anthropic.AsyncAnthropic(
            api_key=self._endpoint.api_key or "none",  # else the SDK looks for one of its own
            base_url=self._endpoint.base_url,
            timeout=options["timeout"],
            max_retries=0,
            open_telemetry=False,
            http_client=anthropic.DefaultAsyncHttpxClient(**options),
        )
