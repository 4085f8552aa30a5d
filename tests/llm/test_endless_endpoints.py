"""Whatever an endpoint sends comes to an end: a line, an event, an answer, an error, a call.

What was taken is counted where it was sent: the endpoints stop counting when nobody takes any more.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest

from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import (
    LLMError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
)
from service.llm.remote.bounded_body import (
    MOST_EVENT_BYTES,
    MOST_EVENT_LINES,
    MOST_WHOLE_BODY_BYTES,
)
from service.llm.remote.endpoints import MOST_ANSWER_BYTES
from tests.support.llm import anthropic_endpoint as anthropic_support
from tests.support.llm import openai_client as openai_support
from tests.support.llm.anthropic_endpoint import answer, stream_of, without_abilities
from tests.support.llm.endpoint import Call, Handler, chunk, endpoint

pytestmark = pytest.mark.anyio

MIB = 2**20
ON_THE_WAY = 24 * MIB
"""What the buffers of both sockets hold at most: it was sent, and nobody has looked at it."""

Failing = Callable[..., Awaitable[LLMError]]
KINDS = pytest.mark.parametrize(
    "failing",
    [openai_support.failure, anthropic_support.failure],
    ids=["OpenAI's kind", "Anthropic's kind"],
)


@dataclass
class Pouring:
    """An endpoint that sends the same piece again and again until nobody takes it."""

    piece: bytes
    first: bytes = b""
    status: str = "200 OK"
    headers: str = ""
    seconds: float = 0
    """Between two pieces."""
    sent: list[int] = field(default_factory=list)

    async def __call__(self, call: Call) -> None:
        self.sent.append(0)
        head = f"HTTP/1.1 {self.status}\r\nContent-Type: text/event-stream\r\n{self.headers}\r\n"
        await call.send(head.encode() + self.first)
        while not call.gone.is_set():
            await call.send(self.piece)
            self.sent[-1] += len(self.piece)
            await anyio.sleep(self.seconds)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize(
    ("first", "piece", "bound"),
    [
        (b"data: ", b"x" * MIB, f"{MOST_EVENT_BYTES:,} bytes"),
        (b"", b"data: " + b"x" * 100_000 + b"\n", f"{MOST_EVENT_BYTES:,} bytes"),
        (b"", b"data: x\n" * 100_000, f"{MOST_EVENT_LINES:,} lines"),
        (b"", b"data: x\r\n" * 100_000, f"{MOST_EVENT_LINES:,} lines"),
        (b"", b": still here\n" * 100_000, f"{MOST_EVENT_LINES:,} lines"),
    ],
    ids=["a line", "long lines", "short lines", "lines with CRLF", "comments without an end"],
)
async def test_an_endless_line_or_event_is_broken_off(
    failing: Failing, first: bytes, piece: bytes, bound: str
) -> None:
    pouring = Pouring(piece, first=first)
    error = await failing(pouring)
    assert isinstance(error, LLMStreamError)
    assert not error.retryable
    assert bound in error.detail
    assert "RONDO_LLM__BASE_URL" in error.advice
    assert pouring.sent[-1] < MOST_EVENT_BYTES + ON_THE_WAY


@pytest.mark.slow
@KINDS
async def test_an_answer_whose_chunks_never_end_is_broken_off(
    failing: Failing,
) -> None:
    comment = Pouring((b": " + b"x" * 1000 + b"\n\n") * 100)
    error = await failing(comment, most_answer_bytes=16 * MIB)
    assert isinstance(error, LLMStreamError)
    assert not error.retryable
    assert f"{16 * MIB:,} bytes" in error.detail
    assert comment.sent[-1] < 16 * MIB + ON_THE_WAY


def test_the_longest_answers_of_today_are_far_from_the_bound() -> None:
    assert MOST_ANSWER_BYTES >= 128_000 * 2_000


@pytest.mark.slow
@KINDS
async def test_comments_are_no_progress(failing: Failing) -> None:
    heartbeat = Pouring(b": keep-alive\n\n", seconds=0.02)
    error = await failing(heartbeat, timeout_seconds=0.5)
    assert isinstance(error, LLMTimeoutError)
    assert error.retryable
    assert "signs of life for 0.5 s" in error.detail
    assert "RONDO_LLM__TIMEOUT_SECONDS" in error.advice


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "event"),
    [
        (openai_support.failure, b'data: {"choices": []}\n\n'),
        (anthropic_support.failure, b'event: ping\ndata: {"type": "ping"}\n\n'),
    ],
    ids=["OpenAI's kind", "Anthropic's kind"],
)
async def test_a_model_may_think_behind_pings_as_long_as_a_call_may_take(
    failing: Failing, event: bytes
) -> None:
    pings = Pouring(event, seconds=0.1)
    error = await failing(pings, timeout_seconds=0.6, max_call_seconds=1.8)
    assert isinstance(error, LLMTimeoutError)
    assert not error.retryable
    assert "after 1.8 s" in error.detail
    assert "RONDO_LLM__MAX_CALL_SECONDS" in error.advice


@pytest.mark.slow
@KINDS
async def test_headers_that_drip_end_with_the_call(failing: Failing) -> None:
    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not call.gone.is_set():
            await call.send(b"x")
            await anyio.sleep(0.02)

    error = await failing(handler, timeout_seconds=0.5, max_call_seconds=1)
    assert isinstance(error, LLMTimeoutError)
    assert "after 1 s" in error.detail


@pytest.mark.slow
@KINDS
async def test_the_words_of_an_error_are_read_as_far_as_they_help(failing: Failing) -> None:
    web = Pouring(b"so sorry " * 10_000, status="500 Internal Server Error")
    error = await failing(web)
    assert isinstance(error, LLMStatusError)
    assert error.status == 500
    assert "so sorry" in error.detail
    assert len(error.detail) < 1000
    assert web.sent[-1] < MOST_WHOLE_BODY_BYTES + ON_THE_WAY


@pytest.mark.slow
@KINDS
async def test_an_error_that_drips_is_told_without_its_end(failing: Failing) -> None:
    drip = Pouring(b"so sorry ", status="503 Service Unavailable", seconds=0.05)
    error = await failing(drip, timeout_seconds=0.5)
    assert isinstance(error, LLMStatusError)
    assert error.status == 503
    assert "so sorry" in error.detail


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Half a gigabyte in some thousand bytes."""
    return gzip.compress(gzip.compress(bytes(512 * MIB), 9), 9)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("status", ["200 OK", "500 Internal Server Error"])
async def test_what_a_small_body_blows_up_to_is_counted(
    failing: Failing, status: str, bomb: bytes
) -> None:
    assert len(bomb) < 10_000
    asked: list[str] = []

    async def handler(call: Call) -> None:
        asked.append(call.headers["accept-encoding"])
        length = f"Content-Length: {len(bomb)}\r\nContent-Encoding: gzip, gzip"
        await call.send(f"HTTP/1.1 {status}\r\n{length}\r\n\r\n".encode() + bomb)

    error = await failing(handler)
    if status == "200 OK":
        assert isinstance(error, LLMStreamError)
        assert f"{MOST_EVENT_BYTES:,} bytes" in error.detail
    else:
        assert isinstance(error, LLMStatusError)
        assert len(error.detail) < 1000
    assert asked == ["identity"]


async def test_a_compressed_answer_is_read_all_the_same() -> None:
    events = [chunk({"content": "Hel"}), chunk({"content": "lo"}, "stop")]
    stream = gzip.compress(b"".join(b"data: %s\n\n" % _json(event) for event in events))

    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
        for at in range(0, len(stream), 7):
            await call.send(stream[at : at + 7])
            await anyio.lowlevel.checkpoint()

    async with endpoint(handler) as served:
        parts = await openai_support.collect(openai_support.client(served.base_url))
    assert [part.text for part in parts if isinstance(part, TextDelta)] == ["Hel", "lo"]


@pytest.mark.slow
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
async def test_comments_between_events_do_not_end_an_answer_however_it_is_cut(
    line_end: bytes,
) -> None:
    piece = line_end.join([b": hm", b"data: " + _json(chunk({"content": "x"})), b"", b""])
    stream = piece * 50 + b"data: " + _json(chunk(finish="stop")) + line_end * 2

    async def handler(call: Call) -> None:
        await call.begin()
        for at in range(0, len(stream), 3):
            await call.send(stream[at : at + 3])
            await anyio.sleep(0.001)

    async with endpoint(handler) as served:
        llm = openai_support.client(served.base_url, timeout_seconds=5)
        parts = await openai_support.collect(llm)
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == "x" * 50


@pytest.mark.slow
async def test_the_time_that_the_reader_takes_is_no_silence() -> None:
    async def handler(call: Call) -> None:
        await call.begin()
        for event in (chunk({"content": "a"}), chunk({"content": "b"}), chunk(finish="stop")):
            await call.event(event)

    async with endpoint(handler) as served:
        llm = openai_support.client(served.base_url, timeout_seconds=0.5)
        words = ""
        async for part in llm.stream(openai_support.HELLO):
            await anyio.sleep(0.8)
            words += part.text if isinstance(part, TextDelta) else ""
        await llm.aclose()
    assert words == "ab"


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_an_answer_is_whole_once_it_said_so_whatever_follows(vendor: str) -> None:
    events = answer("Hello")[:-1]  # without `message_stop`, after which nothing is read
    said = {
        "openai": b"data: " + _json(chunk({"content": "Hello"}, "stop")) + b"\n\n",
        "anthropic": stream_of(events).encode(),
    }
    pouring = Pouring(b"x" * MIB, first=said[vendor] + b"data: ")
    handler: Handler = without_abilities(pouring)
    support = openai_support if vendor == "openai" else anthropic_support
    async with endpoint(handler) as served:
        parts = await support.collect(support.client(served.base_url))
    assert TextDelta("Hello") in parts
    assert pouring.sent[-1] < MOST_EVENT_BYTES + ON_THE_WAY


async def test_the_look_at_what_a_model_takes_is_bounded_too() -> None:
    endless = Pouring(b" " * MIB)
    events = stream_of(answer("Hello")).encode()

    async def handler(call: Call) -> None:
        if call.path.startswith("/v1/models/"):
            await endless(call)
        else:
            await call.begin()
            await call.send(events)

    async with endpoint(handler) as served:
        parts = await anthropic_support.collect(anthropic_support.client(served.base_url))
    assert TextDelta("Hello") in parts
    assert endless.sent[-1] < MOST_WHOLE_BODY_BYTES + ON_THE_WAY


def _json(event: object) -> bytes:
    return json.dumps(event).encode()
