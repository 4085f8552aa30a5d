"""Without a daemon to talk to, commands say in words what is wrong and what to do."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.cli.commands import Terminal, answering, write

ASKING = (
    ("send", "hello"),
    ("chat",),
    ("loops",),
    ("loops", "list", "--json"),
    ("loops", "show", "01jd"),
    ("loops", "watch"),
    ("loops", "cancel", "01jd"),
    ("files",),
    ("memory", "search", "tomatoes"),
    ("memory", "expand", "01jd3v6k2m9x4q8w:0.1"),
    ("memory", "stats"),
)


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[Terminal]:
    with socket.socket() as taken:  # by us, who do not listen: nobody else gets it meanwhile
        taken.bind(("127.0.0.1", 0))
        yield Terminal(tmp_path, taken.getsockname()[1])


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_every_command_says_that_the_daemon_is_not_running_and_how_to_start_it(
    nobody: Terminal, command: tuple[str, ...]
) -> None:
    result = nobody.run(*command)
    assert result.exit_code == 1
    assert "The daemon is not running" in result.stderr
    assert "rondo serve" in result.stderr
    assert result.stdout == ""


@pytest.mark.slow
def test_another_program_on_the_port_is_told_apart_from_the_daemon(tmp_path: Path) -> None:
    with answering(lambda request: write(request, "<h1>It works!</h1>")) as port:
        for command in ASKING:
            result = Terminal(tmp_path, port).run(*command)
            assert result.exit_code == 1
            assert "Another program" in result.stderr
            assert "RONDO_SERVER__PORT" in result.stderr


def test_what_does_not_speak_http_at_all_is_told_apart_too(tmp_path: Path) -> None:
    def babble(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"220 mail.example ESMTP\r\n\r\n")
        request.close_connection = True

    with answering(babble) as port:
        result = Terminal(tmp_path, port).run("loops")
    assert result.exit_code == 1
    assert "Another program" in result.stderr


def test_a_refused_token_names_the_file_and_the_setting(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("not-the-one\n")
    problem = json.dumps({"title": "Who is asking?", "detail": "", "advice": "", "status": 401})
    seen: list[str] = []

    def refuse(request: BaseHTTPRequestHandler) -> None:
        seen.append(f"{request.path} {request.headers['Authorization']}")
        write(request, problem, status=401, media_type="application/problem+json")

    with answering(refuse) as port:
        result = Terminal(tmp_path, port).run("send", "hello")
    assert result.exit_code == 1
    assert "does not accept the token" in result.stderr
    assert str(tmp_path / "token") in result.stderr
    assert "RONDO_DATA_DIR" in result.stderr
    assert "not-the-one" not in result.stderr
    assert seen == ["/v1/send Bearer not-the-one"]


@pytest.mark.slow
@pytest.mark.parametrize("content", ["hush hush", "hush\nhush", "hush\x07hush", "hushü"])
@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_a_file_that_holds_no_token_is_refused_and_never_shown(
    tmp_path: Path, command: tuple[str, ...], content: str
) -> None:
    (tmp_path / "token").write_text(content)
    with answering(
        lambda request: write(request, '{"ready": true}', media_type="application/json")
    ) as port:
        result = Terminal(tmp_path, port).run(*command)
    assert result.exit_code == 1
    assert f"the token file {tmp_path / 'token'} does not hold a token" in result.stderr
    assert "delete the file and start the daemon again" in result.stderr
    assert "hush" not in result.stderr.replace(str(tmp_path), "")


def test_a_daemon_that_is_still_starting_is_quoted(tmp_path: Path) -> None:
    problem = json.dumps(
        {
            "title": "The daemon is still starting",
            "detail": "its memory is being opened",
            "advice": "Try again in a moment.",
        }
    )
    with answering(
        lambda request: write(request, problem, status=503, media_type="application/problem+json")
    ) as port:
        result = Terminal(tmp_path, port).run("loops")
    assert result.exit_code == 1
    assert result.stderr == (
        "The daemon is still starting: its memory is being opened.\nTry again in a moment.\n"
    )


def test_wrong_usage_has_its_own_exit_code(nobody: Terminal) -> None:
    assert nobody.run("send").exit_code == 2
    assert nobody.run("nonsense").exit_code == 2
    assert nobody.run("loops", "answer", "01jd").exit_code == 2
    assert nobody.run("memory", "search", "x", "--since", "someday").exit_code == 2


def test_a_setting_that_makes_no_sense_is_named(nobody: Terminal) -> None:
    result = nobody.run("loops", RONDO_LLM__MAX_RETRIES="-1")
    assert result.exit_code == 1
    assert "llm.max_retries" in result.stderr
