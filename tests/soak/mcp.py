"""``python -m tests.soak.mcp``: connections to MCP servers, broken again and again, leave nothing.

A program ends by itself, is killed, writes rubbish and closes its output, or is stopped, and leaves
a child behind each time; a server at an address is left and found again. Afterwards no process, no
open file, no thread and no task may be left that was not there before, and no program may have been
started before its predecessor and the child of that were gone. One JSON document on standard
output; exit code 1 when anything was left. For Linux: it looks into ``/proc``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio

from service.config_sections import McpServerSettings
from service.tools.mcp.server_connection import ServerConnection
from service.tools.registry import ToolRegistry
from tests.support.tools import handshake_tool_server
from tests.support.tools.connections import HttpClock, called, connected, is_running, until

WAYS = ("ends", "killed", "babbles", "stopped")
_WARMING_UP = 4  # reconnects, after which all is there that stays


@dataclass(frozen=True, slots=True)
class Holdings:
    """What this process holds."""

    files: int
    threads: int
    tasks: int
    children: int


@dataclass(slots=True)
class Summary:
    """What the reconnects showed."""

    reconnects: Counter[str] = field(default_factory=Counter)
    before: Holdings | None = None
    after: Holdings | None = None
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For standard output."""
        return {
            "reconnects": {"all": self.reconnects.total(), **self.reconnects},
            "before": self.before and asdict(self.before),
            "after": self.after and asdict(self.after),
            "problems": self.problems,
        }


def holdings() -> Holdings:
    """Now."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    return Holdings(
        files=len(list(Path("/proc/self/fd").iterdir())),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
        children=len(children),
    )


async def soak(folder: Path, *, reconnects: int, tell: Callable[[str], None]) -> Summary:
    """Connect and break.

    Args:
        folder: for what the servers note.
        reconnects: how many, of a program, and again of a server at an address.
        tell: told in words how it goes.
    """
    summary = Summary()
    await _warm_up(folder)
    with HttpClock(folder / "server") as clock:
        async with connected(clock.at(), folder):
            pass
        summary.before = holdings()
        await _programs(folder, reconnects, summary, tell)
        for number in range(reconnects):
            async with connected(clock.at(), folder) as connection:
                if number % 2:
                    await called(connection, "now", city="x")
            summary.reconnects["left"] += 1
        await anyio.sleep(0.1)  # what was closed just now is closed by the next turns of the loop
        summary.after = holdings()
    summary.problems += _left(folder, summary)
    return summary


async def _warm_up(folder: Path) -> None:
    warm = folder / "warm"
    warm.mkdir()
    await _programs(warm, _WARMING_UP, Summary(), lambda _: None)


async def _programs(
    folder: Path, reconnects: int, summary: Summary, tell: Callable[[str], None]
) -> None:
    done = 0
    while done < reconnects:
        async with _kept(folder) as connection:
            while done < reconnects:
                way = WAYS[done % len(WAYS)]
                await until(lambda: connection.client is not None)
                done += 1
                summary.reconnects[way] += 1
                if done % 100 == 0:
                    tell(f"{done} of {reconnects}")
                if way == "stopped":
                    break
                await _broken(folder, connection, way)


@asynccontextmanager
async def _kept(folder: Path) -> AsyncGenerator[ServerConnection]:
    settings = McpServerSettings(
        command=sys.executable, args=("-S", handshake_tool_server.__file__, str(folder))
    )
    connection = ServerConnection(
        "clock",
        settings,
        ToolRegistry(),
        folder,
        first_wait_seconds=0.001,
        longest_wait_seconds=0.001,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(connection.keep)
        yield connection
        group.cancel_scope.cancel()


async def _broken(folder: Path, connection: ServerConnection, way: str) -> None:
    client = connection.client
    match way:
        case "killed":
            os.kill(_processes(folder)[-2], signal.SIGKILL)
        case "ends":
            await called(connection, "end")
        case _:
            await called(connection, "babble")
    await until(lambda: connection.client is not client)


def _processes(folder: Path) -> list[int]:
    return [int(number) for number in (folder / "processes").read_text().split()]


def _left(folder: Path, summary: Summary) -> list[str]:
    problems = []
    alive = [number for number in _processes(folder) if is_running(number)]
    if alive:
        problems.append(f"processes that are left: {alive}")
    late = folder / "late"
    if late.exists():
        problems.append(f"started before its predecessor was gone: {late.read_text().split()}")
    if summary.before != summary.after:
        problems.append(f"held before: {summary.before}, after: {summary.after}")
    return problems


def main() -> None:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description="Break connections to MCP servers.")
    parser.add_argument("--reconnects", type=int, default=1000)
    arguments = parser.parse_args()

    def tell(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    async def run(folder: Path) -> Summary:
        return await soak(folder, reconnects=arguments.reconnects, tell=tell)

    logging.getLogger("service").setLevel(logging.ERROR)  # that a server is away is no news here
    with tempfile.TemporaryDirectory() as folder:
        summary = anyio.run(run, Path(folder))
    print(json.dumps(summary.as_json(), indent=2))
    raise SystemExit(1 if summary.problems else 0)


if __name__ == "__main__":
    main()
