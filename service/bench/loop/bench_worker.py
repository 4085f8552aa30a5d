"""One run of a benchmark, in a process of its own: warm up, run, tell all as JSON.

The same frame serves Rondo and its peers, so that all are measured alike. It runs by whatever
Python has the library that is measured: only the standard library is imported here.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict

WARM_UP_STEPS = 50

Loop = Callable[[int, Path, Callable[[], None]], Coroutine[Any, Any, None]]
"""Runs one loop of so many steps, and keeps what it keeps in this folder, which is empty.

A step is one call of the model and one of a tool; after the last step the model is called once
more, and answers in words. The callback is to be called at the beginning of each call of the model.
"""


class Run(TypedDict):
    """What one run showed."""

    starts: list[float]
    """When each call of the model began, in seconds; one more than there were steps."""
    disk_bytes: int
    """What was on disk at the end."""
    gc_ms: list[float]
    """How long each collection of Python's garbage took."""


class SubjectRun(Run):
    """What one run of Rondo showed."""

    baseline_ms: float
    """Of one step: the same rows, committed one by one by bare SQLite."""


class CrowdRun(TypedDict):
    """What loops that ran at the same time showed."""

    starts: list[list[float]]
    """Of each loop, when each call of its model began, in seconds."""
    sent: float
    """When the first message was sent, in seconds."""
    ended: float
    """When the last answer had been heard, in seconds."""
    gc_ms: list[float]
    """As in `Run`."""


class Pauses:
    """Inside ``with``, notes how long each garbage collection takes; changes nothing about it."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        """Milliseconds each."""
        self._begun = 0.0

    def __enter__(self) -> Self:
        """Begin to look."""
        gc.callbacks.append(self._look)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Look no more."""
        gc.callbacks.remove(self._look)

    def _look(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun = time.perf_counter()
        else:
            self.taken.append((time.perf_counter() - self._begun) * 1000)


def arguments() -> tuple[int, Path]:
    """The number of steps, and a folder that does not exist yet, from the command line."""
    return int(sys.argv[1]), Path(sys.argv[2])


def measure(loop: Loop, count: int, folder: Path, *, kept: str = "*") -> Run:
    """Run a loop once to warm up and once to measure it.

    Args:
        loop: what is measured.
        count: its steps.
        folder: for what it writes; does not exist yet.
        kept: which of its files count, as a pattern.

    Raises:
        RuntimeError: the loop took other steps than it was to take.
    """
    warm, measured = folder / "warm-up", folder / "measured"
    warm.mkdir(parents=True, mode=0o700)
    measured.mkdir(mode=0o700)
    asyncio.run(loop(WARM_UP_STEPS, warm, lambda: None))
    gc.collect()  # what warming up has left is not the loop's garbage
    starts: list[float] = []
    with Pauses() as pauses:
        asyncio.run(loop(count, measured, lambda: starts.append(time.perf_counter())))
    if len(starts) != count + 1:
        raise RuntimeError(f"{count} steps were to be taken, and {len(starts) - 1} were")
    size = sum(file.stat().st_size for file in measured.rglob(kept) if file.is_file())
    return Run(starts=starts, disk_bytes=size, gc_ms=pauses.taken)


def tell(report: object) -> None:
    """Write what was found to standard output."""
    print(json.dumps(report))
