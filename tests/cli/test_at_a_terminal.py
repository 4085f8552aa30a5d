"""`rondo send` at a terminal, with somebody who types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


def test_a_no_at_the_terminal_is_told_to_the_model_with_its_reason(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up, please")
    screen.wait_for("Run it? [y/n]")
    screen.type("n\n")
    screen.wait_for("Why not?")
    screen.type("不是今天\n")
    screen.wait_for("Then this happened:")
    screen.wait_for("不是今天")
    assert screen.leave() == 0


def test_what_is_said_instead_of_a_yes_is_answered_at_the_terminal(terminal: Terminal) -> None:
    loop = sent(terminal, "back up everything")["run_loop_id"]
    screen = Screen(terminal, "send", "well?", "--loop", loop)
    screen.wait_for("You said: well?")
    assert screen.leave() == 0


def test_no_answer_at_the_terminal_is_not_a_yes(terminal: Terminal) -> None:
    screen = Screen(terminal, "send", "back up, maybe")
    screen.wait_for("Run it? [y/n]")
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


@contextmanager
def answering(terminal: Terminal, message: str, until: str) -> Iterator[tuple[Screen, str]]:
    """A message that is being answered, and its run loop."""
    screen = Screen(terminal, "send", message)
    screen.wait_for("new run loop ")
    screen.wait_for(until)
    match = re.search(r"new run loop (\w+)", screen.shown)
    assert match is not None
    yield screen, match[1]


def test_a_follow_up_gets_its_own_answer_and_its_sender_no_other(terminal: Terminal) -> None:
    with answering(terminal, "slowly", "One, two,") as (screen, loop):
        follow_up = terminal.run("send", "and then", "--loop", loop, "--mode", "followup")
        screen.wait_for("three.")
        assert screen.leave() == 0
    assert follow_up.exit_code == 0
    assert follow_up.stdout == "You said: and then\n"
    assert "your message is seen after its answer" in follow_up.stderr
    assert "You said: and then" not in screen.shown


def test_a_steering_message_as_json_holds_its_own_answer(terminal: Terminal) -> None:
    with answering(terminal, "slowly", "One, two,") as (screen, loop):
        steering = sent(terminal, "faster", "--loop", loop)
        assert screen.leave() == 0
    assert steering["response"] == "You said: faster"
    assert steering["outcome"] == "answered"


def test_an_interrupt_stops_the_answer_and_both_senders_see_what_comes_instead(
    terminal: Terminal,
) -> None:
    with answering(terminal, "endless", "It goes on") as (screen, loop):
        instead = terminal.run("send", "this", "--loop", loop, "--mode", "interrupt")
        screen.wait_for("stopped, to take this instead: “this”")
        screen.wait_for("You said: this")
        assert screen.leave() == 0
    assert instead.stdout == "You said: this\n"
    assert "what it was doing was stopped" in instead.stderr
