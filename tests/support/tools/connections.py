"""Connections to MCP servers, and the processes of these."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio

from service.config_sections import McpServerSettings
from service.domain.conversation.messages import ToolResult
from service.tools.mcp.server_connection import ServerConnection
from service.tools.registry import ToolRegistry
from tests.support.tools import http_tool_server, tool_server
from tests.support.tools.tool_calls import CONTEXT, call_of


def clock(folder: Path, *modes: str, **settings: Any) -> McpServerSettings:
    """A server that is started as a program."""
    arguments = (tool_server.__file__, str(folder), *modes)
    return McpServerSettings(command=sys.executable, args=arguments, **settings)


class HttpClock:
    """A server that answers at an address, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        """Tells it what to do; see `http_tool_server`."""
        self.port = 0
        """Where it answers, also after it was stopped and started."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.stop()

    def start(self) -> None:
        """Start it; whoever connects from now on is served when it is ready."""
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", self.port))
            listening.listen()
            self.port = listening.getsockname()[1]
            number = listening.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", http_tool_server.__name__, str(self.folder), str(number)],
                pass_fds=(number,),
            )

    def reset(self) -> None:
        """Behave, and run, as at the beginning."""
        if self._process is not None and self._process.poll() is not None:
            self.start()
        for each in self.folder.iterdir():
            each.unlink()

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def at(self, path: str = "/mcp", **settings: Any) -> McpServerSettings:
        """The settings by which it is reached."""
        return McpServerSettings(url=f"http://127.0.0.1:{self.port}{path}", **settings)


def numbers(folder: Path, name: str) -> list[int]:
    """What a server has written to a file, a number a line."""
    path = folder / name
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def until(true: Callable[[], bool]) -> None:
    """Wait for a condition."""
    with anyio.fail_after(30):
        while not true():
            await anyio.sleep(0.01)


@asynccontextmanager
async def connected(
    settings: McpServerSettings, data_dir: Path, *, check_seconds: float = 60
) -> AsyncGenerator[ServerConnection]:
    """A connection that is kept as an agent keeps it, once it stands."""
    connection = ServerConnection(
        "clock",
        settings,
        ToolRegistry(),
        data_dir,
        first_wait_seconds=0.01,
        check_seconds=check_seconds,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(connection.keep)
        await until(lambda: connection.client is not None)
        yield connection
        group.cancel_scope.cancel()


async def called(connection: ServerConnection, name: str, **arguments: object) -> ToolResult:
    """The result of a call, as the registry gives it."""
    return await connection.registry.execute(call_of(f"clock__{name}", **arguments), CONTEXT)
