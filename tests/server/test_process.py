"""The daemon as a real process: it starts, answers, stops in order, and fails in words."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.support.daemon import serving, started

pytestmark = pytest.mark.slow

SCRIPT = """
== when slow
pause: 600
text: At last.
== default
text: You said: {message}
"""


def test_a_daemon_starts_answers_and_stops_in_order_with_a_stream_open(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    with serving(folder, script=SCRIPT) as daemon, daemon.client(folder) as client:
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.post("/v1/send", json={"message": "Hello"}).json()["response"] == (
            "You said: Hello"
        )
        with client.stream("GET", "/v1/events") as events:
            daemon.process.send_signal(signal.SIGTERM)
            assert events.read() == b""
        assert daemon.process.wait(timeout=30) == 0
        said, complaints = daemon.rest()
        token = (folder / "token").read_text().strip()
        assert said.count(token) == 1
        assert "Traceback" not in complaints
        assert token not in complaints
    with serving(folder, script=SCRIPT) as daemon, daemon.client(folder) as client:
        loops = client.get("/v1/run-loops").json()["run_loops"]
        assert [loop["goal"] for loop in loops] == ["Hello"]
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(timeout=30) == 0
        assert token not in daemon.rest()[0]


def test_what_was_acknowledged_survives_the_daemon_being_killed(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    with serving(folder, script=SCRIPT) as daemon, daemon.client(folder) as client:
        body = {"message": "something slow"}
        headers = {"Accept": "text/event-stream"}
        with client.stream("POST", "/v1/send", json=body, headers=headers) as response:
            assert next(response.iter_lines()) == "event: message.accepted"
            daemon.process.kill()
    with (
        serving(folder, script=SCRIPT) as daemon,
        daemon.client(folder) as client,
        client.stream("GET", "/v1/events?after=0") as response,
    ):
        assert any("something slow" in line for line in response.iter_lines())


def test_two_clients_on_one_chroma_folder_the_second_daemon_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    with serving(folder, script=SCRIPT), started(folder, script=SCRIPT) as second:
        _, complaints = second.communicate(timeout=60)
        assert second.returncode == 1
        assert "in use" in complaints
        assert "Traceback" not in complaints


def test_a_port_that_is_in_use_is_told_in_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path / "home", port=port) as process:
            _, complaints = process.communicate(timeout=60)
            assert process.returncode == 1
            assert f"port {port}" in complaints
            assert "Traceback" not in complaints
