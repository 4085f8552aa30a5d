"""`rondo send`, against a real daemon process."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


def test_an_answer_that_goes_on_is_printed_as_one(terminal: Terminal) -> None:
    result = terminal.run("send", "tell it all")
    assert (result.exit_code, result.stdout) == (0, "It begins, goes on, and ends.\n")
    assert "cut off" not in result.stderr


def test_an_answer_that_stays_cut_off_says_so_beside_it(terminal: Terminal) -> None:
    result = terminal.run("send", "a never ending story")
    assert (result.exit_code, result.stdout) == (0, "One, two, three, four,\n")
    assert "The answer was cut off at the model's limit of tokens." in result.stderr


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
    assert "--all" in result.stderr
    answering = re.search(r"rondo (loops answer \S+ --yes)", result.stderr)
    assert answering is not None
    assert terminal.run(*answering[1].split()).exit_code == 0


def test_what_is_said_to_a_loop_that_waits_for_a_yes_is_answered_and_is_no_yes(
    terminal: Terminal,
) -> None:
    loop = sent(terminal, "back up everything")["run_loop_id"]
    said = terminal.run("send", "yes, and quickly", "--loop", loop)
    assert (said.exit_code, said.stdout) == (0, "You said: yes, and quickly\n")
    late = terminal.run("loops", "answer", loop, "--yes")
    assert late.exit_code == 1
    assert "asks nothing now" in late.stderr
    shown = terminal.run("loops", "show", loop).stdout
    assert "the person was asked to allow this, and said something else" in shown
    assert "backed up" not in shown


def test_a_script_that_pipes_words_into_a_chat_says_yes_to_nothing(terminal: Terminal) -> None:
    loop = sent(terminal, "back up everything")["run_loop_id"]
    piped = terminal.run("chat", "--loop", loop, stdin="yes\n/quit\n")
    assert piped.exit_code == 0
    assert "You said: yes" in piped.stdout
    assert "backed up" not in terminal.run("loops", "show", loop).stdout


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


def test_an_image_goes_with_the_words_and_a_file_that_is_none_is_refused(
    terminal: Terminal, tmp_path: Path
) -> None:
    photo = tmp_path / "my photo.dat"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    answer = sent(terminal, "What is this?", "--image", str(photo), "--image", str(photo))
    assert answer["response"] == "You said: What is this?"
    shown = terminal.run("loops", "show", answer["run_loop_id"])
    assert "What is this? (an image) (an image)" in shown.stdout
    assert sent(terminal, "", "--image", str(photo))["outcome"] == "answered"

    (tmp_path / "notes.png").write_text("no image at all")
    refused = terminal.run("send", "Look", "--image", str(tmp_path / "notes.png"))
    assert refused.exit_code == 1
    assert "notes.png is no PNG" in refused.stderr
    assert terminal.run("send").exit_code == 2


def test_an_image_can_be_shown_in_the_chat(terminal: Terminal, tmp_path: Path) -> None:
    photo = tmp_path / "my photo.png"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    escaped = str(photo).replace(" ", "\\ ")
    lines = f'/image "{photo}" What\'s this?\n/image {escaped} 这是什么\n/image "oops\n/quit\n'
    chat = terminal.run("chat", stdin=lines)
    assert "You said: What's this?" in chat.stdout
    assert "You said: 这是什么" in chat.stdout
    assert "quotation mark" in chat.stderr
