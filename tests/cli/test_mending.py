"""In the chat: a message goes elsewhere while an answer comes; a route is mended, and unmended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import daemon_with, sent, terminal_of

pytestmark = pytest.mark.slow

SCRIPT = """\
== when slowly
text/4: One, two,
pause: 3
text/4: three.
== default
text/4: You said: {message}
"""
HOTEL, BREAKFAST = "Find a hotel in Bonn", "And does the hotel in Bonn have breakfast?"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """Of a daemon whose router is unsure of all that it weighs."""
    unsure = {
        "RONDO_AGENT__AUTO_CLASSIFY": "true",
        "RONDO_ROUTER__UNSURE_BELOW": "1",
        "RONDO_ROUTER__USE_LLM": "false",
    }
    folder: Path = tmp_path_factory.mktemp("mending")
    with daemon_with(folder, SCRIPT, **unsure) as running:
        yield terminal_of(running)


@contextmanager
def chatting(terminal: Terminal) -> Iterator[Screen]:
    for line in json.loads(listed(terminal)):  # what an earlier test has left
        terminal.run("loops", "complete", line["id"])
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    yield screen
    screen.type("\x04")
    assert screen.leave() == 0


def say(screen: Screen, words: str, *shown: str) -> None:
    screen.type(f"{words}\n")
    for each in shown:
        screen.wait_for(each)
    screen.wait_for("› ")


def loops(terminal: Terminal) -> dict[str, list[str | None]]:
    """What was said in each active run loop, by its goal."""
    messages_by_goal = {}
    for line in json.loads(listed(terminal)):
        whole = json.loads(terminal.run("loops", "show", line["id"], "--json").stdout)
        messages_by_goal[whole["goal"]] = [each["user_message"] for each in whole["iterations"]]
    return messages_by_goal


def test_one_key_moves_an_unsure_message_with_its_answer_and_another_takes_that_back(
    terminal: Terminal,
) -> None:
    with chatting(terminal) as screen:
        say(screen, HOTEL, "new run loop", f"You said: {HOTEL}")
        say(screen, BREAKFAST, "unsure,", "1 a new one", "/undo takes that back", "You said: And")
        screen.type("\x1b1")  # Alt-1
        screen.wait_for("moved it to")
        screen.wait_for("“And does the hotel")
        screen.wait_for("› ")
        assert loops(terminal) == {HOTEL: [HOTEL, None], BREAKFAST: [BREAKFAST]}
        screen.type("\x1bz")
        screen.wait_for("took it back to")
        screen.wait_for("› ")
        assert loops(terminal) == {HOTEL: [HOTEL, None, BREAKFAST]}
        say(screen, "/undo", "took it back to")  # again changes nothing
        assert loops(terminal) == {HOTEL: [HOTEL, None, BREAKFAST]}


def test_a_message_is_said_to_be_new_and_so_is_the_next_one(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        say(screen, HOTEL, f"You said: {HOTEL}")
        say(screen, f"/new {BREAKFAST}", "the sender said that it is new", "You said: And")
        say(screen, "/new", "opens a new run loop")
        say(screen, "波恩的酒店有早餐吗", "the sender said that it is new", "You said: 波恩")
        assert len(loops(terminal)) == 3
        say(screen, "/move", "It could be 1 a new one")
        say(screen, f"/move {loop_of(terminal, HOTEL)[:12]}", "moved it to", "Find a hotel")
        assert loops(terminal) == {
            HOTEL: [HOTEL, "波恩的酒店有早餐吗"],
            BREAKFAST: [BREAKFAST],
        }


def test_a_new_topic_is_worked_on_while_another_answer_goes_on_streaming(
    terminal: Terminal,
) -> None:
    with chatting(terminal) as screen:
        screen.type("/new slowly\n")
        screen.wait_for("One, two,")
        screen.type("/new 去里斯本的旅行\n")
        screen.wait_for("“去里斯本的旅行”: new run loop")
        screen.wait_for("is shown after this one")  # perhaps on the next line
        screen.wait_for("three.")
        screen.wait_for("You said: 去里斯本的旅行")
        screen.wait_for("› ")
        said = loops(terminal)
        assert said == {"slowly": ["slowly"], "去里斯本的旅行": ["去里斯本的旅行"]}
        assert "three.You" not in screen.shown


def test_a_message_to_be_routed_leaves_the_answer_alone_that_streams(terminal: Terminal) -> None:
    hotel = sent(terminal, HOTEL, "--new")["run_loop_id"]
    with chatting(terminal) as screen:
        hotel = sent(terminal, HOTEL, "--new")["run_loop_id"]
        screen.type("/new slowly\n")
        screen.wait_for("One, two,")
        screen.type(f"/route {BREAKFAST}\n")
        screen.wait_for(f"joined {hotel[:10]}")
        screen.wait_for("three.")
        screen.wait_for(f"You said: {BREAKFAST[:10]}")
        screen.wait_for("› ")
        assert loops(terminal) == {HOTEL: [HOTEL, BREAKFAST], "slowly": ["slowly"]}


def test_a_message_is_moved_while_its_answer_comes_and_goes_on_there(terminal: Terminal) -> None:
    with chatting(terminal) as screen:
        say(screen, HOTEL, f"You said: {HOTEL}")
        hotel = loop_of(terminal, HOTEL)
        screen.type("/new slowly\n")
        screen.wait_for("One, two,")
        screen.type(f"/move {hotel[:12]}\n")
        screen.wait_for("it was moved to another run loop, and goes on there")
        screen.wait_for("three.")
        screen.wait_for("› ")
        assert loops(terminal) == {HOTEL: [HOTEL, "slowly"]}


def test_what_cannot_be_mended_is_told_in_words(terminal: Terminal) -> None:
    done = terminal.run(
        "chat", stdin=f"/move\n/undo\n/new {HOTEL}\n/7\n/move no-such\n/undo\n/quit\n"
    )
    assert done.exit_code == 0
    for words in (
        "no message was sent in this chat",
        "nothing was moved in this chat",
        "no place number 7",
        "no run loop's id begins with 'no-such'",
    ):
        assert words in done.stderr


def test_send_list_and_show_mark_an_unsure_route_and_say_how_to_move_it(
    terminal: Terminal,
) -> None:
    with chatting(terminal):
        hotel = sent(terminal, HOTEL, "--new")["run_loop_id"]
        stderr = terminal.run("send", BREAKFAST).stderr
        assert "unsure, " in stderr
        assert f"rondo loops reroute {hotel[:10]} --new; --undo takes that back" in stderr
        line = next(
            each
            for each in terminal.run("loops", COLUMNS="140").stdout.splitlines()
            if each.startswith(hotel)
        )
        assert ", unsure" in line
        shown = terminal.run("loops", "show", hotel).stdout
        assert "it could be a new one" in shown
        moved = terminal.run("loops", "reroute", hotel, "--new")
        there = moved.stdout.split()[3]
        back = terminal.run("loops", "reroute", there, "--undo")
        assert f"moved it back to {hotel}" in back.stdout, back.stderr
        assert "moved back" in terminal.run("loops", COLUMNS="140").stdout
        assert "you took its move back" in terminal.run("loops", "show", hotel).stdout


def listed(terminal: Terminal) -> str:
    return terminal.run("loops", "list", "--status", "active", "--json").stdout


def loop_of(terminal: Terminal, goal: str) -> str:
    loops = json.loads(listed(terminal))
    return next(str(each["id"]) for each in loops if each["goal"] == goal)
