"""How many modules of the package a plain message runs through, from `Agent.send` to its answer.

    .venv/bin/python scripts/trace_message.py [--list]

It is counted with no run loop open and with two, with a scripted model and without an embedder.
All of it is done once before, so that what is imported on the way does not count. No time is
measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import anyio

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.llm.scripted.script_language import parse_script
from service.llm.scripted.scripted_model import ScriptedModel
from service.memory.memory import Memory
from service.tools.registry import ToolRegistry

SCRIPT = "== default\ntext: You said: {message}\n"
OPEN = ("Plan a trip to Lisbon in May.", "Why does my sourdough not rise?")
MESSAGE = "How do I change the bulb of my bicycle lamp?"


class Trace:
    """Counts calls by the modules of the package that they are in, in every thread, while it is on.

    To be made before any other thread is: each takes the profiler over when it begins.
    """

    def __init__(self) -> None:
        self.calls = Counter[str]()
        self._is_on = False
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if not (self._is_on and event == "call"):
            return
        name = frame.f_globals.get("__name__", "")
        if name.startswith("service.") and frame.f_code.co_name != "<module>":
            self.calls[name] += 1

    @contextmanager
    def on(self) -> Generator[None]:
        """Count within it."""
        self.calls = Counter()
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False


async def answer(agent: Agent, message: str, run_loop_id: str | None = None) -> None:
    """Send a message, and read to the end of its answer."""
    async for _ in agent.send(message, run_loop_id):
        pass


async def count(trace: Trace, opened: int) -> Counter[str]:
    """The modules that a message runs through beside so many open run loops."""
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(Path(folder), None)
        llm = ScriptedModel(parse_script(SCRIPT))
        options = AgentOptions(linger_seconds=3600)
        async with create_agent(llm, ToolRegistry(), memory, options) as agent:
            await memory.warmed_up()
            for message in OPEN[:opened]:
                await answer(agent, message, "new")
            await memory.archivist.drain()
            await anyio.wait_all_tasks_blocked()
            with trace.on():
                await answer(agent, MESSAGE)
            return trace.calls


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the modules")
    arguments = parser.parse_args()
    trace = Trace()
    for opened in (0, 2):
        anyio.run(count, trace, opened)
        modules = anyio.run(count, trace, opened)
        print(f"{opened} run loops open: {len(modules)} modules")
        if arguments.list:
            for name in sorted(modules):
                print(f"    {name} ({modules[name]} calls)")


if __name__ == "__main__":
    main()
