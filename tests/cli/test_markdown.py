"""Markdown on the screen: drawn as it streams, with none of its words lost or shown twice."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from service.cli.daemon.daemon_process import DaemonProcess
from service.cli.terminal.answer_writer import AnswerWriter, complete_blocks, open_fence
from tests.support.cli.commands import on_screen
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import daemon_with, terminal_of

ANSWER = """\
# A plan for 里斯本

Take **two** days,
one line each, and <b>no</b> more than `3 * 4`:

1. Belém
   - tram 28
2. Alfama

```python
print(1 * 2)
```

See [the map](https://maps.example/l). 就这样。
"""
WORDS = (
    "A plan for 里斯本",
    "Take two days,",
    "<b>no</b>",
    "3 * 4",
    "tram 28",
    "print(1 * 2)",
    "https://maps.example/l",
    "就这样。",
)


def console(*, terminal: bool = True, height: int = 40) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=70,
        height=height,
        color_system=None,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={"TERM": "xterm"},
    )


def left_on(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return on_screen(out.file.getvalue()).strip()


def shown(answer: str, pieces: Iterator[str], *, height: int = 40) -> str:
    out = console(height=height)
    writer = AnswerWriter(out)
    for piece in pieces:
        writer.stream(piece)
    writer.complete(answer, final=True)
    return left_on(out)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 60), height=st.integers(3, 40))
def test_each_word_is_on_the_screen_once_however_it_streamed(size: int, height: int) -> None:
    pieces = (ANSWER[at : at + size] for at in range(0, len(ANSWER), size))
    screen = shown(ANSWER, pieces, height=height)
    for words in WORDS:
        assert screen.count(words) == 1, (words, screen)
    assert "**" not in screen
    assert "```" not in screen


def test_lines_stay_lines() -> None:
    assert shown("One,\ntwo,\n三。", iter(())) == "One,\ntwo,\n三。"


def test_a_code_block_that_is_interrupted_goes_on_as_code() -> None:
    out = console()
    writer = AnswerWriter(out)
    writer.stream("```\n* one\n")
    writer.end_line()
    out.print("(something else)")
    writer.stream("* two\n```\n")
    writer.complete("```\n* one\n* two\n```\n", final=True)
    screen = left_on(out)
    assert [line.strip() for line in screen.splitlines() if line.strip()] == [
        "* one",
        "(something else)",
        "* two",
    ]


def test_an_answer_that_was_stopped_is_not_shown_again_for_a_blank_at_its_end() -> None:
    out = console()
    writer = AnswerWriter(out)
    writer.stream("\nIt goes on ")
    assert writer.is_continued("It goes on")
    writer.complete("It goes on", final=False)
    assert left_on(out) == "It goes on"


def test_who_comes_in_the_middle_sees_the_beginning_once() -> None:
    out = console()
    writer = AnswerWriter(out)
    writer.stream("One, two,", whole=True)
    writer.stream("One, two, three", whole=True)
    writer.stream(", four.")
    writer.complete("One, two, three, four.", final=True)
    assert left_on(out) == "One, two, three, four."


def test_a_pipe_and_a_dumb_terminal_are_given_the_words_as_they_are() -> None:
    pipe = console(terminal=False)
    writer = AnswerWriter(pipe)
    writer.stream("**a** ")
    writer.complete("**a** b", final=True)
    writer.settle()
    assert isinstance(pipe.file, io.StringIO)
    assert pipe.file.getvalue() == "**a** b\n"


@settings(deadline=None)
@given(st.text(st.sampled_from("a*-#`>1. \n|~"), max_size=60))
def test_blocks_are_taken_from_the_beginning_whatever_is_written(text: str) -> None:
    assert text.startswith(complete_blocks(text).rstrip("\n")) or "\r" in text
    assert open_fence(text) == "" or "```" in text or "~~~" in text


# --- against a real daemon

SCRIPT = """\
== when back up
text/4: Soon. It is **about** to run:
call: run_script {"name": "backup.sh", "arguments": []}
--
text/2: It was refused,
pause: .3
text/2: so I go on without.
== when endless
text/4: It goes on and
pause: 60
text: on
== default
text/4: You said: **{message}**
"""


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with daemon_with(tmp_path_factory.mktemp("daemon"), SCRIPT) as running:
        yield running


@pytest.mark.slow
def test_an_answer_after_a_refusal_is_not_printed_twice(talking: DaemonProcess) -> None:
    screen = Screen(terminal_of(talking), "send", "back up")
    screen.wait_for("Run it? [y/n]")
    screen.type("n\n")
    screen.wait_for("Why not?")
    screen.type("\n")
    screen.wait_for("go on without.")
    assert screen.leave() == 0
    assert "not complete" not in screen.shown
    assert "**" not in screen.shown


@pytest.mark.slow
def test_an_answer_that_was_stopped_is_not_printed_twice(talking: DaemonProcess) -> None:
    screen = Screen(terminal_of(talking), "chat")
    screen.wait_for("› ")
    screen.type("endless\n")
    screen.wait_for("goes on and")
    screen.type("\x03")
    screen.wait_for("cancelled")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0
    assert "not complete" not in screen.shown


@pytest.mark.slow
def test_pasted_lines_are_one_message(talking: DaemonProcess, tmp_path: Path) -> None:
    screen = Screen(terminal_of(talking), "chat")
    screen.wait_for("› ")
    screen.type("\x1b[200~first line\n第二行\n\x1b[201~\n")
    screen.wait_for("You said: ")
    screen.wait_for("第二行")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0
    assert screen.shown.count("new run loop") == 1
