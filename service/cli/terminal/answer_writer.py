"""Writing an answer: as it streams on a terminal, whole messages only through a pipe.

What leaves through a pipe cannot be taken back. So words that may still be replaced, by a retry or
by a better answer, are kept until it is clear that they stand. A terminal that can move its cursor
is shown Markdown; a pipe and a dumb terminal are given the words as they are.

A block of Markdown (a paragraph, a list, a code block) that is complete is printed for good. The
last one may still grow: it is drawn in place, and drawn again as words come. Of one that is taller
than the terminal the end is shown until it is complete.
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


class AnswerWriter:
    """Writes the words of one run loop, a message after another."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._streams = out.is_terminal
        draws = out.is_terminal and not out.is_dumb_terminal
        self._drawn = MarkdownStream(out) if draws else None
        self._partial = ""
        self._in_line = False
        self._last = ""
        self._held = ""
        self._looking_over = False
        self._unended = False
        """Whether the last message may go on right behind its last word."""

    @property
    def is_mid_line(self) -> bool:
        """Whether words were written, and more may come right behind them."""
        return self.has_partial or (self._streams and self._unended)

    @property
    def has_partial(self) -> bool:
        """Whether a part of a message was written, and the rest is still to come."""
        return bool(self._partial)

    def streams(self, text: str) -> bool:
        """Whether a piece that came is to be shown now."""
        return self._streams and not self._looking_over and bool(text)

    def stream(self, text: str, *, whole: bool = False) -> None:
        """Write a piece; see `standard_streams`.

        Args:
            text: the piece.
            whole: it is all that has streamed of the message so far, for who came in the middle.
        """
        if whole:
            text = text.removeprefix(self._partial)
        self._partial += text
        self._write(text)

    def is_continued(self, text: str) -> bool:
        """Whether a whole message begins with the piece of it that was written.

        White space at its ends does not count: an answer that was stopped is kept without it.
        """
        return text.strip().startswith(self._partial.strip())

    def complete(self, text: str, *, final: bool, goes_on: bool = False) -> None:
        """Write what of a whole message has not streamed: after a broken connection, all.

        Args:
            text: the message.
            final: whether it is an answer, which may be bettered; and not words beside tool calls.
            goes_on: whether the next message may be its next part; until that, or `settle`, its
                line is not ended.
        """
        if text.startswith(self._partial):
            rest = text[len(self._partial) :]
        elif self.is_continued(text):
            rest = text.strip()[len(self._partial.strip()) :]
        else:
            rest = text
        self._partial = ""
        if not text.strip():
            self.end_line()
            return
        if final:
            self._last = self._last + text if self._unended else text
            self._looking_over = False
        was_unended, self._unended = self._unended, goes_on
        if self._drawn is not None:
            self._drawn.write(rest)
            if not goes_on:
                self._drawn.end()
            return
        if not goes_on and not rest.endswith("\n") and (rest or self._in_line):
            rest += "\n"
        if not self._streams and (final or was_unended):
            self._held = self._held + rest if was_unended else rest
        else:
            self._write(rest)

    def look_over(self) -> None:
        """The next answer may better the last one: it is not shown before it is whole."""
        self._looking_over = True

    def is_bettered(self, text: str) -> bool:
        """Whether an answer is another than the one that was looked over."""
        return not self._looking_over or text.strip() != self._last.strip()

    def keep(self) -> None:
        """The answer that was looked over stands as it was."""
        self._looking_over = False

    def settle(self) -> None:
        """What was said last stands: let it out, if it was held."""
        if self._unended:
            self._unended = False
            if self._held and not self._held.endswith("\n"):
                self._held += "\n"
            if self._drawn is not None:
                self._drawn.end()
            else:
                self.end_line()
        held, self._held = self._held, ""
        self._write(held)

    def drop(self) -> None:
        """What has streamed does not count."""
        self.end_line()
        self._partial = ""
        if self._drawn is not None:
            self._drawn.end()

    def end_line(self) -> None:
        """End the line that was begun; more of the message may come after it."""
        if self._drawn is not None:
            self._drawn.interrupt()
        elif self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._drawn is not None:
            self._drawn.write(text)
            return
        self._out.file.write(text)
        self._out.file.flush()
        self._in_line = not text.endswith("\n")
