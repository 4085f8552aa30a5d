"""Questions are answered by commands and in a chat, with a daemon."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.cli.asking_daemon import answered, response
from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


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
        (["--yes", "--until", "18:00"], 2, "go with --remember"),
        (["--yes", "--remember", "always", "--until", "2020-01-01 09:00"], 1, "has passed"),
        (["--yes", "--remember", "always", "--until", "every day at 9"], 1, "again and again"),
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


def test_a_yes_is_given_within_limits_and_narrowed_later_by_commands(terminal: Terminal) -> None:
    loop = sent(terminal, "back up")["run_loop_id"]
    limits = ["--remember", "always", "--until", "24h"]
    result = terminal.run("loops", "answer", loop, "--yes", *limits)
    assert "Your yes covers run_script backup.sh, as it is now" in result.stderr
    response(terminal, loop)
    (approval,) = json.loads(terminal.run("approvals", "list", "--json").stdout)
    narrowed = terminal.run("approvals", "narrow", approval["id"], "--arguments", "--until", "1h")
    assert narrowed.exit_code == 0, narrowed.stderr
    assert "with just these arguments" in narrowed.stdout
    assert "with just these arguments" in terminal.run("approvals").stdout
    (narrower,) = json.loads(terminal.run("approvals", "list", "--json").stdout)
    assert narrower["until"] < approval["until"]
    wider = terminal.run("approvals", "narrow", narrower["id"], "--until", "48h")
    assert wider.exit_code == 1
    assert "longer" in wider.stderr
    assert terminal.run("approvals", "narrow", narrower["id"]).exit_code == 2
    assert terminal.run("approvals", "revoke", narrower["id"]).exit_code == 0
