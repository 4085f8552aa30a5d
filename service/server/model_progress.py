"""How far the weights of the embedded model have come, in the terminal of the daemon.

On a terminal it is one line that changes, below what is logged; elsewhere a line of the log for
every tenth.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import deque
from typing import TextIO

from service.llm.protocol import LLMStatus
from service.models.fetch import PullProgress

log = logging.getLogger(__name__)

_ERASE = "\r\x1b[2K"
_PACE_SECONDS = 15.0


class ModelProgress:
    """Shows the progress on a stream, which the log must write to by way of `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self._out = stream
        self._lock = threading.RLock()
        self._line = ""
        self._changes = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._pace = Pace()
        self._told: tuple[str, int] | None = None
        self._fetches = False

    def update(self, status: LLMStatus) -> None:
        """Show how it stands now."""
        progress = status.progress
        if progress is None:
            self.clear()
            if self._fetches and status.ready:
                log.info("the language model is here and works: %s", status.detail)
            self._fetches = self._fetches and not status.ready
            return
        self._fetches = True
        if self._changes:
            self._show(progress.in_words() + self._pace.in_words(progress, time.monotonic()))
        else:
            step = (progress.stage, progress.percent // 10)
            if step != self._told and not (progress.stage == "verifying" and step[1]):
                self._told = step
                log.info("%s", progress.in_words())

    def write(self, text: str) -> int:
        """Write a part of the log in the place of the line, which comes back with the next news."""
        with self._lock:
            self.clear()
            return self._out.write(text)

    def flush(self) -> None:
        """Have everything shown."""
        self._out.flush()

    def clear(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._line:
                self._line = ""
                self._out.write(_ERASE)
                self._out.flush()

    def _show(self, words: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        line = words if len(words) <= width else f"{words[: width - 1]}…"
        with self._lock:
            if line != self._line:
                self._line = line
                self._out.write(f"{_ERASE}{line}")
                self._out.flush()


class Pace:
    """How fast it went lately, and how long it will take at that."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, PullProgress]] = deque()

    def in_words(self, progress: PullProgress, now: float) -> str:
        """Speed and remaining time, with a comma before them; empty where nothing is known of them.

        >>> pace = Pace()
        >>> def at(done): return PullProgress("m", "downloading", done, 100_000_000, "hub.example")
        >>> pace.in_words(at(10_000_000), 1.0)
        ''
        >>> pace.in_words(at(30_000_000), 11.0)
        ', 2.0 MB/s, 35 s left'
        """
        if self._seen and _kind(self._seen[-1][1]) != _kind(progress):
            self._seen.clear()
        self._seen.append((now, progress))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _PACE_SECONDS:
            self._seen.popleft()
        since, first = self._seen[0]
        gained, passed = progress.done_bytes - first.done_bytes, now - since
        if gained <= 0 or passed < 1:
            return ""
        pace = gained / passed
        left = (progress.total_bytes - progress.done_bytes) / pace
        words = f"{left:.0f} s" if left < 90 else f"{left / 60:.0f} min"
        return f", {pace / 1e6:.1f} MB/s, {words} left"


def _kind(progress: PullProgress) -> tuple[str, str]:
    return progress.stage, progress.source
