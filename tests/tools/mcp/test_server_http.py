"""A tool server at an address: its tools, its absence, and answers that are too much."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr, ValidationError

from service.config_sections import McpServerSettings
from service.storage.secret_store import SecretStore
from service.tools.mcp.server_connection import ServerConnection
from service.tools.registry import ToolRegistry
from tests.support.tools.connections import HttpClock, called, connected, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@asynccontextmanager
async def refused(settings: McpServerSettings, data_dir: Path) -> AsyncGenerator[ServerConnection]:
    """A connection that does not come about, once that is told."""
    registry = ToolRegistry()
    connection = ServerConnection("clock", settings, registry, data_dir, first_wait_seconds=0.05)
    async with anyio.create_task_group() as group:
        group.start_soon(connection.keep)
        await until(lambda: "asked again" in registry.unavailable["clock"])
        yield connection
        group.cancel_scope.cancel()


async def test_its_tools_are_called(server: HttpClock, tmp_path: Path) -> None:
    async with connected(server.at(), tmp_path) as connection:
        result = await called(connection, "now", city="里斯本")
        assert (result.content, result.is_error) == ("noon in 里斯本", False)


async def test_one_that_goes_is_told_and_found_again(server: HttpClock, tmp_path: Path) -> None:
    async with connected(server.at(), tmp_path) as connection:
        server.stop()
        result = await called(connection, "now", city="x")
        assert result.is_error
        assert "check before you call it again" in result.content
        await until(lambda: "cannot be reached" in connection.absence)
        assert connection.registry.withheld["clock__now"] == connection.absence
        server.start()
        await until(lambda: connection.client is not None)
        assert not (await called(connection, "now", city="x")).is_error


async def test_one_that_goes_without_being_called_is_noticed(
    server: HttpClock, tmp_path: Path
) -> None:
    async with connected(server.at(), tmp_path, check_seconds=0.05) as connection:
        server.stop()
        await until(lambda: connection.client is None)


async def test_what_keeps_it_away_is_warned_of_once(
    server: HttpClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Authorization": SecretStr("Bearer secret:nobody")}
    async with refused(server.at(headers=headers), tmp_path) as connection:
        await until(lambda: "in 0.4 seconds" in connection.absence)
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len([each for each in warned if "nobody" in each.getMessage()]) == 1


async def test_what_it_knows_us_by_is_a_kept_secret_or_a_variable(
    server: HttpClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SecretStore(tmp_path).set("clock", "kept-secret")
    (server.folder / "token").write_text("Bearer kept-secret")
    headers = {"Authorization": SecretStr("Bearer secret:clock")}
    async with connected(server.at(headers=headers), tmp_path):
        pass
    monkeypatch.setenv("CLOCK_TOKEN", "of-a-variable")
    (server.folder / "token").write_text("of-a-variable")
    headers = {"Authorization": SecretStr("env:CLOCK_TOKEN")}
    async with connected(server.at(headers=headers), tmp_path):
        pass


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("Bearer wrong-secret", "It answers 401 Unauthorized: correct what it knows you by"),
        ("Bearer secret:other", "Keep it: rondo tools secret set other"),
        ("env:NO_SUCH_VARIABLE", "The variable NO_SUCH_VARIABLE is not set"),
    ],
)
async def test_a_wrong_or_a_missing_token_is_told_without_it(
    server: HttpClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    written: str,
    words: str,
) -> None:
    (server.folder / "token").write_text("Bearer right")
    settings = server.at(headers={"Authorization": SecretStr(written)})
    with caplog.at_level("DEBUG"):
        async with refused(settings, tmp_path) as connection:
            assert words in connection.registry.unavailable["clock"]
    assert "wrong-secret" not in caplog.text


async def test_a_token_that_no_longer_counts_is_told_to_the_model(
    server: HttpClock, tmp_path: Path
) -> None:
    async with connected(server.at(), tmp_path) as connection:
        (server.folder / "token").write_text("Bearer right")
        assert "401 Unauthorized" in (await called(connection, "now", city="x")).content
        await until(lambda: connection.client is None)


async def test_it_cannot_send_the_daemon_elsewhere(server: HttpClock, tmp_path: Path) -> None:
    headers = {"Authorization": SecretStr("Bearer very-secret")}
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        (server.folder / "elsewhere").write_text(f"http://127.0.0.1:{other.getsockname()[1]}/mcp")
        async with refused(server.at(headers=headers), tmp_path) as connection:
            assert "not followed" in connection.registry.unavailable["clock"]
        with pytest.raises(BlockingIOError):  # nobody has come there
            other.accept()
        (server.folder / "elsewhere").unlink()
    async with connected(server.at("/short"), tmp_path) as connection:
        assert not (await called(connection, "now", city="x")).is_error, "within it, it may"


async def test_answers_without_end_and_without_measure_are_given_up(
    server: HttpClock, tmp_path: Path
) -> None:
    async with connected(server.at(timeout_seconds=1), tmp_path) as connection:
        for name in ("endless", "huge", "doze"):
            result = await called(connection, name)
            assert result.is_error, name
            assert "check before you call it again" in result.content, name
        assert not (await called(connection, "now", city="x")).is_error, "others go on"


async def test_answers_that_break_off_again_and_again_are_given_up(
    server: HttpClock, tmp_path: Path
) -> None:
    async with connected(server.at("/breaking"), tmp_path) as connection:
        result = await called(connection, "now")
        assert "reconnection attempts were exhausted" in result.content
        assert len((server.folder / "resumed").read_text().split()) < 20


async def test_why_an_answer_is_too_much_is_told(server: HttpClock, tmp_path: Path) -> None:
    async with connected(server.at(), tmp_path) as connection:
        assert "than 16,000,000 bytes" in (await called(connection, "huge")).content


async def test_nothing_of_a_trace_or_its_baggage_is_sent(server: HttpClock, tmp_path: Path) -> None:
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    trace.set_tracer_provider(provider)  # as a program does that Rondo is part of
    async with connected(server.at(), tmp_path) as connection:
        with provider.get_tracer("program").start_as_current_span("theirs"):
            attached = attach(set_baggage("who", "me"))
            seen = await called(connection, "seen")
            detach(attached)
    assert "traceparent" not in seen.content
    assert "baggage" not in seen.content
    assert [each.name for each in exported.get_finished_spans()] == ["theirs"]


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async def say_nothing(stream: anyio.abc.SocketStream) -> None:
        await anyio.sleep_forever()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, say_nothing)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        settings = McpServerSettings(url=f"http://127.0.0.1:{port}/mcp", start_seconds=0.2)
        async with refused(settings, tmp_path) as connection:
            assert "was not ready within 0.2" in connection.registry.unavailable["clock"]
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"command": "x", "url": "https://example.org"},
        {"url": "ftp://example.org"},
        {"url": "https://me:secret@example.org/mcp"},
        {"url": "https://example.org/mcp?v=1&apiKey=secret"},
        {"url": "https://example.org", "args": ["x"]},
        {"command": "x", "headers": {"a": "b"}},
    ],
)
async def test_a_server_is_a_program_or_an_address(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        McpServerSettings.model_validate(settings)
