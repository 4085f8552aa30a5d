"""At the terminal a change of a file is judged by its difference, and taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.asking_daemon import answered, newest
from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


@pytest.fixture
def notes(terminal: Terminal) -> Path:
    path = terminal.data_dir.parent / "notes" / "notes.txt"
    path.write_text("医生\nTuesday\n", "utf-8")
    return path


def test_the_difference_is_shown_before_the_yes_and_before_it_is_taken_back(
    terminal: Terminal, notes: Path
) -> None:
    screen = Screen(terminal, "send", "note down", COLUMNS="300")  # a folder can have a long name
    screen.wait_for("May this run?")
    screen.wait_for("-Tuesday")
    screen.wait_for("+Friday")
    screen.wait_for("no yes to this is remembered")
    screen.wait_for("Run it? [y/n]")
    screen.type("y\n")
    screen.wait_for("is changed: 14 bytes")
    assert screen.leave() == 0
    assert notes.read_text("utf-8") == "医生\nFriday\n"

    listed = terminal.run("files")
    assert str(notes) in listed.stdout
    change = json.loads(terminal.run("files", "list", "--json").stdout)[0]
    assert change["state"] == "written"
    screen = Screen(terminal, "files", "undo", change["id"], COLUMNS="300")
    screen.wait_for("-Friday")
    screen.wait_for("+Tuesday")
    screen.wait_for("Take it back? [y/n]")
    screen.type("y\n")
    screen.wait_for("is as it was before")
    assert screen.leave() == 0
    assert notes.read_text("utf-8") == "医生\nTuesday\n"
    assert change["id"] not in terminal.run("files").stdout


def test_without_a_terminal_nothing_is_taken_back_but_with_yes(
    terminal: Terminal, notes: Path
) -> None:
    sent(terminal, "note down")
    answered(terminal, newest(terminal)["id"], "--yes")
    [change, *_] = json.loads(terminal.run("files", "list", "--json").stdout)
    refused = terminal.run("files", "undo", change["id"])
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert "+Tuesday" in terminal.run("files", "show", change["id"]).stderr
    notes.write_text("mine\n")
    refused = terminal.run("files", "undo", change["id"], "--yes")
    assert refused.exit_code == 1
    assert "has been changed, moved or deleted since" in refused.stderr
    assert notes.read_text() == "mine\n"
    notes.write_text("医生\nFriday\n", "utf-8")
    assert terminal.run("files", "undo", change["id"], "--yes").exit_code == 0
    assert notes.read_text("utf-8") == "医生\nTuesday\n"
    gone = terminal.run("files", "undo", change["id"], "--yes")
    assert gone.exit_code == 1
    assert "there is no change" in gone.stderr
    assert terminal.run("files", "show", "../token").exit_code == 2


def test_a_tool_that_is_run_by_hand_shows_the_difference_first(
    terminal: Terminal, notes: Path
) -> None:
    granted = json.dumps([str(notes.parent)])
    edit = '{"path": "notes.txt", "old_text": "Tuesday", "new_text": "Friday"}'
    for said, held in (("n", "医生\nTuesday\n"), ("y", "医生\nFriday\n")):
        ran = terminal.run(
            *("tools", "run", "edit_file", edit),
            stdin=f"{said}\n",
            RONDO_TOOLS__FILES_WRITE=granted,
        )
        assert "+Friday" in ran.stderr
        assert notes.read_text("utf-8") == held


def test_a_change_that_cannot_be_made_by_hand_asks_nobody(terminal: Terminal, notes: Path) -> None:
    granted = json.dumps([str(notes.parent)])
    edit = '{"path": "notes.txt", "old_text": "Thursday", "new_text": "Friday"}'
    refused = terminal.run(
        *("tools", "run", "edit_file", edit), stdin="y\n", RONDO_TOOLS__FILES_WRITE=granted
    )
    assert refused.exit_code == 1
    assert "Run it?" not in refused.stderr + refused.stdout
    assert "notes.txt" in refused.stderr
    assert notes.read_text("utf-8") == "医生\nTuesday\n"
