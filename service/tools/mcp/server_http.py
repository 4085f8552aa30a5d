"""A tool server at an address, spoken to over streamable HTTP.

What the SDK leaves open is bounded here: how much one answer holds, and for how long it comes. The
SDK itself follows no redirect to another place.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

MESSAGE_BYTES = 16_000_000
"""The longest answer of a server, and the most that a stream of news from it may hold before it is
begun anew."""
CONNECT_SECONDS = 10.0
MOST_RESUMED = 20
"""How often in a minute the rest of an answer that broke off is asked for."""
END_SECONDS = 2.0
"""For telling a server that its session is over."""
_MARGIN_SECONDS = 5.0  # behind the time that a call may take, which ends most that is late
_RESUMED_WITHIN = 60.0
_MOST_REDIRECTS = 3
_REASONS = {
    401: "correct what it knows you by, in its headers",
    403: "what it knows you by is not enough for it",
    404: "correct its url",
    405: "correct its url",
    407: "the proxy wants to know who you are",
    429: "it is asked too often",
}


class HttpAnswers:
    """Looks at each answer of a server before it is read."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self._longest = timeout_seconds + _MARGIN_SECONDS
        self._resumed: deque[float] = deque(maxlen=MOST_RESUMED)
        self.refusal: str | None = None
        """What it answered last instead of doing what it was asked; None where it did it."""

    async def bound(self, response: httpx2.Response) -> None:
        """Note whether it is a refusal, and see to it that it ends.

        Raises:
            httpx2.DecodingError: it is compressed, which nobody asked for.
        """
        status = response.status_code
        phrase = f"{status} {response.reason_phrase}".strip()
        reason = f": {_REASONS[status]}" if status in _REASONS else ""
        self.refusal = f"It answers {phrase}{reason}." if status >= 400 else None
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # A little that unpacks to a lot would go past the bounds.
            raise httpx2.DecodingError("it sends compressed answers", request=response.request)
        is_news = (
            response.request.method == "GET"
            or response.request.headers.get("mcp-method") == "subscriptions/listen"
        )
        until = float("inf") if is_news else anyio.current_time() + self._longest
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, until)

    async def look(self, request: httpx2.Request) -> None:
        """Give the end of a session little time, as nobody waits for it; and do not ask for the
        rest of an answer again and again, as the SDK would for as long as a server breaks it off.

        Raises:
            httpx2.StreamError: it has broken off too often.
        """
        if request.method == "DELETE":
            request.extensions["timeout"] = httpx2.Timeout(END_SECONDS).as_dict()
        if "last-event-id" in request.headers:
            now = anyio.current_time()
            self._resumed.append(now)
            if len(self._resumed) == MOST_RESUMED and now - self._resumed[0] < _RESUMED_WITHIN:
                raise httpx2.StreamError("its answers break off too often")


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, until: float) -> None:
        self._stream = stream
        self._until = until

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MESSAGE_BYTES:
                raise httpx2.StreamError(f"the answer has more than {MESSAGE_BYTES:,} bytes")
            if anyio.current_time() > self._until:
                raise httpx2.StreamError("the answer does not come to an end")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextlib.asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], *, timeout_seconds: float
) -> AsyncGenerator[tuple[HttpAnswers, TransportStreams]]:
    """Exchange messages with a server at an address.

    Args:
        url: where it answers.
        headers: sent with each request.
        timeout_seconds: of one call.

    Raises:
        httpx2.HTTPError: it cannot be reached any more, also later.
    """
    answers = HttpAnswers(timeout_seconds=timeout_seconds)
    async with (
        httpx2.AsyncClient(
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=timeout_seconds + _MARGIN_SECONDS),
            max_redirects=_MOST_REDIRECTS,
            event_hooks={"request": [answers.look], "response": [answers.bound]},
        ) as client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MESSAGE_BYTES
        ) as streams,
    ):
        yield answers, streams
