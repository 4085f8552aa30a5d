"""The commands against a real daemon process, whose model plays a script."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.cli.daemon_process import DaemonProcess, running_daemon
from service.config import EmbedderSettings, Settings
from tests.cli.support import Terminal

pytestmark = pytest.mark.slow

SCRIPT = """\
== when sum of
text: I will add.
call: calculator {"expression": "2 + 2"}
call: calculator {"expression": "2 +"}
--
text/3: The sum is 4.
== when flaky
text: half an ans
error x1: 503 busy
text: wer, and whole.
== when back up
call: run_script {"name": "backup.sh", "arguments": ["--all"]}
--
text: Then this happened: {result}
== when endless
text/4: It goes on
pause: 60
text: and on
== when refused
error: 400 no such model
== default
text/4: You said: {message}
"""
ENVIRONMENT = {
    "RONDO_EMBEDDER__KIND": "none",
    "RONDO_AGENT__AUTO_CLASSIFY": "false",
    "RONDO_LLM__PROVIDER": "scripted",
    "RONDO_TOOLS__SCRIPTS": "true",
    "RONDO_CONFIG": "",
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("daemon")
    script = folder / "script.txt"
    script.write_text(SCRIPT)
    scripts = folder / "data" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "backup.sh").write_text('#!/bin/sh\n# Backs up.\necho "backed up $*"\n')
    (scripts / "backup.sh").chmod(0o755)
    settings = Settings(embedder=EmbedderSettings(kind="none"))
    environment = {**ENVIRONMENT, "RONDO_LLM__MODEL": str(script)}
    with running_daemon(settings, folder, environment=environment) as running:
        running.wait_until(lambda readiness: readiness["ready"] is True)
        yield running


@pytest.fixture
def terminal(daemon: DaemonProcess) -> Terminal:
    return Terminal(daemon.settings.data_dir, daemon.settings.server.port)


def sent(terminal: Terminal, text: str, *options: str) -> dict[str, Any]:
    """Send a message with ``--json``; what was printed."""
    result = terminal.run("send", text, "--json", *options)
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


# --- send


def test_the_answer_goes_to_standard_output_and_all_else_to_standard_error(
    terminal: Terminal,
) -> None:
    result = terminal.run("send", "你好，世界")
    assert result.exit_code == 0
    assert result.stdout == "You said: 你好，世界\n"
    assert "new run loop" in result.stderr


def test_a_dash_reads_the_message_from_standard_input(terminal: Terminal) -> None:
    assert terminal.run("send", "-", stdin="从管道来\n").stdout == "You said: 从管道来\n"


def test_tool_calls_are_shown_with_what_came_of_them(terminal: Terminal) -> None:
    result = terminal.run("send", "the sum of two and two")
    assert result.exit_code == 0
    assert result.stdout == "I will add.\nThe sum is 4.\n"
    assert re.search(r"calculator\(expression='2 \+ 2'\) +ok +4", result.stderr)
    assert re.search(r"calculator\(expression='2 \+'\) +error", result.stderr)


def test_words_that_are_taken_back_never_reach_a_pipe(terminal: Terminal) -> None:
    result = terminal.run("send", "flaky")
    assert result.exit_code == 0
    assert result.stdout.count("half an ans") == 1
    assert "Attempt 1" in result.stderr


def test_json_is_one_object_with_loop_answer_and_route(terminal: Terminal) -> None:
    answer = sent(terminal, "hello")
    assert answer["response"] == "You said: hello"
    assert answer["outcome"] == "answered"
    assert answer["route"]["decision"] == "new"
    again = sent(terminal, "and more", "--loop", answer["run_loop_id"])
    assert again["run_loop_id"] == answer["run_loop_id"]
    assert again["route"]["method"] == "explicit"


def test_a_failed_loop_is_an_error_in_words(terminal: Terminal) -> None:
    result = terminal.run("send", "to be refused")
    assert result.exit_code == 1
    assert "no such model" in result.stderr


def test_what_a_person_must_approve_waits_with_its_own_exit_code(terminal: Terminal) -> None:
    result = terminal.run("send", "back up everything")
    assert result.exit_code == 3
    assert '"--all"' in result.stderr
    answering = re.search(r"rondo (loops answer \S+ --yes)", result.stderr)
    assert answering is not None
    assert terminal.run(*answering[1].split()).exit_code == 0


def test_a_message_to_a_loop_that_waits_tells_again_what_it_waits_for(terminal: Terminal) -> None:
    waiting = sent(terminal, "back up everything")
    loop = waiting["run_loop_id"]
    again = terminal.run("send", "and quickly", "--loop", loop)
    assert again.exit_code == 3
    assert '"--all"' in again.stderr
    assert re.search(r"rondo loops answer \S+ --yes", again.stderr)
    assert sent(terminal, "now", "--loop", loop)["request"] == waiting["request"]
    piped = terminal.run("chat", "--loop", loop, stdin="yes\n/quit\n")
    assert piped.exit_code == 0
    assert "rondo loops answer" in piped.stderr
    assert terminal.run("loops", "cancel", loop).exit_code == 0


def test_an_answer_in_words_reaches_the_model(terminal: Terminal) -> None:
    waiting = sent(terminal, "back up everything")
    assert waiting["outcome"] == "waiting"
    assert waiting["request"]["kind"] == "approve"
    loop = waiting["run_loop_id"]
    done = terminal.run("loops", "answer", loop, "--no", "--text", "not on a Saturday")
    assert done.exit_code == 0
    shown = terminal.run("loops", "show", loop)
    while "Then this happened" not in shown.stdout:
        time.sleep(0.1)
        shown = terminal.run("loops", "show", loop)
    assert "They said: not on a Saturday" in shown.stdout


# --- loops


def test_loops_lists_what_there_is_newest_first(terminal: Terminal) -> None:
    first = sent(terminal, "first 番茄")["run_loop_id"]
    second = sent(terminal, "second")["run_loop_id"]
    listed = json.loads(terminal.run("loops", "list", "--json").stdout)
    ids = [loop["id"] for loop in listed]
    assert ids.index(second) < ids.index(first)
    table = terminal.run("loops").stdout
    assert first in table
    assert "first 番茄" in table


def test_a_beginning_of_an_id_that_only_one_loop_has_is_enough(terminal: Terminal) -> None:
    loop = sent(terminal, "shorten me")["run_loop_id"]
    shown = terminal.run("loops", "show", loop[:12])
    assert shown.exit_code == 0
    assert "shorten me" in shown.stdout
    ambiguous = terminal.run("loops", "show", loop[:2])
    assert ambiguous.exit_code == 1
    assert "Give more of the id" in ambiguous.stderr
    unknown = terminal.run("loops", "show", "zzz")
    assert unknown.exit_code == 1
    assert "zzz" in unknown.stderr


def test_show_has_the_words_of_people_and_tools(terminal: Terminal) -> None:
    loop = sent(terminal, "the sum of 二 and two")["run_loop_id"]
    shown = terminal.run("loops", "show", loop).stdout
    assert "the sum of 二 and two" in shown
    assert "calculator(expression='2 + 2')" in shown
    assert "The sum is 4." in shown
    whole = json.loads(terminal.run("loops", "show", loop, "--json").stdout)
    assert whole["iterations"][-1]["response"] == "The sum is 4."


def test_completing_a_loop_ends_it_once(terminal: Terminal) -> None:
    loop = sent(terminal, "finish me")["run_loop_id"]
    done = terminal.run("loops", "complete", loop)
    assert done.exit_code == 0
    assert done.stdout.startswith("completed")
    again = terminal.run("loops", "cancel", loop)
    assert again.exit_code == 1
    assert "completed already" in again.stderr


def test_watch_of_a_loop_tells_its_whole_story_and_ends_with_it(terminal: Terminal) -> None:
    loop = sent(terminal, "the sum of it")["run_loop_id"]
    terminal.run("loops", "complete", loop)
    watched = terminal.run("loops", "watch", loop)
    assert watched.exit_code == 0
    for event in ("run_loop.started", "tool.finished", "message.completed", "run_loop.completed"):
        assert event in watched.stdout
    lines = terminal.run("loops", "watch", loop, "--json").stdout.splitlines()
    assert [json.loads(line)["type"] for line in lines][-1] == "run_loop.completed"


def test_a_stream_is_taken_up_where_it_was_left(daemon: DaemonProcess, terminal: Terminal) -> None:
    loop = sent(terminal, "the sum of it")["run_loop_id"]
    terminal.run("loops", "complete", loop)
    with daemon.client() as client:
        whole = list(client.events(loop))
        for place in whole:
            rest = list(client.events(loop, after=place.seq))
            assert rest == whole[whole.index(place) + 1 :]


# --- memory


def test_what_was_completed_is_found_again_word_for_word(terminal: Terminal) -> None:
    words = "我的自行车停在火车站北边，钥匙在蓝色的盒子里"
    terminal.run("loops", "complete", sent(terminal, words)["run_loop_id"])
    end = time.monotonic() + 20
    hits: list[dict[str, Any]] = []
    while not hits and time.monotonic() < end:
        found = terminal.run("memory", "search", "自行车 钥匙", "--json")
        hits = json.loads(found.stdout)["hits"]
    assert words in {hit["content"] for hit in hits}
    shown = terminal.run("memory", "search", "自行车 钥匙", "--explain", "--limit", "1")
    assert shown.exit_code == 0
    assert words in shown.stdout.replace("\n", "").replace("  ", "")
    anchor = hits[0]["anchor"]["text"]
    assert anchor in shown.stdout
    expanded = terminal.run("memory", "expand", anchor)
    assert expanded.exit_code == 0
    assert "钥匙" in expanded.stdout
    context = json.loads(terminal.run("memory", "expand", anchor, "--json").stdout)
    assert context["focus"]["anchor"]["text"] == anchor
    stats = json.loads(terminal.run("memory", "stats", "--json").stdout)
    assert stats["run_loops"] >= 1


def test_a_search_that_finds_nothing_says_so(terminal: Terminal) -> None:
    result = terminal.run("memory", "search", "xylophone", "--since", "2001-01-01")
    assert result.exit_code == 0
    assert "Nothing was found" in result.stderr


def test_a_wrong_anchor_is_told_with_an_example(terminal: Terminal) -> None:
    result = terminal.run("memory", "expand", "nonsense")
    assert result.exit_code == 1
    assert "not an anchor" in result.stderr


# --- doctor, with the daemon up


def test_doctor_finds_the_daemon(terminal: Terminal) -> None:
    report = json.loads(terminal.run("doctor", "--json", **ENVIRONMENT).stdout)
    found = {each["name"]: each for each in report["checks"]}
    assert found["daemon"]["verdict"] == "ok"
    assert found["token"]["verdict"] == "ok"


# --- at a terminal


class Screen:
    """A command at a terminal of its own."""

    def __init__(self, terminal: Terminal, *arguments: str) -> None:
        self._near, far = pty.openpty()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._read_up_to = 0
        self.shown = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", *arguments],
            stdin=far,
            stdout=far,
            stderr=far,
            start_new_session=True,
            env={
                **os.environ,
                **ENVIRONMENT,
                "RONDO_DATA_DIR": str(terminal.data_dir),
                "RONDO_SERVER__PORT": str(terminal.port),
                "TERM": "xterm",
                "LC_ALL": "C.UTF-8",
            },
            preexec_fn=_own_terminal,
        )
        os.close(far)

    def type(self, keys: str) -> None:
        os.write(self._near, keys.encode())

    def wait_for(self, words: str, *, seconds: float = 30) -> None:
        """Read until these words are shown, after those that were waited for before."""
        end = time.monotonic() + seconds
        while words not in self.shown[self._read_up_to :]:
            ready, _, _ = select.select([self._near], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{words!r} was never shown; only: {self.shown!r}"
            self.shown += self._decode(os.read(self._near, 4096))
        self._read_up_to = self.shown.index(words, self._read_up_to) + len(words)

    def leave(self) -> int:
        code = self._process.wait(20)
        os.close(self._near)
        return code


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_chat_streams_asks_cancels_and_leaves(terminal: Terminal) -> None:
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    screen.type("你好 chat\n")
    screen.wait_for("new run loop")
    screen.wait_for("You said: 你好 chat")
    screen.wait_for("› ")
    screen.type("back up all\n")
    screen.wait_for("Run it? [y/N]")
    screen.type("y\n")
    screen.wait_for("backed up --all")
    screen.wait_for("› ")
    screen.type("endless\n")
    screen.wait_for("It goes on")
    screen.type("\x03")
    screen.wait_for("cancelled")
    screen.wait_for("› ")
    screen.type("\x04")
    screen.wait_for("go on without you")
    assert screen.leave() == 0


def test_a_no_at_the_terminal_is_told_to_the_model_with_its_reason(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up, please")
    screen.wait_for("Run it? [y/N]")
    screen.type("\n")
    screen.wait_for("Why not?")
    screen.type("不是今天\n")
    screen.wait_for("Then this happened:")
    screen.wait_for("不是今天")
    assert screen.leave() == 0


def test_a_message_to_a_loop_that_waits_asks_again_at_the_terminal(terminal: Terminal) -> None:
    loop = sent(terminal, "back up everything")["run_loop_id"]
    screen = Screen(terminal, "send", "well?", "--loop", loop)
    screen.wait_for("Run it? [y/N]")
    screen.type("y\n")
    screen.wait_for("You said: well?")
    assert screen.leave() == 0


def test_no_answer_at_the_terminal_is_not_a_yes(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up, maybe")
    screen.wait_for("Run it? [y/N]")
    screen.type("\x04")
    screen.wait_for("It waits for you")
    assert screen.leave() == 3


def test_leaving_while_an_answer_comes_cancels_nothing(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "endless")
    screen.wait_for("It goes on")
    screen.type("\x03")
    screen.wait_for("goes on. Stop it with")
    assert screen.leave() == 130
    loops = json.loads(terminal.run("loops", "list", "--status", "running", "--json").stdout)
    for loop in loops:
        assert terminal.run("loops", "cancel", loop["id"]).exit_code == 0


def test_stopping_the_daemon_is_orderly(tmp_path: Path) -> None:
    settings = Settings(embedder=EmbedderSettings(kind="none"))
    environment = {**ENVIRONMENT, "RONDO_LLM__MODEL": ""}
    with running_daemon(settings, tmp_path, environment=environment) as daemon:
        daemon.wait_until(lambda readiness: readiness["ready"] is True)
        assert daemon.stop() == 0
