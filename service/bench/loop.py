"""How long a step of a run loop takes: one model call and one read-only tool call, journaled.

The model is scripted and answers at once, so that what is measured is the house itself. The floor
is the same number of commits of rows of the same size by bare SQLite, in the same run.
"""

from __future__ import annotations

import hashlib
import platform
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio

from service.agent.agent import create_agent
from service.agent.llm.scripted import ScriptedLLM
from service.agent.options import AgentOptions
from service.bench.floor import bare_commits
from service.domain.events import Event
from service.domain.stream import StreamPart
from service.memory.memory import Memory
from service.tools.decorator import tool
from service.tools.registry import ToolRegistry

DEFAULT_STEPS = (20, 200, 1000)
_WARM_UP_STEPS = 20
_TOOL_RESULT = "42"


@dataclass(slots=True)
class _Run:
    """What one loop of many steps showed."""

    starts: list[float] = field(default_factory=list)
    """When each step began, in seconds."""
    events: list[Event] = field(default_factory=list)
    disk_bytes: int = 0


def run(steps: Sequence[int] = DEFAULT_STEPS) -> dict[str, Any]:
    """Measure loops of so many steps.

    Returns:
        ``{"steps": {"20": {"p50_ms", "p95_ms", "first_ms", "last_ms", "disk_bytes",
        "floor_p50_ms", "ratio"}, …}, …}``; `first_ms` and `last_ms` are the medians of the first
        and the last tenth of the steps, `ratio` is p50 over the floor's sum for one step.
    """
    anyio.run(_measure, _WARM_UP_STEPS)
    return {
        "benchmark": "loop",
        "python": platform.python_version(),
        "steps": {str(count): anyio.run(_measure, count) for count in steps},
        "input_sha256": hashlib.sha256(repr((tuple(steps), _TOOL_RESULT)).encode()).hexdigest(),
    }


async def _measure(count: int) -> dict[str, float | int]:
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        seen = await _loop_of(count, Path(folder) / "data")
        floor = bare_commits(Path(folder) / "floor.sqlite3", _sizes(seen.events))
    steps = [(after - before) * 1000 for before, after in pairwise(seen.starts)]
    tenth = max(len(steps) // 10, 1)
    floor_of_step = statistics.median(floor) * len(floor) / count
    p50 = statistics.median(steps)
    return {
        "p50_ms": round(p50, 4),
        "p95_ms": round(statistics.quantiles(steps, n=20)[-1], 4),
        "first_ms": round(statistics.median(steps[:tenth]), 4),
        "last_ms": round(statistics.median(steps[-tenth:]), 4),
        "disk_bytes": seen.disk_bytes,
        "floor_p50_ms": round(floor_of_step, 4),
        "ratio": round(p50 / floor_of_step, 2),
    }


class _Clock(ScriptedLLM):
    """Calls a tool `count` times, then answers; notes when each call of it began."""

    def __init__(self, count: int, starts: list[float]) -> None:
        super().__init__(turns=[*['call: probe {"number": 42}'] * count, "text: Done."])
        self._starts = starts

    def stream(self, *args: Any, **options: Any) -> AsyncGenerator[StreamPart]:
        self._starts.append(time.perf_counter())
        return super().stream(*args, **options)


@tool(effect="read_only")
async def probe(number: int) -> str:
    """Give the number back."""
    return str(number)


async def _loop_of(count: int, folder: Path) -> _Run:
    seen = _Run()
    registry = ToolRegistry()
    registry.register(probe)
    options = AgentOptions(max_iterations=count + 2, recall_tokens=0)
    llm = _Clock(count, seen.starts)
    async with (
        create_agent(llm, registry, Memory(folder, None), options) as agent,
        aclosing(agent.send("Go.")) as events,
    ):
        seen.events = [event async for event in events if event.seq is not None]
    seen.disk_bytes = _journal_bytes(folder)  # closed: the write-ahead log has been taken in
    return seen


def _journal_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("journal.sqlite3*"))


def _sizes(events: Sequence[Event]) -> list[int]:
    return [len(event.body.model_dump_json()) for event in events]
