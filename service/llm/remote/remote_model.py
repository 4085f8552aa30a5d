"""What the clients of all endpoints have in common: their life, their streams, their status.

Each brings a `Reader` of its provider's stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

import anyio
import anyio.to_thread

from service.domain.conversation.messages import FinishReason, Message
from service.domain.conversation.stream_parts import StreamPart
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import (
    LLMConnectionError,
    LLMContextError,
    LLMError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
    Problem,
)
from service.llm.protocol import LLMStatus
from service.llm.remote.endpoints import Endpoint, before
from service.llm.remote.sdk_errors import as_llm_error, is_transport_error

if TYPE_CHECKING:
    import httpx2

    from service.llm.remote.bounded_body import StreamedBody

Ending = Literal["stop", "length", "window", "withheld", "error"]
"""How an endpoint says that it ended an answer: it was done, ``max_tokens`` were used up, the
window was full, a filter or the model itself refused, or it failed."""

FINISH_REASONS: Mapping[Ending, FinishReason] = {
    "length": "length",
    "window": "length",
    "withheld": "content_filter",
}
"""The endings of answers that are not whole, in the field's words."""


class Reader(Protocol):
    """Turns the decoded events of one stream into stream parts."""

    ending: Ending | None
    """As the endpoint said it; None until it did."""
    has_content: bool
    """Whether there was a visible letter or a tool call."""
    chunks: int
    """How many events there were."""

    def read(self, chunk: object) -> list[StreamPart]:
        """The parts of one event.

        Raises:
            LLMStreamError: it is not of the expected form, or the answer does not end.
        """
        ...

    def finish(self) -> list[StreamPart]:
        """What was held back; called once the stream has ended.

        Raises:
            LLMStreamError: something was left open.
        """
        ...


_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 1.0
_REDIRECTS = (301, 302, 303, 307, 308)
_LASTING = (401, 402, 403, 404)


class Closeable(Protocol):
    """A client of an SDK."""

    async def close(self) -> None:
        """Release its connections."""
        ...


class SdkStream(Protocol):
    """A stream of decoded events, as both SDKs give it."""

    @property
    def response(self) -> httpx2.Response:
        """The answer that it comes from."""
        ...

    def __aiter__(self) -> AsyncIterator[object]: ...

    async def close(self) -> None:
        """Release the connection."""
        ...


Client = TypeVar("Client", bound=Closeable)


class RemoteLLM(ABC, Generic[Client]):
    """A model at an endpoint. Satisfies all of `service.llm.protocol.LLM` but ``stream``.

    Constructing it is cheap: the SDK is imported and the client made with the first call, in a
    worker thread. It never retries.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        context_tokens: int,
        transport: httpx2.AsyncBaseTransport | None,
        takes_images: bool = True,
    ) -> None:
        """Describe the endpoint.

        Args:
            endpoint: what is called.
            context_tokens: how much the model takes, prompt and answer together.
            takes_images: whether the model is shown images; else it is told of them.
            transport: what carries the requests; None for connections of its own.
        """
        self._endpoint = endpoint
        self.takes_images = takes_images
        self._context_tokens = context_tokens
        self._transport = transport
        self._client: Client | None = None
        self._making = anyio.Lock()
        self._closed = False
        self._problem: Problem | None = None

    @property
    def model(self) -> str:
        """The model's name at the endpoint."""
        return self._endpoint.model

    @property
    def context_tokens(self) -> int:
        """How many tokens a call may hold."""
        return self._context_tokens

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Nothing: calls cost money, and an endpoint is ready or will say that it is not."""

    def status(self) -> LLMStatus:
        """Ready until a call fails; the next that succeeds makes it ready again.

        The words are our own: this is shown to whoever asks, and endpoints quote keys.
        """
        if self._problem is not None:
            return LLMStatus(False, self._problem.model_copy(update={"detail": ""}).in_words())
        return LLMStatus(True, f"{self.model} at {self._endpoint.place}")

    async def aclose(self) -> None:
        """Close the connections. Later calls fail."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await client.close()

    @abstractmethod
    def _make_client(self) -> Client:
        """Import the SDK and make its client. Runs in a worker thread."""

    async def _ready_client(self) -> Client:
        if self._closed:
            raise LLMError("the client is closed", advice="The program is shutting down.")
        if self._client is not None:
            return self._client
        async with self._making:
            if self._client is None:
                self._client = await anyio.to_thread.run_sync(
                    self._make_client, abandon_on_cancel=True
                )
            return self._client

    def _http_options(self) -> dict[str, Any]:
        """How the SDK's HTTP client is to be made."""
        import httpx2

        from service.llm.remote.bounded_body import bounding

        timeout = httpx2.Timeout(
            self._endpoint.timeout_seconds,
            connect=min(_CONNECT_SECONDS, self._endpoint.timeout_seconds),
        )
        options: dict[str, Any] = {
            "timeout": timeout,
            "follow_redirects": False,  # a key goes where its owner sent it
            "event_hooks": {"response": [bounding(self._endpoint)]},
            "headers": {"Accept-Encoding": "identity"},  # streams are not worth it
        }
        if self._endpoint.is_loopback:
            # A proxy of the environment cannot reach this machine's own services. Connections
            # to them cost nothing; one that is kept may be closed just as we use it again.
            options.update(trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0))
        if self._transport is not None:
            options["transport"] = self._transport
        return options

    async def _play(
        self, reader: Reader, send: Callable[[], Awaitable[SdkStream]]
    ) -> AsyncGenerator[StreamPart]:
        """Make a call and stream its answer.

        Args:
            reader: of the stream's events.
            send: makes the request.

        Raises:
            LLMError: of the kind that fits.
        """
        deadline = anyio.current_time() + self._endpoint.max_call_seconds
        answer: SdkStream | None = None
        try:
            with before(deadline, self._endpoint):
                answer = await send()
            _bounded(answer).deadline = deadline
            async for chunk in answer:
                for part in reader.read(chunk):
                    yield part
            for part in reader.finish():
                yield part
            self._check(reader, answer)
        except Exception as error:  # the seam: only LLMErrors may leave it
            failure = as_llm_error(error, self._endpoint, streaming=answer is not None)
            # The answer is whole once the endpoint has said how it finished: what breaks after
            # that was only the report of usage.
            is_whole = reader.ending not in (None, "error") and reader.has_content
            is_of_wire = is_transport_error(error, self._endpoint) or (
                answer is not None and error is _bounded(answer).failure
            )
            if not (is_whole and is_of_wire):
                self._remember(failure)
                raise failure from error
        finally:
            if answer is not None:
                # Also when we are cancelled: the endpoint must not go on writing for nobody.
                with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await answer.close()
        self._problem = None

    def _check(self, reader: Reader, answer: SdkStream) -> None:
        """Find what is missing in a stream that ended without an error.

        Raises:
            LLMError: it was cut, is empty, or was withheld.
        """
        place, model = self._endpoint.place, self.model
        if reader.chunks == 0:
            raise self._no_stream(answer.response.headers.get("content-type", "nothing"))
        if reader.ending is None:
            raise LLMStreamError(f"{place} ended its answer in the middle", advice="Try again.")
        if reader.ending == "error":
            raise LLMStreamError(f"{place} gave up in mid-stream", advice="Try again.")
        if reader.has_content:
            return
        if reader.ending == "withheld":
            raise LLMError(
                f"the content filter of {place} withheld the answer",
                advice="Put the request in other words.",
            )
        if reader.ending == "window":
            raise LLMContextError(
                f"the conversation left {model} no room for an answer",
                advice="Begin a new conversation, or lower RONDO_LLM__CONTEXT_TOKENS.",
            )
        if reader.ending == "length":
            raise LLMStreamError(
                f"{model} used up all its tokens before the first word of the answer",
                advice="Set RONDO_LLM__MAX_TOKENS higher, or choose a model that thinks less.",
            )
        raise LLMStreamError(
            f"{model} gave neither words nor a tool call",
            advice="Try again; if it goes on, choose another model.",
        )

    def _no_stream(self, content_type: str) -> LLMStreamError:
        place = self._endpoint.place
        if content_type.startswith("text/event-stream"):
            return LLMStreamError(
                f"{place} sent an empty stream",
                advice="Try again; if it goes on, ask the endpoint's provider.",
            )
        return LLMStreamError(
            f"{place} answered with {content_type} instead of a stream of chunks",
            advice=f"Check {self._endpoint.address_setting}: it {self._endpoint.form_of_address}.",
        )

    def _remember(self, failure: LLMError) -> None:
        """Keep for `status` what stands in the way of every call, not of this one only."""
        lasting = (LLMConnectionError, LLMTimeoutError)
        if isinstance(failure, lasting) or (
            isinstance(failure, LLMStatusError)
            and (failure.status in _REDIRECTS + _LASTING or failure.status >= 500)
        ):
            self._problem = failure.problem()
            if isinstance(failure, LLMStatusError) and failure.status in _REDIRECTS:
                # The address that it names is the endpoint's word, and the status is everybody's.
                advice = "It redirects to another address: `rondo doctor` says to which."
                self._problem = self._problem.model_copy(update={"advice": advice})


def _bounded(answer: SdkStream) -> StreamedBody:
    return cast("StreamedBody", answer.response.stream)  # by the hook of the HTTP client
