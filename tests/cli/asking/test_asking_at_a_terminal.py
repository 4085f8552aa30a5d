"""A person at a terminal is asked, and answers, with a daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.asking_daemon import answered, newest
from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


# --- at a terminal: a yes or a no


@pytest.mark.parametrize("yes", ["y", "YES", "是", "好", "同意"])
def test_a_clear_yes_runs_the_call_that_was_shown_whole(terminal: Terminal, yes: str) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("run_script")
    screen.wait_for("--all '照片'")
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
    screen.wait_for("backup.sh --all")
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


def test_a_yes_within_limits_is_shown_before_it_counts(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("w\n")
    screen.wait_for("With just these arguments?")
    screen.type("y\n")
    screen.wait_for("Until when?")
    screen.type("yesterday-ish\n")
    screen.wait_for("Until when?")
    screen.type("24h\n")
    screen.wait_for("For this run loop alone?")
    screen.type("n\n")
    screen.wait_for("Your yes covers run_script backup.sh, as it is now")
    screen.wait_for("in every run loop")
    screen.wait_for("Is that right?")
    screen.type("y\n")
    screen.wait_for("saved --all")
    assert screen.leave() == 0
    (approval,) = json.loads(terminal.run("approvals", "list", "--json").stdout)
    assert json.loads(approval["arguments"])["arguments"] == ["--all", "照片"]
    assert approval["until"] is not None
    assert sent(terminal, "back up elsewhere")["outcome"] == "answered"
    assert sent(terminal, "both")["outcome"] == "waiting"
    assert terminal.run("approvals", "revoke", approval["id"]).exit_code == 0


def test_limits_that_are_not_right_decide_nothing(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("w\n")
    screen.wait_for("With just these arguments?")
    screen.type("n\n")
    screen.wait_for("Until when?")
    screen.type("1h\n")
    screen.wait_for("For this run loop alone?")
    screen.type("y\n")
    screen.wait_for("Is that right?")
    screen.type("n\n")
    screen.wait_for("Run it? [y/n]")
    screen.type("n\n")
    screen.wait_for("Why not?")
    screen.type("\n")
    screen.wait_for("did not allow")
    assert screen.leave() == 0


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
