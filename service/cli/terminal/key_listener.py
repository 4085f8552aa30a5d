"""Noticing that a person types, while something else comes in.

Keys are not echoed meanwhile, so that nothing that is written gets mixed up with them. They wait in
the terminal until somebody reads them: whoever is told of the first one opens a line, and readline
shows in it what was typed so far. What comes in meanwhile is kept, and shown afterwards.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Generic, Self, TypeVar

T = TypeVar("T")


def can_listen() -> bool:
    """Whether a person sits at this terminal, and keys can be noticed one by one."""
    try:
        import termios  # noqa: F401  not on every platform
    except ImportError:
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


def listening(
    items: Generator[T],
    *,
    read_line: Callable[[], str],
    on_line: Callable[[str, bool], Generator[T] | None],
    is_last: Callable[[T], bool],
) -> Generator[T]:
    """The same items, while lines are taken from the keyboard.

    The items are pulled by a thread of their own. What they raise is raised here.

    Args:
        items: what comes in; closed by the thread.
        read_line: called when a key was pressed; reads the line that begins with it. What it
            raises is raised here.
        on_line: given each line, after the items that came meanwhile; and whether they have ended.
            What it gives comes in beside the items, until these end; it MUST NOT raise.
        is_last: whether no more items are wanted after this one.
    """
    coming = _Coming(items, is_last)
    lines: list[str] = []
    try:
        with _Keys() as keys:
            while True:
                if not lines and coming.is_behind_a_key():
                    with keys.echoed():
                        lines.append(read_line())
                for item in coming.take():
                    if isinstance(item, _End):
                        if item.error is not None:
                            raise item.error
                        return
                    yield item
                while lines:
                    more = on_line(lines.pop(0), False)
                    if more is not None:
                        coming.pull_beside(more)
    finally:
        coming.leave()
        for line in lines:
            on_line(line, True)


def forget_keys() -> None:
    """Let nothing that was typed before be taken for what is typed from now on."""
    if can_listen():
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


class _Keys:
    """Within ``with``, keys are not echoed, and come one by one; Ctrl-C is an interrupt still."""

    def __init__(self) -> None:
        import termios

        self._terminal = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._terminal)

    def __enter__(self) -> Self:
        self._quiet()
        return self

    def __exit__(self, *error: object) -> None:
        import termios

        termios.tcsetattr(self._terminal, termios.TCSANOW, self._before)

    @contextmanager
    def echoed(self) -> Iterator[None]:
        """Within it a line can be read."""
        import termios

        # readline reads key by key itself: in between, the terminal must not take a Ctrl-D or a
        # backspace for itself. But readline shows what is typed only where an echo is wanted.
        self._set(off=termios.ICANON if "readline" in sys.modules else 0)
        try:
            yield
        finally:
            self._quiet()

    def _quiet(self) -> None:
        import termios

        self._set(off=termios.ICANON | termios.ECHO)

    def _set(self, *, off: int) -> None:
        import termios

        mode = [*self._before[:6], [*self._before[6]]]
        mode[3] &= ~off
        if off:
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._terminal, termios.TCSANOW, mode)


class _End:
    """There are no more items."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Coming(Generic[T]):
    """Items that a thread pulls; `select` can wait for them."""

    def __init__(self, items: Generator[T], is_last: Callable[[T], bool]) -> None:
        self._items = items
        self._is_last = is_last
        self._kept: list[T | _End] = []
        self._left = False
        self._changing = threading.Lock()
        self._bell, self._rope = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._rope, False)
        threading.Thread(target=self._pull, name="rondo-events", daemon=True).start()

    def is_behind_a_key(self) -> bool:
        """Wait until an item comes or a key is pressed; whether one was."""
        ready, _, _ = select.select([sys.stdin, self._bell], [], [])
        return sys.stdin in ready

    def take(self) -> list[T | _End]:
        """What has come since the last time."""
        with self._changing:
            with suppress(BlockingIOError):
                os.read(self._bell, 65536)
            kept, self._kept = self._kept, []
            return kept

    def pull_beside(self, more: Generator[T]) -> None:
        """Take these items, too; their end ends nothing."""

        def pull() -> None:
            with closing(more):
                for item in more:
                    if not self._keep(item):
                        break

        threading.Thread(target=pull, name="rondo-beside", daemon=True).start()

    def leave(self) -> None:
        """Take no more; the thread ends with the next item."""
        with self._changing:
            self._left = True
            os.close(self._bell)
            os.close(self._rope)

    def _pull(self) -> None:
        try:
            with closing(self._items):
                for item in self._items:
                    if not self._keep(item) or self._is_last(item):
                        break
        except BaseException as error:  # noqa: BLE001  raised where the items are taken
            self._keep(_End(error))
        else:
            self._keep(_End(None))

    def _keep(self, item: T | _End) -> bool:
        with self._changing:
            if self._left:
                return False
            self._kept.append(item)
            with suppress(BlockingIOError):  # it rings loud enough
                os.write(self._rope, b".")
            return True
