"""Nobody slows the others: what takes too long, or is too large, is cut off, in words."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketStream

from service.server.http.connection_limits import Limits
from tests.support.server.http_daemon import House, head, running

pytestmark = pytest.mark.anyio

QUICK = Limits(head_seconds=0.5, body_seconds=0.5, linger_seconds=0.5, stall_seconds=0.5)


@asynccontextmanager
async def connected(house: House) -> AsyncIterator[SocketStream]:
    port = int(house.url.rsplit(":", 1)[1])
    async with await anyio.connect_tcp("127.0.0.1", port) as connection:
        yield connection


async def all_of(connection: SocketStream) -> bytes:
    """What comes until the daemon closes."""
    content = b""
    with anyio.fail_after(20):
        while True:
            try:
                content += await connection.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return content


def problem_in(answer: bytes, status: int) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    assert b"content-type: application/problem+json" in head.lower()
    assert b"connection: close" in head.lower()
    problem: dict[str, Any] = json.loads(body)
    assert problem["title"]
    assert problem["advice"]
    return problem


async def test_headers_without_end_are_refused_before_they_are_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as house, connected(house) as connection:
        sent = 0
        await connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for number in range(200):
                await connection.send(b"X-%d: %b\r\n" % (number, b"x" * 10_000))
                sent += 10_000
                await anyio.lowlevel.checkpoint()
        except (anyio.BrokenResourceError, OSError):
            pass
        answer = await all_of(connection)
    assert "headers" in problem_in(answer, 431)["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        [f"X-{number}: 1" for number in range(101)],
        ["X: " + "x" * 20_000],
        [f"X-{number}: " + "x" * 8_000 for number in range(5)],
        ["X" * 20_000 + ": x"],
    ],
    ids=["many", "long", "much", "a long name"],
)
async def test_headers_beyond_a_bound_are_refused_in_words(
    tmp_path: Path, lines: list[str]
) -> None:
    async with running(tmp_path) as house, connected(house) as connection:
        await connection.send(head(house, "/v1/run-loops", *lines, method="GET"))
        problem_in(await all_of(connection), 431)


async def test_an_address_without_end_and_a_header_without_end_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        for begin in (b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\n"):
            async with connected(house) as connection:
                await connection.send(begin + b"x" * 60_000)
                problem_in(await all_of(connection), 431)
        assert (await house.client.get("/healthz")).status_code == 200


async def test_trailers_and_chunk_extensions_without_end_are_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        for begin in (b"2\r\n{}\r\n0\r\nX: ", b"2;x="):
            async with connected(house) as connection:
                request = head(house, "/v1/send", "Transfer-Encoding: chunked")
                await connection.send(request + begin + b"x" * 60_000)
                answer = await all_of(connection)
                assert answer.startswith(b"HTTP/1.1 4"), answer[:200]
        assert (await house.client.get("/healthz")).status_code == 200


async def test_usual_headers_of_a_browser_are_taken_in_any_pieces(tmp_path: Path) -> None:
    cookies = [f"Cookie-{number}: {'c' * 500}" for number in range(30)]
    async with running(tmp_path) as house, connected(house) as connection:
        whole = head(house, "/v1/run-loops", *cookies, "Connection: close", method="GET")
        for start in range(0, len(whole), 777):
            await connection.send(whole[start : start + 777])
            await anyio.lowlevel.checkpoint()
        assert (await all_of(connection)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n"])
async def test_a_request_whose_headers_do_not_come_is_told_and_closed(
    tmp_path: Path, begin: bytes
) -> None:
    async with running(tmp_path, limits=QUICK) as house, connected(house) as connection:
        await connection.send(begin)
        assert "headers" in problem_in(await all_of(connection), 408)["detail"]


@pytest.mark.slow
async def test_headers_that_drip_are_cut_off_all_the_same(tmp_path: Path) -> None:
    async with running(tmp_path, limits=QUICK) as house, connected(house) as connection:
        await connection.send(b"GET / HTTP/1.1\r\nX: ")
        with anyio.fail_after(20):
            try:
                while True:
                    await connection.send(b"x")
                    await anyio.sleep(0.05)
            except (anyio.BrokenResourceError, OSError):
                pass


@pytest.mark.slow
async def test_a_body_that_does_not_come_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path, limits=QUICK) as house, connected(house) as connection:
        lines = ("Content-Type: application/json", "Content-Length: 1000")
        await connection.send(head(house, "/v1/send", *lines) + b'{"message": "half a mess')
        assert "body" in problem_in(await all_of(connection), 408)["detail"]
        assert (await house.client.get("/v1/run-loops")).json()["run_loops"] == []


@pytest.mark.slow
async def test_a_body_that_drips_after_it_was_refused_is_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path, limits=QUICK) as house, connected(house) as connection:
        await connection.send(b"POST /v1/send HTTP/1.1\r\nHost: localhost\r\n")
        await connection.send(b"Content-Length: 100000\r\n\r\n")
        with anyio.fail_after(20):
            assert (await connection.receive()).startswith(b"HTTP/1.1 401 ")
            try:
                while True:
                    await connection.send(b"x")
                    await anyio.sleep(0.05)
            except (anyio.BrokenResourceError, OSError):
                pass


@pytest.mark.slow
@pytest.mark.parametrize("closing", ["Connection: close", "X: keep-alive"])
async def test_a_client_that_sends_all_before_it_reads_sees_why_its_body_is_too_long(
    tmp_path: Path, closing: str
) -> None:
    def ask(port: int, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(request + b"x" * 20_000_000)
            return connection.recv(65_536)

    async with running(tmp_path, max_body_bytes=1000) as house:
        port = int(house.url.rsplit(":", 1)[1])
        for length in ("Content-Length: 20000000", "Transfer-Encoding: chunked"):
            request = head(house, "/v1/send", "Content-Type: application/json", closing, length)
            if "chunked" in length:
                request += b"1312d00\r\n"
            answer = await anyio.to_thread.run_sync(ask, port, request)
            assert answer.startswith(b"HTTP/1.1 413 "), (length, answer[:300])
            assert b"at most 1,000 bytes" in answer


@pytest.mark.slow
async def test_more_connections_than_there_is_room_for_take_the_place_of_silent_ones(
    tmp_path: Path,
) -> None:
    limits = Limits(connections=10, spare_connections=2)
    async with running(tmp_path, limits=limits) as house, anyio.create_task_group() as group:
        for _ in range(40):
            group.start_soon(_half, house)
        with anyio.fail_after(20):
            while len(house.server.server_state.connections) < 10:
                await anyio.sleep(0.01)
            for _ in range(5):
                async with connected(house) as connection:
                    await connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert (await connection.receive()).startswith(b"HTTP/1.1 200 ")
        assert len(house.server.server_state.connections) <= 11
        group.cancel_scope.cancel()


async def _half(house: House) -> None:
    async with connected(house) as connection:
        await connection.send(b"GET / HTTP/1.1\r\nX: ")
        await all_of(connection)


@pytest.mark.slow
async def test_when_all_are_at_work_one_more_is_refused_in_words_and_health_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits(connections=3, spare_connections=2)
    async with running(tmp_path, limits=limits) as house:
        streams = [await _stream(house) for _ in range(3)]
        async with connected(house) as connection:
            await connection.send(head(house, "/v1/run-loops", method="GET"))
            answer = await all_of(connection)
        assert "server.max_connections" in problem_in(answer, 503)["advice"]
        async with connected(house) as connection:
            await connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await connection.receive()).startswith(b"HTTP/1.1 200 ")
        for stream in streams:
            await stream.aclose()
        await house.until(listeners=0)
        assert (await house.client.get("/v1/run-loops")).status_code == 200
    assert caplog.text.count("server.max_connections") == 1


async def _stream(house: House) -> SocketStream:
    port = int(house.url.rsplit(":", 1)[1])
    connection = await anyio.connect_tcp("127.0.0.1", port)
    await connection.send(head(house, "/v1/events", method="GET"))
    assert (await connection.receive()).startswith(b"HTTP/1.1 200 ")
    return connection


async def test_requests_that_come_without_waiting_are_answered_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as house, connected(house) as connection:
        one = head(house, "/v1/run-loops/one", method="GET")
        two = head(house, "/healthz", "Connection: close", method="GET")
        await connection.send(one + two)
        answer = await all_of(connection)
        assert answer.index(b"HTTP/1.1 404 ") < answer.index(b"HTTP/1.1 200 ")


async def test_a_connection_that_is_used_again_does_not_wait_for_acknowledgements(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        await house.client.get("/healthz")
        [connection] = house.server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_request_for_another_protocol_is_answered_in_this_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as house, connected(house) as connection:
        lines = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        await connection.send(head(house, "/healthz", *lines, method="GET"))
        assert (await all_of(connection)).startswith(b"HTTP/1.1 200 ")
        async with connected(house) as other:
            await other.send(b"\x16\x03\x01\x02\x00\x01\x00 TLS says hello\r\n\r\n")
            problem_in(await all_of(other), 400)
    assert not caplog.records
