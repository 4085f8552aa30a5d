"""Many run loops at once on one agent: whether each gets its turn."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from contextlib import aclosing
from pathlib import Path

import anyio

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.bench.loop import bench_worker
from service.bench.loop.tool_calling_model import Metronome, probe
from service.domain.history.events import RunLoopIdle
from service.loop.brain import Limits
from service.memory.memory import Memory
from service.tools.registry import ToolRegistry


def measure_crowd() -> None:
    """Measure so many loops at once, of so many steps."""
    steps, folder = bench_worker.arguments()
    loops = int(sys.argv[3])
    folder.mkdir(mode=0o700)
    asyncio.run(_run(4, steps, folder / "warm-up"))
    bench_worker.tell(asyncio.run(_run(loops, steps, folder / "measured")))


async def _run(loops: int, steps: int, folder: Path) -> bench_worker.CrowdRun:
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
