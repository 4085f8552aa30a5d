"""`rondo chat` at a terminal: what a person can do while an answer comes, and between answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


@contextmanager
def chatting(terminal: Terminal) -> Iterator[Screen]:
    """A chat that was greeted, and is left in the end."""
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    yield screen
    screen.type("\x04")
    screen.wait_for("go on without you")
    assert screen.leave() == 0


def ask(screen: Screen, words: str, until: str) -> None:
    screen.type(f"{words}\n")
    screen.wait_for("new run loop")
    screen.wait_for(until)


def test_a_chat_streams_asks_cancels_and_leaves(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        ask(screen, "你好 chat", "You said: 你好 chat")
        screen.wait_for("› ")
        ask(screen, "back up all", "Run it? [")
        screen.type("y\n")
        screen.wait_for("backed up --all")
        screen.wait_for("› ")
        ask(screen, "endless", "It goes on")
        screen.type("\x03")
        screen.wait_for("cancelled")
        screen.wait_for("› ")


def test_a_chat_summarises_and_has_answers_looked_over_when_told_to(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        screen.type("/compact\n")
        screen.wait_for("no run loop was talked to yet")
        ask(screen, "hello", "You said: hello")
        screen.wait_for("› ")
        screen.type("/compact\n")
        screen.wait_for("nothing to summarise")
        screen.type("/enhance on\n")
        screen.wait_for("looked over once more")
        screen.type("/enhance off\n")
        screen.wait_for("Answers stand as they are")
        screen.type("/enhance perhaps\n")
        screen.wait_for("neither on nor off")
        screen.wait_for("› ")


def test_the_answer_waits_while_a_line_is_typed_and_goes_on_after_it(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        ask(screen, "slowly", "One, two,")
        screen.type("用中文")  # in two pieces, with the rest of the answer between them
        screen.wait_for("› ")
        screen.wait_for("用中文")
        screen.stays_still(seconds=2)
        screen.type("，请\n")
        screen.wait_for("three.")
        screen.wait_for("You said: 用中文，请")
        screen.wait_for("› ")
    assert "One, two,three." not in screen.shown


def test_a_line_that_is_typed_while_an_answer_comes_is_seen_after_the_step(
    terminal: Terminal,
) -> None:
    with chatting(terminal) as screen:
        ask(screen, "slowly", "One, two,")
        screen.type("and you?\n")
        screen.wait_for("three.")
        screen.wait_for("You said: and you?")
        screen.wait_for("› ")


def test_a_follow_up_waits_for_the_answer(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        ask(screen, "slowly", "One, two,")
        screen.type("/then what next\n")
        screen.wait_for("three.")
        screen.wait_for("You said: what next")
        screen.wait_for("› ")


def test_what_is_to_be_taken_instead_stops_the_answer_at_once(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        ask(screen, "endless", "It goes on")
        screen.type("/instead something else\n")
        screen.wait_for("stopped, to take this instead: “something else”")
        screen.wait_for("You said: something else")
        screen.wait_for("› ")
        assert "and on" not in screen.shown


def test_a_loop_that_was_stopped_can_be_taken_up_again(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        ask(screen, "endless", "It goes on")
        screen.type("/then what next\n")
        screen.type("/stop\n")
        screen.wait_for("cancelled")
        screen.wait_for("› ")
        screen.type("/resume\n")
        screen.wait_for("taken up again")
        screen.wait_for("You said: what next")
        screen.wait_for("› ")


def test_a_line_can_be_given_up_and_the_chat_be_left_while_an_answer_comes(
    terminal: Terminal,
) -> None:
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    ask(screen, "endless", "It goes on")
    screen.type("never mi")
    screen.wait_for("never mi")
    screen.type("\x03")  # gives the line up; the answer is not stopped by it
    screen.type("\n/help\n")
    screen.wait_for("/instead TEXT")
    screen.type("\x04")
    screen.wait_for("goes on. Stop it with `rondo loops cancel ")
    loop = re.findall(r"rondo loops cancel (\w+)", screen.shown)[-1]
    assert screen.leave() == 0
    done = terminal.run("loops", "cancel", loop)
    assert done.stdout.startswith("cancelled"), done.stderr
    assert "never mi" not in terminal.run("loops", "show", loop).stdout


def test_what_was_typed_before_a_question_is_no_answer_to_it(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        ask(screen, "later back up", "Soon:")
        screen.type("y")
        screen.wait_for("y")
        screen.stays_still(seconds=2)  # the question is there by now
        screen.type("\n")
        screen.wait_for("Run it? [")
        screen.type("n\n\n")
        screen.wait_for("did not allow")
        screen.wait_for("› ")


def test_a_fork_is_talked_to_from_then_on(terminal: Terminal) -> None:
    first = sent(terminal, "hello")
    sent(terminal, "more", "--loop", first["run_loop_id"])
    watched = terminal.run("loops", "show", first["run_loop_id"], "--json").stdout
    assert "more" in watched
    screen = Screen(terminal, "chat", "--loop", first["run_loop_id"])
    screen.wait_for("› ")
    screen.type("/fork\n")
    screen.wait_for(f"a fork of {first['run_loop_id'][:10]}")
    screen.type("another way\n")
    screen.wait_for("joined")
    screen.wait_for("You said: another way")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0
    assert "another way" not in terminal.run("loops", "show", first["run_loop_id"]).stdout


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/fork", "no run loop was talked to yet"),
        ("/resume", "no run loop was talked to yet"),
        ("/stop", "No answer is coming"),
        ("/nonsense", "There is no /nonsense"),
        ("/help", "/instead TEXT"),
    ],
)
def test_commands_that_cannot_be_done_say_why_and_the_chat_goes_on(
    terminal: Terminal, line: str, words: str
) -> None:
    done = terminal.run("chat", stdin=f"{line}\nhello\n/quit\n")
    assert done.exit_code == 0
    assert words in done.stderr
    assert done.stdout.endswith("You said: hello\n")
