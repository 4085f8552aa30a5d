"""Writing an answer: as it streams on a terminal, whole messages only through a pipe.

What leaves through a pipe cannot be taken back. So words that may still be replaced, by a retry or
by a better answer, are kept until it is clear that they stand. A terminal that can move its cursor
is shown Markdown; a pipe and a dumb terminal are given the words as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.terminal.markdown_stream import MarkdownStream

if TYPE_CHECKING:
    from rich.console import Console


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
