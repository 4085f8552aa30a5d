"""Terminals and pipes that are not as one would wish: no UTF-8, a full disk, a reader that left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType

import pytest

from service.wire.daemon_bodies import EffectiveSettings, Readiness, ReadyPart
from tests.support.cli.commands import Terminal, answering, write
from tests.support.cli.wire_events import ACCEPTED, IDLE, LANDED, ROUTED, frame, said, seen

ANSWER = "你好 😀"
NOT_UTF_8 = "bad \udcff"  # as Python gives an argument with the byte 0xff

pytestmark = pytest.mark.slow


def run(
    folder: Path,
    *arguments: str,
    stdout: int | None = None,
    stdin: bytes = b"",
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[bytes]:
    """A command as a process of its own, on a daemon that always answers the same."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        whole = seen(7, "message.completed", message=said(ANSWER))
        stream = "".join(frame(item) for item in (ACCEPTED, ROUTED, LANDED, whole, IDLE))
        if request.path.startswith("/readyz"):
            part = ReadyPart(ready=True, detail="")
            ready = Readiness(ready=True, agent=part, llm=part, memory=part)
            write(request, ready.model_dump_json(), media_type="application/json")
        elif request.path.startswith("/v1/settings"):
            settings = EffectiveSettings(model="small", models={}, disclaimer="", settings={})
            write(request, settings.model_dump_json(), media_type="application/json")
        elif request.path.startswith("/v1/send"):
            write(request, stream, media_type="text/event-stream")
        else:
            empty = '{"run_loops": [], "next_before": null}'
            write(request, empty, media_type="application/json")

    with answering(answer) as port:
        return subprocess.run(
            [sys.executable, "-m", "service.cli", *arguments],
            input=stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            env={
                **os.environ,
                "RONDO_DATA_DIR": str(folder),
                "RONDO_SERVER__PORT": str(port),
                "RONDO_CONFIG": "",
                "PYTHONUTF8": "1",
                **variables,
            },
        )


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("variables", [ASCII, {"PYTHONIOENCODING": "ascii"}])
def test_what_a_terminal_cannot_show_is_escaped_and_no_error(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    done = run(tmp_path, "send", "你好", variables=variables)
    assert done.returncode == 0
    assert done.stdout == b"\\u4f60\\u597d \\U0001f600\n"
    assert b"Traceback" not in done.stderr


def test_json_stays_json_where_the_encoding_lacks_its_words(tmp_path: Path) -> None:
    done = run(tmp_path, "send", "--json", "你好", variables={"PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)["response"] == ANSWER


@pytest.mark.parametrize("command", [("send", "hi"), ("loops", "list", "--json"), ("config",)])
def test_a_full_disk_is_told_in_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = run(tmp_path, *command, stdout=full)
    finally:
        os.close(full)
    assert done.returncode == 1
    *_, last = done.stderr.decode().splitlines()
    assert last == "The output cannot be written: No space left on device."
    assert b"Traceback" not in done.stderr
    assert b"ignored" not in done.stderr


def test_a_reader_that_left_is_no_news(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(tmp_path, "config", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("command", [("send",), ("memory", "search"), ("send", "--loop")])
@pytest.mark.parametrize("variables", [{}, ASCII])
def test_an_argument_that_is_not_utf_8_is_wrong_usage(
    tmp_path: Path, command: tuple[str, ...], variables: dict[str, str]
) -> None:
    done = run(tmp_path, *command, NOT_UTF_8, variables=variables)
    assert done.returncode == 2
    assert b"This text is not UTF-8" in done.stderr


def test_a_line_that_is_not_utf_8_is_refused_and_the_chat_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, "chat", stdin=b"bad \xff\nhello\n/quit\n")
    assert done.returncode == 0
    assert b"This text is not UTF-8" in done.stderr
    assert done.stdout.decode() == f"{ANSWER}\n"


def test_standard_input_that_is_not_utf_8_is_wrong_usage(tmp_path: Path) -> None:
    result = Terminal(tmp_path, 1).run("send", "-", stdin=b"bad \xff")
    assert result.exit_code == 2
    assert "This text is not UTF-8" in result.stderr
