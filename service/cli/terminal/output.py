"""Writing to the terminal: answers on standard output, everything about them on standard error.

So `rondo send … | …` passes on the answer alone. Words that come from models, tools and people are
data: control characters that could drive the terminal are taken out before they are shown.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from typing import TYPE_CHECKING

from pydantic import JsonValue

if TYPE_CHECKING:
    from rich.console import Console

# All control characters but tab and line feed, and the marks that reorder what is read.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@cache
def out() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


@cache
def aside() -> Console:
    """Standard error, for what is said about an answer."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def print_json(value: JsonValue) -> None:
    """One JSON document on standard output, in words as they are (no ``\\u`` for Chinese)."""
    print(_json(value, indent=2))


def print_json_line(value: JsonValue) -> None:
    """One line of JSON Lines, at once."""
    print(_json(value), flush=True)


def _json(value: JsonValue, *, indent: int | None = None) -> str:
    words = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        words.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # JSON has its own way to write what this encoding lacks
        return json.dumps(value, indent=indent)
    return words


def plain(text: str) -> str:
    r"""Words without what could drive a terminal.

    >>> plain("red\x1b[31m\r\n")
    'red[31m\n'
    """
    return _CONTROLS.sub("", text)


def visible(text: str) -> str:
    r"""Words with what could drive a terminal written out: for what a person must judge.

    >>> visible("rm \u202etxt.exe")
    'rm \\u202etxt.exe'
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str, width: int) -> str:
    """Words as one line of at most `width` terminal cells; Chinese characters take two.

    >>> one_line("plan  the\\nweek", 20)
    'plan the week'
    >>> one_line("安排一次旅行", 7)
    '安排一…'
    """
    from rich.cells import cell_len, set_cell_size

    line = " ".join(plain(text).split())
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"


def wrapped(text: str, width: int) -> list[str]:
    """Words as lines of at most `width` terminal cells, broken between words where there are any.

    >>> wrapped("plan the week", 9)
    ['plan the', 'week']
    """
    from rich.console import Console
    from rich.text import Text

    lines = Text(" ".join(plain(text).split())).wrap(Console(width=width), width)
    return [line.plain.rstrip() for line in lines]


def short_id(run_loop_id: str) -> str:
    """Enough of a run loop's id to tell it from others, and to name it in a command.

    Ids of our own begin with the time: ten characters tell milliseconds apart. Others, that were
    imported, are shown whole.

    >>> short_id("01jd3v6k2m9x4q8w"), short_id("trip-to-lisbon")
    ('01jd3v6k2m', 'trip-to-lisbon')
    """
    ours = len(run_loop_id) == 16 and run_loop_id.isalnum()
    return run_loop_id[:10] if ours else plain(run_loop_id)
