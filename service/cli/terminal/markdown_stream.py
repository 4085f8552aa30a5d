"""Markdown that is drawn while it streams.

A block (a paragraph, a list, a code block) that is complete is printed for good. The last one may
still grow: it is drawn in place, and drawn again as words come. Of one that is taller than the
terminal the end is shown until it is complete.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.markdown import Markdown

_REFRESHED_PER_SECOND = 12
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)


class MarkdownStream:
    """Draws one message after another on a terminal that can move its cursor."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._pending = ""
        self._is_begun = False
        """Whether a block of this message was printed."""

    def write(self, text: str) -> None:
        """Draw more of the message."""
        self._pending += text
        complete = complete_blocks(self._pending)
        if complete:
            self._print(complete)
            self._pending = self._pending[len(complete) :]
        if self._pending.strip():
            self._draw()

    def interrupt(self) -> None:
        """Print what there is, so that something else can be written; the message goes on after."""
        fence = open_fence(self._pending)
        self._print(self._pending)
        self._pending, self._is_begun = fence, False

    def end(self) -> None:
        """Print the rest: the message is complete, or nothing more of it comes."""
        self._print(self._pending)
        self._pending, self._is_begun = "", False

    def _draw(self) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(
                console=self._console,
                transient=True,
                refresh_per_second=_REFRESHED_PER_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(_End(markdown(self._pending)))

    def _print(self, text: str) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not text.strip() or text == open_fence(text):
            return
        if self._is_begun:
            self._console.print()
        self._is_begun = True
        self._console.print(markdown(text))


class _End:
    """The last lines of something, as many as the terminal has."""

    def __init__(self, whole: Markdown) -> None:
        self._whole = whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        lines = console.render_lines(self._whole, options, pad=False)
        for line in lines[-max(console.height - 2, 1) :]:
            yield from line
            yield Segment.line()


def markdown(text: str) -> Markdown:
    """Text as Markdown that loses none of its words.

    A line break stays one, as people expect of a chat; HTML is shown as it is written; a link shows
    where it leads.
    """
    from rich.markdown import Markdown

    drawn = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    drawn.parsed = _parser().parse(text)
    for token in drawn.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return drawn


def complete_blocks(text: str) -> str:
    r"""The beginning of a text up to its last block: what cannot change any more as it grows.

    >>> complete_blocks("One.\n\nTwo")
    'One.\n\n'
    >>> complete_blocks("- one\n\n- two")
    ''
    """
    starts = [token.map[0] for token in _parser().parse(text) if token.level == 0 and token.map]
    if not starts or not max(starts):
        return ""
    return "".join(text.splitlines(keepends=True)[: max(starts)])


def open_fence(text: str) -> str:
    r"""The line that opens the code block in which a text ends; empty where it ends in none.

    >>> open_fence("Look:\n```python\nprint(1)\n")
    '```python\n'
    >>> open_fence("```\nx\n```\nDone")
    ''
    """
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            opened = None
    return f"{opened[0].strip()}\n" if opened else ""


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # rich's own parser takes HTML for markup, and shows nothing of it.
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
