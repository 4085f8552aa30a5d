"""`rondo memory export` and `import`, against a daemon that is a process of its own."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from service.cli.daemon.daemon_process import DaemonProcess
from tests.support.cli.commands import Terminal, answering
from tests.support.cli.scripted_daemon import daemon_with, terminal_of
from tests.support.daemon import environment
from tests.support.memory.archives import CHATGPT, CLAUDE, chatgpt, written
from tests.support.memory.exchanging import lines, loop, turn


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A daemon of these tests alone."""
    with daemon_with(tmp_path_factory.mktemp("exchange"), "== default\ntext: Yes.") as running:
        yield running


@pytest.fixture
def shell(own: DaemonProcess) -> Terminal:
    return terminal_of(own)


def saved(folder: Path, *objects: Any) -> str:
    path = folder / "loops.jsonl"
    path.write_bytes(lines(*objects))
    return str(path)


def outcome(shell: Terminal, *arguments: str, **more: Any) -> dict[str, Any]:
    result = shell.run("memory", "import", "--json", *arguments, **more)
    assert result.exception is None or result.exit_code == 1, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.mark.slow
def test_a_file_goes_in_and_comes_out_as_it_was(shell: Terminal, tmp_path: Path) -> None:
    file = saved(tmp_path, loop("whole", turn("Hello? 你好 🌍", "Hi.")))
    result = shell.run("memory", "import", file)
    assert result.exit_code == 0, result.output
    assert "1 run loop imported, 0 extended, 0 unchanged" in result.stdout
    out = tmp_path / "out.jsonl"
    result = shell.run("memory", "export", "-o", str(out), "--loop", "whole")
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["iterations"][0]["user_message"] == "Hello? 你好 🌍"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "1 run loop written" in result.stderr
    piped = shell.run("memory", "export", "--loop", "whole")
    assert piped.stdout_bytes == out.read_bytes()
    assert outcome(shell, str(out))["unchanged"] == 1


@pytest.mark.slow
def test_an_import_can_come_from_the_standard_input(shell: Terminal) -> None:
    report = outcome(shell, "-", stdin=lines(loop("piped", turn("From a pipe"))))
    assert (report["format"], report["imported"]) == ("rondo", 1)


def test_bad_lines_are_shown_with_their_numbers(shell: Terminal, tmp_path: Path) -> None:
    file = saved(tmp_path, loop("fine one"), "not json", loop("fine two"), {"id": "x"})
    result = shell.run("memory", "import", file)
    assert result.exit_code == 1
    assert "2 run loops imported" in result.stdout
    assert "line 2: it is not JSON" in result.stderr
    assert "line 4: goal: Field required" in result.stderr
    assert [each["line"] for each in outcome(shell, file)["failed"]] == [2, 4]


def test_a_dry_run_says_what_would_happen(shell: Terminal, tmp_path: Path) -> None:
    file = saved(tmp_path, loop("never", turn("No")))
    result = shell.run("memory", "import", "--dry-run", file)
    assert "1 run loop would be imported" in result.stdout
    assert shell.run("memory", "export", "--loop", "never").exit_code == 1


@pytest.mark.parametrize(("file", "name"), [(CHATGPT, "chatgpt"), (CLAUDE, "claude")])
def test_archives_of_others_go_in_and_their_words_are_found(
    shell: Terminal, file: Path, name: str
) -> None:
    report = outcome(shell, str(file))
    assert report["format"] == name
    assert report["failures"] == len(report["failed"]) == 1
    assert report["failed"][0]["title"] in ("Half a conversation", "Torn")
    assert report["empty"] == 1
    assert report["imported"] >= 3
    again = outcome(shell, str(file), "--format", name)
    assert (again["imported"], again["unchanged"]) == (0, report["imported"])
    words = {"chatgpt": "tomatoes balcony", "claude": "night train Vienna"}[name]
    hits = json.loads(shell.run("memory", "search", words, "--json").stdout)["hits"]
    assert hits[0]["anchor"]["run_loop_id"].startswith(name)


def test_a_newer_archive_brings_in_what_is_new_alone(shell: Terminal, tmp_path: Path) -> None:
    first = [("q1", None, "user", "Newer: one?"), ("a1", "q1", "assistant", "Uno.")]
    talk = chatgpt(*first, conversation_id="newer")
    assert outcome(shell, str(written(tmp_path, talk)))["imported"] == 1
    grown = chatgpt(*first, ("q2", "a1", "user", "Two?"), conversation_id="newer", title="Renamed")
    other = chatgpt(("z1", None, "user", "Another talk"), conversation_id="other")
    report = outcome(shell, str(written(tmp_path, grown, other)))
    assert (report["imported"], report["extended"], report["unchanged"]) == (1, 1, 0)


def test_a_conflict_in_an_archive_is_told_by_the_conversation(
    shell: Terminal, tmp_path: Path
) -> None:
    talk = chatgpt(("q1", None, "user", "Said"), conversation_id="clash")
    outcome(shell, str(written(tmp_path, talk)))
    other = chatgpt(("q1", None, "user", "Something else"), conversation_id="clash")
    empty = chatgpt(("q1", None, "user", ""), conversation_id="empty")
    report = outcome(shell, str(written(tmp_path, empty, other)))
    assert [each["conversation"] for each in report["failed"]] == [2]


def test_the_zip_as_it_was_downloaded_goes_in(shell: Terminal, tmp_path: Path) -> None:
    archive = tmp_path / "data-2026.zip"
    talk = chatgpt(("q1", None, "user", "Out of a zip"), conversation_id="zipped")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("conversations.json", json.dumps([talk]))
    assert outcome(shell, str(archive))["imported"] == 1


def test_what_cannot_be_imported_is_told_in_words(shell: Terminal, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1, 2]")
    for name, words in (("missing", "No such file"), ("list.json", "--format")):
        result = shell.run("memory", "import", str(tmp_path / name))
        assert result.exit_code == 1
        assert words in result.stderr


def test_without_a_daemon_both_say_so(tmp_path: Path) -> None:
    alone = Terminal(tmp_path, 1)
    for command in (["import", saved(tmp_path, loop("a"))], ["export", "-o", str(tmp_path / "o")]):
        result = alone.run("memory", *command)
        assert result.exit_code == 1
        assert "The daemon is not running" in result.stderr
    assert not (tmp_path / "o").exists()


def test_an_export_that_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    def torn(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "application/x-ndjson")
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(lines(loop("a")))
        request.close_connection = True

    out = tmp_path / "out.jsonl"
    out.write_text("the last one")
    with answering(torn) as port:
        result = Terminal(tmp_path, port).run("memory", "export", "-o", str(out))
    assert result.exit_code == 1
    assert "broke" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert out.read_text() == "the last one"


@pytest.mark.slow
def test_an_export_to_a_place_that_cannot_be_written_says_so(
    shell: Terminal, tmp_path: Path
) -> None:
    for place in (tmp_path, tmp_path / "no" / "such" / "folder"):
        result = shell.run("memory", "export", "-o", str(place))
        assert result.exit_code == 1
        assert "The export cannot be written" in result.stderr


@pytest.mark.slow
def test_ctrl_c_leaves_an_import_that_can_be_begun_again(
    own: DaemonProcess, shell: Terminal, tmp_path: Path
) -> None:
    data = [loop(f"interrupted {number}", turn("word " * 100)) for number in range(300)]
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "memory", "import", "-", "--format", "rondo"],
        env=environment(own.settings.data_dir, RONDO_SERVER__PORT=str(own.settings.server.port)),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(lines(*data) + b" " * 600_000)  # all of it is on its way
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while shell.run("memory", "export", "--loop", "interrupted 0").exit_code != 0:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert b"begin again" in process.stderr.read()
    report = outcome(shell, saved(tmp_path, *data))
    assert report["failures"] == 0
    assert report["unchanged"] >= 200
    assert report["imported"] + report["unchanged"] == 300
