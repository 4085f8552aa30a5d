"""One run loop of Rondo, journaled, and followed by one reader.

Beside it its raw baseline: the same rows, written by bare SQLite.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.bench.loop import bench_worker
from service.bench.loop.tool_calling_model import Metronome, probe
from service.domain.history.events import RunLoopIdle
from service.loop.brain import Limits
from service.memory.memory import Memory
from service.tools.registry import ToolRegistry


def bare_commits(path: Path, sizes: Sequence[int]) -> list[float]:
    """Commit one row of each size to a fresh file, with the journal's own settings.

    Args:
        path: of the file, which must not exist.
        sizes: characters of each row.

    Returns:
        Milliseconds of each commit.
    """
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        taken = []
        for size in sizes:
            body = "x" * size
            begun = time.perf_counter()
            db.execute("INSERT INTO events (body) VALUES (?)", (body,))
            taken.append((time.perf_counter() - begun) * 1000)
        return taken
    finally:
        db.close()


def _measure_loop() -> None:
    """Measure a loop of so many steps."""
    count, folder = bench_worker.arguments()
    sizes: list[int] = []

    async def loop(steps: int, where: Path, began: Callable[[], None]) -> None:
        sizes[:] = await run_loop(steps, where, began)

    seen = bench_worker.measure(loop, count, folder, kept="journal.sqlite3*")
    baseline = bare_commits(folder / "baseline.sqlite3", sizes)
    step = statistics.median(baseline) * len(baseline) / count
    bench_worker.tell(bench_worker.SubjectRun(**seen, baseline_ms=step))


async def run_loop(steps: int, folder: Path, began: Callable[[], None]) -> list[int]:
    """Run one loop to its answer.

    Returns:
        Characters of each event that was journaled.

    Raises:
        RuntimeError: the loop did not come to its answer.
    """
    registry = ToolRegistry()
    registry.register(probe)
    options = AgentOptions(limits=Limits(max_iterations=steps + 2), recall_tokens=0)
    memory = Memory(folder, None)
    async with create_agent(
        Metronome(steps, lambda words: began()), registry, memory, options
    ) as agent:
        last = None
        async with aclosing(agent.send("Go.")) as events:
            async for event in events:
                last = event
        if last is None or not isinstance(last.body, RunLoopIdle):
            raise RuntimeError(f"the loop ended with {last and last.type}")
        return [len(event.body.model_dump_json()) for event in await memory.journal.read()]
