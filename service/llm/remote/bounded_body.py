"""The ends that whatever an endpoint sends has to come to: in bytes, and in time.

The SDKs bound neither the length of a line nor that of a body, and each byte, of a comment too,
puts off the time-out of their HTTP library. So it is done below them, where the bytes arrive.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import anyio
import httpx2

from service.domain.errors import LLMError, LLMStreamError, LLMTimeoutError
from service.llm.remote.endpoints import Endpoint, silence, took_too_long

MOST_EVENT_BYTES = 8 * 2**20
"""Of one event: some endpoints send a whole answer, or an image, as one."""
MOST_EVENT_LINES = 1000
"""Of one event, which has two or three: with each, Anthropic's SDK copies those before it."""
MOST_WHOLE_BODY_BYTES = 2**20
"""Of what is no stream: the words of an error, a model's description."""
_PIECE_BYTES = 2**16  # as they come from a socket: what is in one piece is not bounded further

# https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream: lines end
# in CR, LF or both, an empty one ends an event, and one that begins with a colon is a comment.
_FIELD = re.compile(rb"[\r\n][^:\r\n]")


def bounding(endpoint: Endpoint) -> Callable[[httpx2.Response], Awaitable[None]]:
    """A hook for the responses of an HTTP client, which gives each a bounded body."""

    async def bound(response: httpx2.Response) -> None:
        body = response.stream
        if not isinstance(body, httpx2.AsyncByteStream):
            return
        if "content-encoding" in response.headers:
            # Decoded here, so that what is counted is what would be kept.
            body = _Decoded(body, response.headers["content-encoding"])
            del response.headers["content-encoding"]
        if response.request.method == "POST" and response.is_success:
            response.stream = StreamedBody(body, endpoint)
        else:
            response.stream = _WholeBody(body, endpoint.timeout_seconds)

    return bound


class StreamedBody(httpx2.AsyncByteStream):
    """The body of a streamed answer. It raises an `LLMError` where it should have come to an end.

    A silence is a time without an event: comments are sent by what stands between, whether or not
    there is still somebody behind it. Pings are events.
    """

    def __init__(self, body: httpx2.AsyncByteStream, endpoint: Endpoint) -> None:
        self._body = body
        self._endpoint = endpoint
        self.deadline = float("inf")
        """When the call must be over, on the clock of the event loop."""
        self.failure: LLMError | None = None
        """Why it was broken off."""
        self._bytes = 0
        self._open_bytes = 0  # since the last empty line
        self._open_lines = 0
        self._in_event = False  # whether they are more than comments
        self._bytes_since_event = 0
        self._last = b"\n"
        self._silent_seconds = 0.0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with _pieces(self._body) as source:
            while (chunk := await self._next(source)) is not None:
                self._count(chunk)
                yield chunk

    async def aclose(self) -> None:
        """Release the connection."""
        await self._body.aclose()

    async def _next(self, source: AsyncIterator[bytes]) -> bytes | None:
        began = anyio.current_time()
        silence_ends = began + self._endpoint.timeout_seconds - self._silent_seconds
        with anyio.CancelScope(deadline=min(silence_ends, self.deadline)) as scope:
            chunk = await anext(source, None)
        if scope.cancelled_caught:
            is_over = self.deadline <= silence_ends
            raise self._broken(took_too_long(self._endpoint) if is_over else self._silence())
        # Only what we waited for counts: whoever reads may have been busy in between.
        self._silent_seconds += anyio.current_time() - began
        return chunk

    def _count(self, chunk: bytes) -> None:
        text = self._last + chunk
        self._last = text[-1:]
        self._bytes += len(chunk)
        self._bytes_since_event += len(chunk)
        end = max(text.rfind(b"\n\n"), text.rfind(b"\n\r"), text.rfind(b"\r\r"))
        if end >= 0:
            if self._in_event or _FIELD.search(text, 0, end):
                self._silent_seconds = 0.0
                self._bytes_since_event = 0
            self._open_bytes = self._open_lines = 0
            self._in_event = False
        self._open_bytes += len(text) - max(end + 2, 1)
        self._open_lines += _lines(text, max(end + 2, 1))
        self._in_event = self._in_event or _FIELD.search(text, end + 1) is not None
        if self._open_bytes > MOST_EVENT_BYTES:
            raise self._broken(self._endless(f"a line or an event of {MOST_EVENT_BYTES:,} bytes"))
        if self._open_lines > MOST_EVENT_LINES:
            raise self._broken(self._endless(f"an event of {MOST_EVENT_LINES:,} lines"))
        if self._bytes > self._endpoint.most_answer_bytes:
            raise self._broken(self._endless(f"{self._endpoint.most_answer_bytes:,} bytes"))

    def _broken(self, failure: LLMError) -> LLMError:
        self.failure = failure
        return failure

    def _endless(self, what: str) -> LLMStreamError:
        endless = LLMStreamError(
            f"{self._endpoint.place} sent {what} and had not come to its end: it was broken off",
            advice="That is no answer of a language model. Check"
            f" {self._endpoint.address_setting}, and any proxy before it.",
        )
        endless.retryable = False  # once more would be as long
        return endless

    def _silence(self) -> LLMTimeoutError:
        seconds = f"{self._endpoint.timeout_seconds:g} s"
        if not self._bytes_since_event:
            return silence(self._endpoint)
        return LLMTimeoutError(
            f"{self._endpoint.place} showed signs of life for {seconds}, and sent no part of an"
            " answer",
            advice="Try again. If the model may think that long without a word, raise"
            " RONDO_LLM__TIMEOUT_SECONDS.",
        )


class _WholeBody(httpx2.AsyncByteStream):
    """A body that is read as a whole. It is cut where it is too long, or takes too long: what an
    error begins with says enough.
    """

    def __init__(self, body: httpx2.AsyncByteStream, seconds: float) -> None:
        self._body = body
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_WHOLE_BODY_BYTES
        deadline = anyio.current_time() + self._seconds
        async with _pieces(self._body) as source:
            while left > 0:
                chunk = None
                with anyio.CancelScope(deadline=deadline):
                    chunk = await anext(source, None)
                if chunk is None:
                    return
                yield chunk[:left]
                left -= len(chunk)

    async def aclose(self) -> None:
        """Release the connection."""
        await self._body.aclose()


class _Decoded(httpx2.AsyncByteStream):
    """A compressed body, decoded in pieces of bounded size."""

    def __init__(self, body: httpx2.AsyncByteStream, encoding: str) -> None:
        self._body = body
        self._encoding = encoding

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        decoding = httpx2.Response(
            200, headers={"content-encoding": self._encoding}, stream=self._body
        )
        async with aclosing(decoding.aiter_bytes()) as pieces:
            async for piece in pieces:
                for at in range(0, len(piece), _PIECE_BYTES):
                    yield piece[at : at + _PIECE_BYTES]

    async def aclose(self) -> None:
        """Release the connection."""
        await self._body.aclose()


def _lines(text: bytes, start: int) -> int:
    return max(text.count(b"\n", start), text.count(b"\r", start))


@asynccontextmanager
async def _pieces(body: httpx2.AsyncByteStream) -> AsyncGenerator[AsyncIterator[bytes]]:
    source = aiter(body)
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
