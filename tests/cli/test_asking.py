"""A person at a terminal is asked, and answers; and answers given as commands, with a daemon."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.cli.daemon.daemon_process import DaemonProcess, running_daemon
from service.config import EmbedderSettings, Settings
from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import ENVIRONMENT, sent

pytestmark = pytest.mark.slow

SCRIPT = """\
== when back up
call: run_script {"name": "backup.sh", "arguments": ["--all", "照片"]}
--
text: Then: {result}
== when both
call: run_script {"name": "backup.sh", "arguments": ["one"]}
call: run_script {"name": "backup.sh", "arguments": ["two"]}
--
text: Then: {result}
== when trip
call: ask_user {"question": "Where to?"}
--
text: To {result}, then.
== when drink
call: choose {"question": "喝什么？", "options": ["茶", "coffee", "green tea"]}
--
text: You get {result}.
== when several
call: choose {"question": "Which?", "options": ["a", "b", "c"], "multiple": true}
--
text: You get {result}.
== default
text: You said: {message}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("asking")
    script = folder / "script.txt"
    script.write_text(SCRIPT)
    scripts = folder / "data" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "backup.sh").write_text('#!/bin/sh\necho "saved $*"\n')
    settings = Settings(embedder=EmbedderSettings(kind="none"))
    environment = {**ENVIRONMENT, "RONDO_LLM__MODEL": str(script)}
    with running_daemon(settings, folder, environment=environment) as running:
        running.wait_until(lambda readiness: readiness.ready)
        yield running


@pytest.fixture
def terminal(daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    return Terminal(daemon.settings.data_dir, daemon.settings.server.port)


def response(terminal: Terminal, loop: str) -> str:
    """The last answer of a loop, once it rests."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        whole = json.loads(terminal.run("loops", "show", loop, "--json").stdout)
        if whole["status"] == "idle":
            return str(whole["iterations"][-1]["response"])
        time.sleep(0.05)
    pytest.fail(f"run loop {loop} does not come to rest")


def newest(terminal: Terminal) -> dict[str, Any]:
    """The run loop that was opened last."""
    (loop,) = json.loads(terminal.run("loops", "list", "--limit", "1", "--json").stdout)
    whole: dict[str, Any] = json.loads(terminal.run("loops", "show", loop["id"], "--json").stdout)
    return whole


def answered(terminal: Terminal, loop: str, *options: str) -> str:
    result = terminal.run("loops", "answer", loop, *options)
    assert result.exit_code == 0, result.stderr
    return response(terminal, loop)


# --- at a terminal: a yes or a no


@pytest.mark.parametrize("yes", ["y", "YES", "是", "好", "同意"])
def test_a_clear_yes_runs_the_call_that_was_shown_whole(terminal: Terminal, yes: str) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("run_script")
    screen.wait_for('"照片"')
    screen.wait_for("Run it? [y/n]")
    screen.type(f"{yes}\n")
    screen.wait_for("saved --all 照片")
    assert screen.leave() == 0


def test_what_is_not_understood_is_asked_again_and_is_no_yes(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("yess\n")
    screen.wait_for("Type y or n")
    screen.wait_for("Run it? [y/n]")
    screen.type("n\n")
    screen.wait_for("Why not?")
    screen.type("\n")
    screen.wait_for("did not allow")
    assert screen.leave() == 0


def test_enter_alone_decides_nothing_and_a_late_yes_is_a_yes(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("\n")
    screen.wait_for("Type y or n")
    screen.wait_for("Run it? [y/n]")
    screen.type("y\n")
    screen.wait_for("saved --all")
    assert screen.leave() == 0


def test_an_interrupt_at_the_question_answers_nothing(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("[e]dit › ")
    screen.stays_still(seconds=0.3)  # readline is slow to listen for Ctrl-C
    screen.type("\x03")
    screen.wait_for("It waits for you")
    assert screen.leave() == 3


def test_the_arguments_are_edited_in_a_line_until_they_are_json(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("e\n")
    screen.wait_for('Arguments, as JSON › {"name": "backup.sh"')
    screen.type("\x15{oops\n")  # Ctrl-U takes away what stands there
    screen.wait_for("That is not JSON")
    screen.wait_for("as JSON › {oops")
    screen.type('\x15{"name": "backup.sh", "arguments": ["文件"]}\n')
    screen.wait_for('"文件"')
    screen.wait_for("Run it? [y/n]")
    screen.type("y\n")
    screen.wait_for("saved 文件")
    assert screen.leave() == 0


def test_the_arguments_are_edited_in_the_editor_that_is_set(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/--all/--some/ "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("e\n")
    screen.wait_for('"--some"')
    screen.wait_for("Run it? [y/n]")
    screen.type("y\n")
    screen.wait_for("saved --some 照片")
    assert screen.leave() == 0


def test_arguments_that_the_tool_cannot_take_are_told_and_asked_again(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("e\n")
    screen.wait_for("as JSON › ")
    screen.type('\x15{"script": "backup.sh"}\n')
    screen.wait_for("Run it? [y/n]")
    screen.type("y\n")
    screen.wait_for("there is no such argument")
    screen.wait_for('"--all"')
    screen.wait_for("Run it? [y/n]")
    screen.type("y\n")
    screen.wait_for("saved --all 照片")
    assert screen.leave() == 0


def test_several_calls_are_allowed_at_once(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "both")
    screen.wait_for("May these 2 calls run?")
    screen.wait_for("Run all 2? [y/n]")
    screen.type("y\n")
    screen.wait_for("Then: ")
    assert screen.leave() == 0
    results = newest(terminal)["iterations"][0]["tool_results"]
    assert sorted(result["content"].split()[-1] for result in results) == ["one", "two"]


def test_several_calls_are_decided_one_by_one(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "both")
    screen.wait_for("Run all 2? [y/n]")
    screen.type("o\n")
    screen.wait_for('"one"')
    screen.wait_for("Run run_script? [y/n]")
    screen.type("n\n")
    screen.wait_for("Why not?")
    screen.type("不要这个\n")
    screen.wait_for('"two"')
    screen.wait_for("Run run_script? [y/n]")
    screen.type("y\n")
    screen.wait_for("Then: ")
    assert screen.leave() == 0
    results = newest(terminal)["iterations"][0]["tool_results"]
    no, yes = sorted(results, key=lambda result: not result["is_error"])
    assert "不要这个" in no["content"]
    assert yes["content"].endswith("saved two")


def test_a_yes_for_this_loop_is_not_asked_again_in_it(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("l\n")
    screen.wait_for("saved --all")
    assert screen.leave() == 0
    loop = newest(terminal)
    assert sent(terminal, "back up again", "--loop", loop["id"])["outcome"] == "answered"
    assert sent(terminal, "back up elsewhere")["outcome"] == "waiting"


def test_a_yes_for_good_holds_until_it_is_revoked(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("a\n")
    screen.wait_for("runs without asking from now on")
    screen.wait_for("saved --all")
    assert screen.leave() == 0
    assert sent(terminal, "back up elsewhere")["outcome"] == "answered"
    listed = terminal.run("approvals")
    assert "run_script backup.sh sha256:" in listed.stdout
    (approval,) = json.loads(terminal.run("approvals", "list", "--json").stdout)
    assert approval["scope"] in listed.stdout
    revoked = terminal.run("approvals", "revoke", *approval["scope"].split())
    assert revoked.exit_code == 0
    assert "Nothing" in terminal.run("approvals").stderr
    assert sent(terminal, "back up once more")["outcome"] == "waiting"
    again = terminal.run("approvals", "revoke", approval["scope"])
    assert again.exit_code == 1
    assert "no standing approval" in again.stderr


def test_what_somebody_else_has_answered_meanwhile_counts(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    answered(terminal, newest(terminal)["id"], "--no", "--text", "elsewhere decided")
    screen.type("y\n")
    screen.wait_for("The first answer")
    screen.wait_for("elsewhere decided")
    assert "saved" not in screen.shown
    assert screen.leave() == 0


# --- at a terminal: words and choices


def test_a_question_is_answered_in_words(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "a trip")
    screen.wait_for("Where to?")
    screen.wait_for("› ")
    screen.type("\n")
    screen.wait_for("in words")
    screen.type("里斯本\n")
    screen.wait_for("To 里斯本, then.")
    assert screen.leave() == 0


def test_one_option_is_chosen_by_its_number(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "a drink")
    screen.wait_for("喝什么？")
    screen.wait_for("3  green tea")
    screen.wait_for("Which one?")
    for wrong in ("4", "0", "1,2", "", "tea"):
        screen.type(f"{wrong}\n")
        screen.wait_for("numbers from 1 to 3")
    screen.type("1\n")
    screen.wait_for("You get 茶.")
    assert screen.leave() == 0


def test_several_options_are_chosen_by_their_numbers(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "several")
    screen.wait_for("Which ones?")
    screen.type("3，1\n")
    screen.wait_for("You get c")
    screen.wait_for("a.")
    assert screen.leave() == 0


# --- as commands


def test_an_option_of_several_words_is_chosen_by_them(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "a drink")
    screen.wait_for("Which one? (number)")
    screen.type("Green Tea\n")
    screen.wait_for("You get green tea.")
    assert screen.leave() == 0


@pytest.mark.parametrize(
    ("message", "asks"),
    [("a drink", "Which one? (number)"), ("back up", "Run it? [y/n]"), ("a trip", "Where to?")],
)
def test_in_a_chat_a_question_takes_no_commands_for_answers(
    terminal: Terminal, message: str, asks: str
) -> None:
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    screen.type(f"{message}\n")
    screen.wait_for(asks)
    screen.type("/new Good evening\n")
    screen.wait_for("You said: Good evening")
    screen.wait_for("› ")
    screen.type("/loops\n")
    screen.wait_for("waits for you")
    screen.type(f"/new {message}\n")
    screen.wait_for(asks)
    screen.type("/quit\n")
    screen.wait_for("go on without you")
    assert screen.leave() == 0


@pytest.mark.parametrize("said", ["what does it do?", "别删，等等"])
def test_in_a_chat_words_instead_of_a_yes_are_said_and_run_nothing(
    terminal: Terminal, said: str
) -> None:
    loop = sent(terminal, "hello")["run_loop_id"]
    screen = Screen(terminal, "chat", "--loop", loop)
    screen.wait_for("› ")
    screen.type("back up\n")
    screen.wait_for("Run it? [y/n]")
    screen.type(f"{said}\n")
    screen.wait_for(f"You said: {said}")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0
    assert "saved --all" not in terminal.run("loops", "show", loop).stdout


def test_in_a_chat_what_begins_with_a_stroke_and_is_no_command_is_an_answer(
    terminal: Terminal,
) -> None:
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    screen.type("a trip\n")
    screen.wait_for("Where to?")
    screen.type("/mnt/lisbon\n")
    screen.wait_for("To /mnt/lisbon, then.")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0


def test_a_loop_that_waits_shows_what_it_asks_and_how_to_answer(terminal: Terminal) -> None:
    loop = sent(terminal, "a drink")["run_loop_id"]
    shown = terminal.run("loops", "show", loop)
    assert "喝什么？" in shown.stderr
    assert "2  coffee" in shown.stderr
    assert re.search(r"rondo loops answer \S+ --choose NUMBER", shown.stderr)
    loop = sent(terminal, "a trip")["run_loop_id"]
    assert "--text" in terminal.run("loops", "show", loop).stderr


@pytest.mark.parametrize(
    ("message", "options", "words"),
    [
        ("a trip", ["--text", "里斯本"], "To 里斯本, then."),
        ("a drink", ["--choose", "2"], "You get coffee."),
        ("a drink", ["--choose", "茶"], "You get 茶."),
        ("several", ["--choose", "c", "--choose", "1"], "You get c\na."),
        ("back up", ["--yes"], "saved --all 照片"),
        (
            "back up",
            ["--yes", "--edit", '{"name": "backup.sh", "arguments": ["文件"]}'],
            "saved 文件",
        ),
        ("back up", ["--no", "--text", "改天"], "They said: 改天"),
    ],
)
def test_a_command_answers(
    terminal: Terminal, message: str, options: list[str], words: str
) -> None:
    loop = sent(terminal, message)["run_loop_id"]
    assert words in answered(terminal, loop, *options)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "Give --yes, --no, --text or --choose"),
        (["--edit", "{}"], 2, "Give --yes"),
        (["--no", "--edit", "{}"], 2, "go with --yes"),
        (["--no", "--remember", "always"], 2, "go with --yes"),
        (["--yes", "--edit", "{oops"], 1, "not JSON"),
        (["--yes", "--edit", "[]"], 1, "no object"),
        (["--yes", "--edit", '{"name": 7}'], 1, "name: input should be a valid string"),
        (["--yes", "--text", "but not today"], 1, "take the yes back"),
        (["--choose", "1"], 1, "nothing to choose"),
    ],
)
def test_a_command_that_is_no_clear_answer_decides_nothing(
    terminal: Terminal, options: list[str], code: int, words: str
) -> None:
    loop = sent(terminal, "back up")["run_loop_id"]
    result = terminal.run("loops", "answer", loop, *options)
    assert result.exit_code == code
    assert words in result.stderr
    whole: dict[str, Any] = json.loads(terminal.run("loops", "show", loop, "--json").stdout)
    assert whole["status"] == "waiting_for_human_input"


def test_a_choice_that_is_none_is_told_with_the_options(terminal: Terminal) -> None:
    loop = sent(terminal, "a drink")["run_loop_id"]
    result = terminal.run("loops", "answer", loop, "--choose", "water")
    assert result.exit_code == 1
    assert "1: 茶; 2: coffee; 3: green tea" in result.stderr


def test_a_yes_for_good_can_be_given_as_a_command(terminal: Terminal) -> None:
    loop = sent(terminal, "back up")["run_loop_id"]
    answered(terminal, loop, "--yes", "--remember", "always")
    (approval,) = json.loads(terminal.run("approvals", "list", "--json").stdout)
    assert approval["run_loop_id"] == loop
    assert terminal.run("approvals", "revoke", approval["scope"]).exit_code == 0
