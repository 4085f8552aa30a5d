"""A tool server as a child process, spoken to over its standard streams.

POSIX only. The server runs under the supervisor of scripts, in a process group of its own: the
group ends with the daemon, however that went, and whatever the server left running ends with it.
The SDK's own transport kills neither what a server that ends by itself leaves behind, nor anything
when the daemon is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from subprocess import PIPE
from typing import Any

import anyio
from anyio.abc import Process
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from service.tools.scripts import supervisor

GRACE_SECONDS = 2.0
"""For a server to end by itself once its input is closed, and again once it is asked to end."""
MESSAGE_BYTES = 16_000_000
"""The longest message of a server."""
_PATIENCE_SECONDS = 10.0  # with a supervisor, which needs a moment at most to kill
_LAST_WORDS = 2000  # bytes of standard error that are kept
_POLL_SECONDS = 0.01


class ServerProcess:
    """A running server."""

    def __init__(
        self,
        process: Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        group: int,
    ) -> None:
        self.group = group
        """The number of its process group."""
        self.ended = anyio.Event()
        """Set when its first process has ended."""
        self.last_words = bytearray()
        """The end of what it wrote to standard error."""
        self.process = process
        self._reader = reader
        self._writer = writer
        self._told_exit = False

    async def watch(self) -> None:
        """Wait for its end."""
        with anyio.CancelScope(shield=True):  # `stop` waits for it, also when all is cancelled
            with contextlib.suppress(OSError):
                told = await self._reader.read()  # until the supervisor has closed its end
                self._told_exit = b'"exit"' in told
            self.ended.set()

    async def stop(self) -> None:
        """Close its input, ask it to end, kill what is left; returns when its group is gone."""
        with anyio.CancelScope(shield=True):
            if self.process.stdin is not None:
                with contextlib.suppress(OSError, anyio.BrokenResourceError):
                    await self.process.stdin.aclose()
            with anyio.move_on_after(GRACE_SECONDS):
                await self.ended.wait()
            if not self.ended.is_set():
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    self.process.send_signal(signal.SIGTERM)  # the supervisor passes it on
                with anyio.move_on_after(GRACE_SECONDS):
                    await self.ended.wait()
            self._writer.transport.abort()  # the supervisor kills the group, and ends
            # `wait` would wait for its pipes, too
            await _until(lambda: self.process.returncode is not None)
            if self.process.returncode is None:
                self.process.kill()
            if not self._told_exit:
                _signal(self.group, signal.SIGKILL)
            await _until(lambda: not _signal(self.group, 0))


@contextlib.asynccontextmanager
async def stdio_streams(
    command: Sequence[str], env: Mapping[str, str]
) -> AsyncGenerator[tuple[ServerProcess, TransportStreams]]:
    """Start a server, and exchange messages with it, a line each.

    Args:
        command: the program, looked up in PATH, and its arguments.
        env: added to the few variables that each server is given; the daemon's own are not.

    Raises:
        OSError: it cannot be started.
    """
    server = await _started(command, {**get_default_environment(), **env})
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        assert server.process.stdout is not None
        kept = b""
        with incoming, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in server.process.stdout:
                *lines, kept = (kept + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        await incoming.send(_message(line))
                if len(kept) > MESSAGE_BYTES:
                    return  # the connection ends; so does the server

    async def write() -> None:
        assert server.process.stdin is not None
        with sent, contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream):
            async for each in sent:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await server.process.stdin.send(text.encode() + b"\n")

    async def listen() -> None:
        assert server.process.stderr is not None
        with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in server.process.stderr:
                server.last_words += chunk
                del server.last_words[:-_LAST_WORDS]

    try:
        async with anyio.create_task_group() as group:
            for task in (read, write, listen, server.watch):
                group.start_soon(task)
            try:
                yield server, (received, outgoing)
            finally:
                received.close()
                outgoing.close()
                await server.stop()
                group.cancel_scope.cancel()
    finally:
        transport: Any = getattr(getattr(server.process, "_process", None), "_transport", None)
        if transport is not None:
            transport.close()  # a process that left the group can hold the pipes open


async def _until(done: Callable[[], bool]) -> None:
    """Wait, within bounds, for something that tells nobody."""
    until = anyio.current_time() + _PATIENCE_SECONDS
    while not done() and anyio.current_time() < until:  # noqa: ASYNC110
        await anyio.sleep(_POLL_SECONDS)


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _started(command: Sequence[str], env: Mapping[str, str]) -> ServerProcess:
    program = shutil.which(command[0], path=env.get("PATH"))
    if program is None:
        raise FileNotFoundError(f"there is no program {command[0]!r}")
    request = {"command": [program, *command[1:]], "env": env, "folder": "", "limits": {}}
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await anyio.open_process(
                [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        told = json.loads(await reader.readline() or "{}")
        if "group" not in told:
            number = told.get("errno", 0)
            raise OSError(number, os.strerror(number) if number else "it cannot be started")
    except BaseException:
        writer.transport.abort()  # its supervisor ends it
        raise
    return ServerProcess(process, reader, writer, told["group"])


def _signal(group: int, number: int) -> bool:
    """Whether there is somebody in a group to get a signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
