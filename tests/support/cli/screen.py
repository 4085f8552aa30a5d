"""A command at a terminal of its own, with somebody who types."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import sys
import time

from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import ENVIRONMENT


class Screen:
    """A command at a terminal of its own."""

    def __init__(self, terminal: Terminal, *arguments: str, **variables: str) -> None:
        self._near, far = pty.openpty()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._read_up_to = 0
        self.shown = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", *arguments],
            stdin=far,
            stdout=far,
            stderr=far,
            start_new_session=True,
            env={
                **os.environ,
                **ENVIRONMENT,
                "RONDO_DATA_DIR": str(terminal.data_dir),
                "RONDO_SERVER__PORT": str(terminal.port),
                "TERM": "xterm",
                "LC_ALL": "C.UTF-8",
                **variables,
            },
            preexec_fn=_own_terminal,
        )
        os.close(far)

    def type(self, keys: str) -> None:
        os.write(self._near, keys.encode())

    def wait_for(self, words: str, *, seconds: float = 30) -> None:
        """Read until these words are shown, after those that were waited for before."""
        end = time.monotonic() + seconds
        while words not in self.shown[self._read_up_to :]:
            ready, _, _ = select.select([self._near], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{words!r} was never shown; only: {self.shown!r}"
            try:
                self.shown += self._decode(os.read(self._near, 4096))
            except OSError:  # the other side is closed
                raise AssertionError(f"{words!r} was never shown; only: {self.shown!r}") from None
        self._read_up_to = self.shown.index(words, self._read_up_to) + len(words)

    def stays_still(self, *, seconds: float) -> None:
        """Check that nothing more is shown for a while."""
        ready, _, _ = select.select([self._near], [], [], seconds)
        assert not ready, f"this was shown: {os.read(self._near, 4096)!r}"

    def leave(self) -> int:
        code = self._process.wait(20)
        os.close(self._near)
        return code


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
