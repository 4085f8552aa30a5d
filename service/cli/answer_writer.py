"""Writing an answer: as it streams on a terminal, whole messages only through a pipe.

What leaves through a pipe cannot be taken back. So words that may still be replaced, by a retry or
by a better answer, are kept until it is clear that they stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


class AnswerWriter:
    """Writes the words of one run loop, a message after another."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._streams = out.is_terminal
        self._partial = ""
        self._in_line = False
        self._last = ""
        self._held = ""
        self._looking_over = False

    @property
    def has_partial(self) -> bool:
        """Whether a part of a message was written, and the rest is still to come."""
        return bool(self._partial)

    def streams(self, text: str) -> bool:
        """Whether a piece that came is to be shown now."""
        return self._streams and not self._looking_over and bool(text)

    def stream(self, text: str) -> None:
        """Write a piece; see `streams`."""
        self._partial += text
        self._write(text)

    def is_continued(self, text: str) -> bool:
        """Whether a whole message begins with the piece of it that was written."""
        return text.startswith(self._partial)

    def complete(self, text: str, *, final: bool) -> None:
        """Write what of a whole message has not streamed: after a broken connection, all.

        Args:
            text: the message.
            final: whether it is an answer, which may be bettered; and not words beside tool calls.
        """
        rest = text[len(self._partial) :] if self.is_continued(text) else text
        self._partial = ""
        if not text.strip():
            self.end_line()
            return
        if not rest.endswith("\n") and (rest or self._in_line):
            rest += "\n"
        if final:
            self._last, self._looking_over = text, False
        if final and not self._streams:
            self._held = rest
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
        held, self._held = self._held, ""
        self._write(held)

    def drop(self) -> None:
        """What has streamed does not count."""
        self.end_line()
        self._partial = ""

    def end_line(self) -> None:
        """End the line that was begun; more of the message may come after it."""
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.file.write(text)
            self._out.file.flush()
            self._in_line = not text.endswith("\n")
