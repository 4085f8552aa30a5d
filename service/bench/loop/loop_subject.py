"""Run loops of Rondo, journaled, each followed by one reader: one, or many at once on one agent.

Beside one its raw baseline: the same rows, written by bare SQLite. Many show whether each gets its
turn.

A scripted model looks through the conversation for what it is to answer, and so takes longer the
longer it is; the model here does the same work at each call.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.bench.loop import bench_worker
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta, ToolCallDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.history.events import RunLoopIdle
from service.llm.protocol import LLMStatus
from service.loop.brain import Limits
from service.memory.memory import Memory
from service.tools.decorator import tool
from service.tools.registry import ToolRegistry

ROOMY = 10_000_000
"""Tokens of its window: no history is too long for it, as none is for the peers."""


@tool(effect="read_only")
async def probe(number: int) -> str:
    """Give the number back."""
    return str(number)


class Metronome:
    """Calls `probe` `steps` times in each conversation, then answers in words.

    Satisfies `service.llm.protocol.LLM`. Conversations are told apart by their first words.
    """

    model = "metronome"
    context_tokens = ROOMY

    def __init__(self, steps: int, began: Callable[[str], None]) -> None:
        """`began` is called as each call begins, with the first words of its conversation."""
        self._steps = steps
        self._began = began
        self._calls: Counter[str] = Counter()

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Nothing is to be made ready."""

    def status(self) -> LLMStatus:
        """Always ready."""
        return LLMStatus(True, "answers at once")

    async def aclose(self) -> None:
        """Nothing is held."""

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Give the next call of the tool, or the answer."""
        words = messages[1].text  # the system message stands before them
        self._began(words)
        await asyncio.sleep(0)  # a real one lets others work while it waits for the network
        self._calls[words] += 1
        number = self._calls[words]
        if number <= self._steps:
            yield ToolCallDelta(
                index=0, id=f"call_{number}", name="probe", arguments=f'{{"number": {number}}}'
            )
        else:
            yield TextDelta("Done.")


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


def main() -> None:
    """Measure a loop of so many steps; with a number behind the folder, so many such at once."""
    steps, folder = bench_worker.arguments()
    if len(sys.argv) > 3:
        _measure_crowd(int(sys.argv[3]), steps, folder)
    else:
        _measure_one(steps, folder)


def _measure_one(count: int, folder: Path) -> None:
    sizes: list[int] = []

    async def loop(steps: int, where: Path, began: Callable[[], None]) -> None:
        sizes[:] = await _run_one(steps, where, began)

    seen = bench_worker.measure(loop, count, folder, kept="journal.sqlite3*")
    baseline = bare_commits(folder / "baseline.sqlite3", sizes)
    step = statistics.median(baseline) * len(baseline) / count
    bench_worker.tell(bench_worker.SubjectRun(**seen, baseline_ms=step))


async def _run_one(steps: int, folder: Path, began: Callable[[], None]) -> list[int]:
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
        await _follow(agent, "Go.")
        return [len(event.body.model_dump_json()) for event in await memory.journal.read()]


def _measure_crowd(loops: int, steps: int, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    asyncio.run(_run_crowd(4, steps, folder / "warm-up"))
    bench_worker.tell(asyncio.run(_run_crowd(loops, steps, folder / "measured")))


async def _run_crowd(loops: int, steps: int, folder: Path) -> bench_worker.CrowdRun:
    starts: defaultdict[str, list[float]] = defaultdict(list)
    llm = Metronome(steps, lambda words: starts[words].append(time.perf_counter()))
    registry = ToolRegistry()
    registry.register(probe)
    # Each message is a topic of its own: what the router takes is not a step's.
    limits = Limits(max_iterations=steps + 2)
    options = AgentOptions(limits=limits, recall_tokens=0, auto_classify=False)
    async with create_agent(llm, registry, Memory(folder, None), options) as agent:
        with bench_worker.Pauses() as pauses:
            sent = time.perf_counter()
            async with anyio.create_task_group() as group:
                for number in range(loops):
                    group.start_soon(_follow, agent, f"Matter {number}.")
            ended = time.perf_counter()
    if [len(each) for each in starts.values()] != [steps + 1] * loops:
        raise RuntimeError(f"{loops} loops of {steps} steps were to run, and others did")
    return bench_worker.CrowdRun(
        starts=list(starts.values()), sent=sent, ended=ended, gc_ms=pauses.taken
    )


async def _follow(agent: Agent, words: str) -> None:
    """Send a message and read on until it is answered, as each client does.

    Raises:
        RuntimeError: it was not answered.
    """
    last = None
    async with aclosing(agent.send(words)) as events:
        async for event in events:
            last = event
    if last is None or not isinstance(last.body, RunLoopIdle):
        raise RuntimeError(f"a loop ended with {last and last.type}")


if __name__ == "__main__":
    main()
