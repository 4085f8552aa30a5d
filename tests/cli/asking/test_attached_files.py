"""A file of this machine is sent with a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.asking_daemon import newest
from tests.support.cli.commands import Terminal

pytestmark = pytest.mark.slow


def test_a_file_is_sent_with_words_or_without(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "年报.txt"
    file.write_text("tea 4.50", "utf-8")
    for words, goal in (("hello", "hello (a file: 年报.txt)"), ("", "(a file: 年报.txt)")):
        sent = terminal.run("send", words, "--new", "--file", str(file))
        assert sent.exit_code == 0, sent.output
        assert newest(terminal)["goal"] == goal
    kept = (terminal.data_dir / "sent-files").iterdir()
    assert {each.read_bytes().partition(b"\n")[2] for each in kept} == {b"tea 4.50"}


def test_what_cannot_be_sent_is_told(terminal: Terminal, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as large:
        large.truncate(10_000_001)
    for path, words in (
        ("none", "No such file"),
        (".", "it is no file"),
        ("large", "more than 10,000,000 bytes"),
    ):
        refused = terminal.run("send", "hello", "--file", str(tmp_path / path))
        assert refused.exit_code == 1
        assert words in refused.stderr


def test_in_a_chat_a_file_is_sent_too(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "my report.txt").write_text("tea")
    lines = f'/file "{tmp_path}/my report.txt" hello\n/file "oops\n/quit\n'
    chat = terminal.run("chat", stdin=lines)
    assert "You said: hello" in chat.stdout
    assert newest(terminal)["goal"] == "hello (a file: my report.txt)"
    assert "quotation mark" in chat.stderr
