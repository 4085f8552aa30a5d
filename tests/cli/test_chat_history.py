"""What is typed into `rondo chat` can be had back with the arrow keys, and is in no file of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen

WORD = "zwibbelquast"

pytestmark = pytest.mark.slow


def test_lines_that_were_typed_are_kept_no_longer_than_the_chat(
    terminal: Terminal, tmp_path: Path
) -> None:
    places = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    screen = Screen(terminal, "chat", **{name: str(tmp_path) for name in places})
    screen.wait_for("Ctrl-D leaves")
    screen.type(f"Where is the {WORD}?\n")
    screen.wait_for(f"You said: Where is the {WORD}?")
    screen.wait_for("› ")
    screen.type("\x1b[A")  # up
    screen.wait_for(f"Where is the {WORD}?")
    screen.type("\x05\x15\x04")  # to its end, all of it away, and leave
    assert screen.leave() == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if WORD.encode() in path.read_bytes()] == []
