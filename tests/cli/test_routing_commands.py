"""At a terminal: being asked where a message belongs, several requests in one, and calibrating."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.tuning import CALIBRATION_LEAST_CORRECTIONS
from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import daemon_with, sent, terminal_of

pytestmark = pytest.mark.slow

SCRIPT = "== default\ntext/4: You said: {message}\n"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder: Path = tmp_path_factory.mktemp("routing")
    asking = {
        "RONDO_AGENT__AUTO_CLASSIFY": "true",
        "RONDO_ROUTER__ASK_BELOW": "1",
        "RONDO_ROUTER__USE_LLM": "false",
        "RONDO_ROUTER__SPLIT_MATTERS": "true",
    }
    with daemon_with(folder, SCRIPT, **asking) as running:
        terminal = terminal_of(running)
        sent(terminal, "规划去里斯本的旅行")
        yield terminal


def test_a_person_at_a_terminal_chooses_and_gets_the_answer_there(terminal: Terminal) -> None:
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    screen.type("what does it cost?\n")
    screen.wait_for("What is this about?")
    screen.wait_for("规划去里斯本的旅行")
    screen.wait_for("Which one? (number)")
    screen.type("1\n")
    screen.wait_for("You said: what does it cost?")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0


def test_without_a_terminal_it_says_how_to_answer(terminal: Terminal) -> None:
    result = terminal.run("send", "and the hotel?")
    assert result.exit_code == 3
    assert "What is this about?" in result.stderr
    assert "--choose NUMBER" in result.stderr
    loop = json.loads(terminal.run("loops", "list", "--json").stdout)[0]["id"]
    number = terminal.run("loops", "show", loop, "--json")
    assert json.loads(number.stdout)["input_required"]["about"] == "route"
    assert "you are asked" in terminal.run("loops", "list", COLUMNS="140").stdout
    assert "you are asked" in terminal.run("loops", "show", loop).stdout
    answered = terminal.run("loops", "answer", loop, "--choose", "something new")
    assert answered.exit_code == 0, answered.stderr
    assert loop in answered.stderr
    assert "as you said" in terminal.run("loops", "list", COLUMNS="140").stdout


def test_a_message_that_an_answer_brings_to_a_loop_that_waits_is_heard_there(
    tmp_path: Path,
) -> None:
    asks = """== when Launch
call: choose {"question": "Which rocket?", "options": ["red", "blue"]}
== default
text: You said: {message}
"""
    asking = {
        "RONDO_AGENT__AUTO_CLASSIFY": "true",
        "RONDO_ROUTER__ASK_BELOW": "1",
        "RONDO_ROUTER__USE_LLM": "false",
    }
    with daemon_with(tmp_path, asks, **asking) as running:
        terminal = terminal_of(running)
        first = terminal.run("send", "Launch it")
        assert "Which rocket?" in first.stderr
        waiting = json.loads(terminal.run("loops", "list", "--json").stdout)[0]["id"]
        assert terminal.run("send", "and when?").exit_code == 3
        unclear = json.loads(terminal.run("loops", "list", "--json").stdout)[0]["id"]
        answered = terminal.run("loops", "answer", unclear, "--choose", "Launch it")
        assert answered.exit_code == 0, answered.stderr
        assert f"{waiting} goes on" in answered.stderr
        # A question about the choice is no choice: the model has it as what the person said.
        end = time.monotonic() + 30
        while "and when?" not in terminal.run("loops", "show", waiting).stdout:
            assert time.monotonic() < end
            time.sleep(0.1)
        message = json.loads(terminal.run("loops", "show", waiting, "--json").stdout)
        ids = [each["message_id"] for each in message["routes"]]
        shown = terminal.run("loops", "show", waiting).stdout
        assert len(ids) == 2
        assert all(f"message {each}" in shown for each in ids)


def test_where_the_other_topics_went_is_told(terminal: Terminal) -> None:
    listed = "1. What is a lemur?\n2. How do I bake bread?"
    result = terminal.run("send", listed)
    assert "also: “2. How do I bake bread?” · in run loop " in result.stderr
    answer = json.loads(terminal.run("send", listed, "--json").stdout)
    assert [part["goal"] for part in answer["parts"]] == ["2. How do I bake bread?"]


def test_calibrating_says_what_is_missing(terminal: Terminal) -> None:
    result = terminal.run("loops", "calibrate")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("unchanged: ")
    assert f"{CALIBRATION_LEAST_CORRECTIONS} are needed" in result.stdout
    report = json.loads(terminal.run("loops", "calibrate", "--reset", "--json").stdout)
    assert report["in_use"]["fitted_at"] is None


def test_a_message_sent_as_new_opens_a_run_loop_and_asks_nobody_where(terminal: Terminal) -> None:
    result = terminal.run("send", "--new", "去里斯本的旅行要多少钱？")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "You said: 去里斯本的旅行要多少钱？\n"
    assert "the sender said that it is new" in result.stderr
    refused = terminal.run("send", "--new", "--loop", "x", "hello")
    assert refused.exit_code == 2
    assert "either --loop ID or --new" in refused.stderr
