"""`rondo send`, against a real daemon process."""

from __future__ import annotations

import re
import time

import pytest

from tests.cli.house import sent
from tests.cli.support import Terminal

pytestmark = pytest.mark.slow


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
