"""The line that says what is being waited for, while nothing else can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.cli.terminal.output import aside, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_NARROWEST = 16  # cells


def waiting(words: str) -> Status:
    """That something takes a while, in one line; for a ``with``."""
    line = one_line(f"{words} …", max(aside().width - 4, _NARROWEST))
    return aside().status(line, spinner="dots", spinner_style="dim")


class WaitingLine:
    """A turning wheel and some words, on a terminal only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._words = ""

    @property
    def is_visible(self) -> bool:
        """Whether it is ever shown."""
        return self._console.is_terminal

    def show(self, words: str) -> None:
        """Show these words, until `hide`."""
        if not self.is_visible:
            return
        from rich.text import Text

        self._words = words
        shown = Text(words, style="dim")
        if self._status is None:
            self._status = self._console.status(shown, spinner="dots", spinner_style="dim")
            self._status.start()
        else:
            self._status.update(shown)

    def explain(self, words: str) -> None:
        """Put these words in the place of those that are shown, if any. For any thread."""
        from rich.text import Text

        status = self._status  # another thread may take it away: then this changes nothing seen
        if status is not None:
            status.update(Text(words, style="dim"))

    def hide(self) -> None:
        """Show nothing."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Within it nothing is shown; after it, what was."""
        was_shown = self._status is not None
        self.hide()
        yield
        if was_shown:
            self.show(self._words)
