"""The client of the daemon: broken connections are made good without gap or repeat."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from service.cli.daemon.daemon_client import Broken, Daemon
from service.cli.daemon.daemon_errors import ConnectionLostError
from service.cli.daemon.daemon_requests import base_url
from service.config import ServerSettings, Settings
from tests.support.cli.commands import Terminal, answering, write
from tests.support.cli.wire_events import ACCEPTED, IDLE, ROUTED, frame, said, seen

DELTA = seen(None, "message.delta", text="Hel")
WHOLE = seen(7, "message.completed", message=said("Hello"))
END = seen(12, "run_loop.completed")


@contextmanager
def daemon_that_says(folder: Path, *streams: str) -> Iterator[tuple[Daemon, list[dict[str, str]]]]:
    """A daemon that answers with these streams, one a request; and the headers it was sent."""
    asked: list[dict[str, str]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append({name.lower(): value for name, value in request.headers.items()})
        write(request, streams[len(asked) - 1], media_type="text/event-stream")

    with answering(answer) as port:
        settings = Settings(data_dir=folder, server=ServerSettings(port=port))
        with Daemon(settings) as daemon:
            yield daemon, asked


def ignore(error: Broken, breaks: int) -> None:
    """Try again at once."""


def test_a_message_is_sent_again_with_the_same_key_and_no_event_comes_twice(
    tmp_path: Path,
) -> None:
    cut = frame(ACCEPTED) + frame(ROUTED) + frame(DELTA)
    again = "".join(frame(item) for item in (ACCEPTED, ROUTED, WHOLE, IDLE))
    with daemon_that_says(tmp_path, cut, again) as (daemon, asked):
        items = list(daemon.send("hi", on_break=ignore))
    assert items == [ACCEPTED, ROUTED, DELTA, WHOLE, IDLE]
    keys = {headers["idempotency-key"] for headers in asked}
    assert len(asked) == 2
    assert len(keys) == 1


def test_a_message_that_was_not_accepted_is_not_sent_again(tmp_path: Path) -> None:
    with (
        daemon_that_says(tmp_path, "") as (daemon, asked),
        pytest.raises(ConnectionLostError),
    ):
        list(daemon.send("hi", on_break=ignore))
    assert len(asked) == 1


def test_nothing_is_read_after_a_loop_has_come_to_rest(tmp_path: Path) -> None:
    stream = frame(ACCEPTED) + frame(IDLE) + frame(END)
    with daemon_that_says(tmp_path, stream) as (daemon, _):
        assert list(daemon.send("hi")) == [ACCEPTED, IDLE]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_do_not_depend_on_how_the_bytes_are_cut(tmp_path: Path, end: str) -> None:
    delta = seen(None, "message.delta", text="番茄 \u2028 😀")
    data = json.dumps(delta.wire, ensure_ascii=False)
    stream = ": heartbeat\n\nretry: 10\n\nid: 4\n\n" + frame(ACCEPTED)
    stream += f"event:message.delta\nfoo: bar\ndata:{data}\n\n" + frame(IDLE)

    def answer(request: BaseHTTPRequestHandler) -> None:
        write(request, "", media_type="text/event-stream")
        for byte in stream.replace("\n", end).encode():
            request.wfile.write(bytes([byte]))

    with answering(answer) as port:
        settings = Settings(data_dir=tmp_path, server=ServerSettings(port=port))
        with Daemon(settings) as daemon:
            assert list(daemon.send("hi")) == [ACCEPTED, delta, IDLE]


def test_an_event_of_any_length_is_read(tmp_path: Path) -> None:
    long = seen(7, "message.completed", message=said("x" * 3_000_000))
    with daemon_that_says(tmp_path, frame(ACCEPTED) + frame(long) + frame(IDLE)) as (daemon, _):
        assert list(daemon.send("hi")) == [ACCEPTED, long, IDLE]


def test_watching_is_resumed_behind_the_last_event(tmp_path: Path) -> None:
    cut = frame(ROUTED) + frame(DELTA) + "data: {"
    with daemon_that_says(tmp_path, cut, frame(END)) as (daemon, asked):
        items = list(daemon.events("01jd3v6k2m9x4q8w", on_break=ignore))
    assert items == [ROUTED, DELTA, END]
    assert [headers.get("last-event-id") for headers in asked] == [None, "3"]


def test_breaks_in_a_row_are_counted_from_the_last_connection_that_stood(tmp_path: Path) -> None:
    counted: list[int] = []
    with daemon_that_says(tmp_path, frame(ROUTED), "", frame(END)) as (daemon, _):
        list(daemon.events("x", on_break=lambda _, breaks: counted.append(breaks)))
    assert counted == [1, 1]


def test_an_event_of_a_newer_daemon_is_passed_on_unread(tmp_path: Path) -> None:
    new = frame(ROUTED).replace("route.decided", "route.doubted")
    with daemon_that_says(tmp_path, new + frame(END)) as (daemon, _):
        first, _ = daemon.events("x")
    assert first.type == "route.doubted"
    assert first.body is None


def test_a_token_that_was_made_only_just_now_is_used(tmp_path: Path) -> None:
    """A daemon that starts for the first time listens a moment before its token is there."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        (tmp_path / "token").write_text("fresh\n")
        authorized = request.headers["Authorization"] == "Bearer fresh"
        status = 200 if authorized else 401
        write(request, "{}", status=status, media_type="application/problem+json")

    with answering(answer) as port:
        settings = Settings(data_dir=tmp_path, server=ServerSettings(port=port))
        with Daemon(settings) as daemon:
            assert daemon.get("/v1/run-loops") == {}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8765"),
        ("0.0.0.0", "http://127.0.0.1:8765"),
        ("::", "http://[::1]:8765"),
        ("::1", "http://[::1]:8765"),
    ],
)
def test_a_daemon_that_listens_everywhere_is_reached_on_this_machine(host: str, url: str) -> None:
    assert base_url(Settings(server=ServerSettings(host=host))) == url


@pytest.mark.slow
@pytest.mark.parametrize("takes_long", [True, False])
def test_long_work_of_the_daemon_is_waited_for_beyond_the_usual_silence(
    tmp_path: Path, takes_long: bool
) -> None:
    given_up = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        given_up.wait(0.6 if takes_long else 30)
        write(request, '{"done": true}', media_type="application/json")

    with (
        answering(answer) as port,
        Daemon(
            Settings(data_dir=tmp_path, server=ServerSettings(port=port)), silence_seconds=0.2
        ) as daemon,
    ):
        if takes_long:
            assert daemon.post("/v1/x", takes_long=True) == {"done": True}
        else:
            with pytest.raises(ConnectionLostError):
                daemon.post("/v1/x")
        given_up.set()


def test_an_answer_of_another_version_is_told_as_that(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        write(request, '{"run_loops": 3}', media_type="application/json")

    with answering(answer) as port:
        result = Terminal(tmp_path, port).run("memory", "stats")
    assert result.exit_code == 1
    assert "no Stats as version" in result.stderr
    assert "another version" in result.stderr
