"""A model behind an OpenAI-compatible endpoint, near or far."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from service.agent.llm.chunks import ChunkReader
from service.agent.llm.protocol import LLMStatus
from service.agent.llm.sdk_errors import Endpoint, as_llm_error, is_transport_error
from service.agent.llm.wire import wire_messages, wire_response_format, wire_tools
from service.domain.errors import (
    LLMConnectionError,
    LLMError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
    Problem,
)
from service.domain.messages import Message
from service.domain.stream import StreamPart
from service.domain.tools import ToolDefinition

if TYPE_CHECKING:
    import openai

OPENAI_BASE_URL = "https://api.openai.com/v1"
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 1.0
_LEAST_BOUND = 65_536  # characters
_CHARACTERS_A_TOKEN = 16  # four, and four times that, so that no honest answer is cut


class OpenAICompatibleLLM:
    """Chat completions, streamed. Satisfies `service.agent.llm.protocol.LLM`.

    Constructing it is cheap: the SDK is imported and the client made with the first call, in a
    worker thread. It never retries.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str = "",
        api_key: str = "",
        temperature: float | None = None,
        max_tokens: int = 2048,
        context_tokens: int = 32_768,
        timeout_seconds: float = 120,
    ) -> None:
        """Describe the endpoint.

        Args:
            model: its name there.
            base_url: where the API begins, mostly ending in ``/v1``; OpenAI's own when empty.
            api_key: empty for endpoints that want none.
            temperature: None for the endpoint's default.
            max_tokens: bound of an answer, where a call does not give its own.
            context_tokens: how much the model takes, prompt and answer together.
            timeout_seconds: the longest silence.
        """
        self._model = model
        self._context_tokens = context_tokens
        self._api_key = api_key
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._endpoint = Endpoint(base_url or OPENAI_BASE_URL, model, timeout_seconds, api_key)
        self._client: openai.AsyncOpenAI | None = None
        self._making = anyio.Lock()
        self._closed = False
        self._problem: Problem | None = None

    @property
    def model(self) -> str:
        """The model's name at the endpoint."""
        return self._model

    @property
    def context_tokens(self) -> int:
        """How many tokens a call may hold."""
        return self._context_tokens

    async def warm_up(
        self, opening: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Nothing: calls cost money, and an endpoint is ready or will say that it is not."""

    def status(self) -> LLMStatus:
        """Ready until a call fails; the next that succeeds makes it ready again.

        The words are our own: this is shown to whoever asks, and endpoints quote keys.
        """
        if self._problem is not None:
            return LLMStatus(False, self._problem.model_copy(update={"detail": ""}).in_words())
        return LLMStatus(True, f"{self._model} at {self._endpoint.place}")

    async def aclose(self) -> None:
        """Close the connections. Later calls fail."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await client.close()

    async def stream(
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
        body = self._body(messages, tools, response_schema, max_tokens, temperature)
        bound = (max_tokens or self._max_tokens) * _CHARACTERS_A_TOKEN
        reader = ChunkReader(self._model, longest=max(bound, _LEAST_BOUND))
        answer: openai.AsyncStream[object] | None = None
        try:
            answer = await self._send(body)
            async for chunk in answer:
                for part in reader.read(chunk):
                    yield part
            self._check(reader, answer)
        except Exception as error:  # the seam: only LLMErrors may leave it
            failure = as_llm_error(error, self._endpoint, streaming=answer is not None)
            # The answer is whole once the endpoint has said how it finished: what breaks after
            # that was only the report of usage.
            if not (reader.is_whole and is_transport_error(error)):
                self._remember(failure)
                raise failure from error
        finally:
            if answer is not None:
                # Also when we are cancelled: the endpoint must not go on writing for nobody.
                with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await answer.close()
        self._problem = None

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        response_schema: dict[str, Any] | None,
        max_tokens: int | None,
        temperature: float | None,
    ) -> dict[str, Any]:
        # OpenAI's newer models refuse the old name; most other endpoints know no other.
        bound = "max_completion_tokens" if self._is_openai else "max_tokens"
        body: dict[str, Any] = {
            "model": self._model,
            "messages": wire_messages(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            bound: max_tokens or self._max_tokens,
        }
        if tools:
            body["tools"] = wire_tools(tools)
        if response_schema is not None:
            body["response_format"] = wire_response_format(response_schema)
        if (warmth := self._temperature if temperature is None else temperature) is not None:
            body["temperature"] = warmth
        return body

    async def _send(self, body: dict[str, Any]) -> openai.AsyncStream[object]:
        if self._closed:
            raise LLMError("the client is closed", advice="The program is shutting down.")
        client = self._client
        if client is None:
            async with self._making:
                if self._client is None:
                    self._client = await anyio.to_thread.run_sync(
                        self._make_client, abandon_on_cancel=True
                    )
                client = self._client
        import openai  # loaded by now

        # Chunks as plain JSON: the SDK's own types would cast away what providers add.
        return await client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )

    def _make_client(self) -> openai.AsyncOpenAI:
        import httpx2
        import openai

        timeout = httpx2.Timeout(
            self._endpoint.timeout_seconds,
            connect=min(_CONNECT_SECONDS, self._endpoint.timeout_seconds),
        )
        options: dict[str, Any] = {"timeout": timeout}
        if _is_loopback(self._endpoint.base_url):
            # A proxy of the environment cannot reach this machine's own services. Connections
            # to them cost nothing; one that is kept may be closed just as we use it again.
            options.update(trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0))
        return openai.AsyncOpenAI(
            api_key=self._api_key or "none",
            base_url=self._endpoint.base_url,
            timeout=timeout,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpx2Client(**options),
        )

    def _check(self, reader: ChunkReader, answer: openai.AsyncStream[object]) -> None:
        """Find what is missing in a stream that ended without an error.

        Raises:
            LLMError: it was cut, is empty, or was withheld.
        """
        place = self._endpoint.place
        reader.finish()
        if reader.chunks == 0:
            kind = answer.response.headers.get("content-type", "nothing")
            if kind.startswith("text/event-stream"):
                raise LLMStreamError(
                    f"{place} sent an empty stream",
                    advice="Try again; if it goes on, ask the endpoint's provider.",
                )
            raise LLMStreamError(
                f"{place} answered with {kind} instead of a stream of chunks",
                advice="Check RONDO_LLM__BASE_URL: it mostly ends in /v1.",
            )
        if reader.finish_reason is None:
            raise LLMStreamError(f"{place} ended its answer in the middle", advice="Try again.")
        if reader.finish_reason == "error":
            raise LLMStreamError(f"{place} gave up in mid-stream", advice="Try again.")
        if reader.has_content:
            return
        if reader.finish_reason == "content_filter":
            raise LLMError(
                f"the content filter of {place} withheld the answer",
                advice="Put the request in other words.",
            )
        if reader.finish_reason == "length":
            raise LLMStreamError(
                f"{self._model} used up all its tokens before the first word of the answer",
                advice="Raise RONDO_LLM__MAX_TOKENS.",
            )
        raise LLMStreamError(
            f"{self._model} gave neither words nor a tool call",
            advice="Try again; if it goes on, choose another model.",
        )

    def _remember(self, failure: LLMError) -> None:
        """Keep for `status` what stands in the way of every call, not of this one only."""
        lasting = (LLMConnectionError, LLMTimeoutError)
        if isinstance(failure, lasting) or (
            isinstance(failure, LLMStatusError)
            and (failure.status in (401, 403, 404) or failure.status >= 500)
        ):
            self._problem = failure.problem()

    @property
    def _is_openai(self) -> bool:
        host = urlsplit(self._endpoint.base_url).hostname or ""
        return host == "api.openai.com" or host.endswith(".openai.azure.com")


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
