"""Running a child process within bounds: time, kept output, and an end for its whole group.

POSIX only. Between the daemon and the process stands a supervisor (`supervisor.py`), which ends the
process when the daemon is gone, however it went. The low-level protocol of asyncio tells when the
supervisor itself has ended; waiting through `asyncio.subprocess` would wait for everyone who holds
its pipes, such as a grandchild that was left in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from service.domain.conversation.tool_definitions import OutputStream
from service.tools.scripts import supervisor

Bound = Literal["processes", "memory_bytes", "scratch_bytes"]
GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL when the time is up."""
_DRAIN_SECONDS = 1.0  # for what an ended process wrote to still arrive
_PATIENCE_SECONDS = 10.0  # with a supervisor, which needs a moment at most to kill


Stream = OutputStream
OnOutput = Callable[[Stream, bytes], None]
"""Is given what a process writes, as it comes. MUST NOT raise, MUST NOT block."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    timed_out: bool
    stdout: str
    """UTF-8, other bytes as U+FFFD; its start and its end, when it is long."""
    stderr: str
    exceeded: Bound | None = None
    """What it used up too much of, so that it was killed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a run may use up in all; looked at ten times a second, on Linux."""

    processes: int
    """At once."""
    memory_bytes: int
    """At once, of all processes."""
    scratch: Path
    """A folder that it writes to."""
    scratch_bytes: int
    """In that folder, and in files without a name."""


async def run_process(
    command: Sequence[str | Path],
    *,
    stdin: bytes,
    cwd: Path,
    env: Mapping[str, str],
    timeout_seconds: float,
    keep_bytes: int,
    folder: Path,
    limits: Mapping[str, int] | None = None,
    on_output: OnOutput | None = None,
    bounds: Bounds | None = None,
) -> Outcome:
    """Run a command without a shell, to its end.

    When its time is up, its process group is asked to end (SIGTERM), and killed after
    `GRACE_SECONDS`. Cancelling kills at once, and so does the end of the daemon, by a kill too.
    However the process ends, what it left running is killed: on Linux wherever that is, elsewhere
    in its group, which a grandchild leaves that makes a session of its own.

    Args:
        command: the program, by its whole path, and its arguments.
        stdin: what the process can read.
        cwd: its working folder.
        env: its whole environment.
        timeout_seconds: how long it may take.
        keep_bytes: how much of each output stream is kept, start and end together.
        folder: is removed when the daemon dies meanwhile; else it is the caller's to remove.
        limits: of what it may use up, by the names of the module `resource`.
        on_output: is given all that it writes, as it comes.
        bounds: of what it and its children may use up together.

    Raises:
        OSError: the command cannot be started.
        ValueError: the command holds a NUL character.
    """
    parts = [str(part) for part in command]
    if any("\0" in part for part in parts):
        raise ValueError("it holds a NUL character")
    request = {
        "command": parts,
        "env": dict(env),
        "folder": str(folder),
        "limits": dict(limits or {}),
        "bounds": bounds and {**dataclasses.asdict(bounds), "scratch": str(bounds.scratch)},
    }
    # A task of its own: a start that is cancelled half-way would leave a process, and perhaps its
    # children, that nobody knows of.
    starting = asyncio.create_task(_started(request, cwd, _Child(keep_bytes, on_output)))
    try:
        run = await asyncio.shield(starting)
        await run.line.started.wait()
        run.line.raise_failure(parts[0])
        timed_out = await _ended(run, stdin, timeout_seconds)
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.wait((starting,))
            if starting.exception() is None:
                await _end(starting.result())
    stdout, stderr = run.child.output
    return Outcome(
        exit_code=-signal.SIGKILL if run.line.exit_code is None else run.line.exit_code,
        timed_out=timed_out,
        stdout=stdout.output(),
        stderr=stderr.output(),
        exceeded=run.line.exceeded,
    )


async def _started(request: Mapping[str, object], cwd: Path, child: _Child) -> _Run:
    """Start a supervisor, and tell it what to run."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            transport, _ = await loop.subprocess_exec(
                lambda: child,
                *(sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())),
                cwd=cwd,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        ours.setblocking(False)
        writing, line = await loop.create_connection(_Line, sock=ours)
    except BaseException:
        ours.close()
        raise
    writing.write(json.dumps(request).encode() + b"\n")
    return _Run(transport, child, writing, line)


async def _ended(run: _Run, stdin: bytes, timeout_seconds: float) -> bool:
    """Feed a process and wait until it ends or its time is up; whether the latter came first."""
    pipe = run.transport.get_pipe_transport(0)
    if isinstance(pipe, asyncio.WriteTransport):
        pipe.write(stdin)
        pipe.close()  # after what was written has gone out
    with anyio.move_on_after(timeout_seconds) as time:
        await run.line.closed.wait()
    if time.cancelled_caught:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            run.transport.send_signal(signal.SIGTERM)  # the supervisor passes it on
        with anyio.move_on_after(GRACE_SECONDS):
            await run.line.closed.wait()
    return time.cancelled_caught


async def _end(run: _Run) -> None:
    """Kill what is left of a process group, collect its last words, and close its pipes."""
    run.writing.abort()  # the supervisor kills the group, and ends
    with anyio.move_on_after(_PATIENCE_SECONDS):
        await run.child.ended.wait()
    if run.line.exit_code is None and run.line.group is not None:
        # The supervisor killed the group a moment ago; or something has killed the supervisor.
        _kill_group(run.line.group)
    if not run.child.ended.is_set():
        _kill_group(run.transport.get_pid())
        await run.child.ended.wait()
    with anyio.move_on_after(_DRAIN_SECONDS):
        await run.child.drained.wait()
    pipe = run.transport.get_pipe_transport(0)
    if isinstance(pipe, asyncio.WriteTransport) and pipe.get_write_buffer_size():
        pipe.abort()  # closing would wait for a reader
    run.transport.close()


def _kill_group(number: int) -> None:
    try:
        os.killpg(number, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left, or only processes that have become another user's


class _Kept:
    """The first and the last bytes of a stream, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._half]

    def output(self) -> str:
        left_out = self._total - len(self._head) - len(self._tail)
        if not left_out:
            return _decoded(self._head + self._tail)
        cut = f"\n[… {left_out:,} bytes were left out here …]\n"
        return _decoded(self._head) + cut + _decoded(self._tail)


class _Child(asyncio.SubprocessProtocol):
    """Collects what a process writes, and tells when it ends."""

    def __init__(self, keep_bytes: int, on_output: OnOutput | None) -> None:
        self._on_output = on_output
        self.output = (_Kept(keep_bytes), _Kept(keep_bytes))
        self.ended = asyncio.Event()
        self.drained = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output[fd - 1].add(data)
        if self._on_output is not None:
            self._on_output("stdout" if fd == 1 else "stderr", data)

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended and all its pipes are closed."""
        self.drained.set()


class _Line(asyncio.Protocol):
    """What a supervisor tells, see `supervisor.py`."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.closed = asyncio.Event()
        self.group: int | None = None
        self.exit_code: int | None = None
        self.exceeded: Bound | None = None
        self._errno: int | None = None
        self._read = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._read = (self._read + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.group = message.get("group", self.group)
            self.exit_code = message.get("exit", self.exit_code)
            self.exceeded = message.get("exceeded") or None
            self._errno = message.get("errno", self._errno)
            self.started.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, or is told to end."""
        self.started.set()
        self.closed.set()

    def raise_failure(self, program: str) -> None:
        """Raise what kept the command from being started.

        Raises:
            OSError: something did.
        """
        if self._errno is not None:
            raise OSError(self._errno, os.strerror(self._errno), program)
        if self.group is None:
            raise OSError("its supervisor ended before it began")


@dataclass(frozen=True, slots=True)
class _Run:
    """A supervisor at work."""

    transport: asyncio.SubprocessTransport
    child: _Child
    writing: asyncio.WriteTransport
    line: _Line


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")
