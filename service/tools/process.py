"""Running a child process within bounds: time, kept output, and an end for its whole group.

POSIX only. The low-level protocol of asyncio tells when the process itself has ended; waiting
through `asyncio.subprocess` would wait for everyone who holds its pipes, such as a grandchild that
was left in the background.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL when the time is up."""
_DRAIN_SECONDS = 1.0  # for what an ended process wrote to still arrive


@dataclass(frozen=True, slots=True)
class Output:
    """What was written to a stream: its start and its end, when it is long."""

    text: str
    """UTF-8; other bytes are shown as U+FFFD."""
    total_bytes: int
    left_out_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    timed_out: bool
    stdout: Output
    stderr: Output


async def run_process(
    command: Sequence[str | Path],
    *,
    stdin: bytes,
    cwd: Path,
    env: Mapping[str, str],
    timeout_seconds: float,
    keep_bytes: int,
) -> Outcome:
    """Run a command without a shell, to its end.

    When its time is up, its process group is asked to end (SIGTERM), and killed after
    `GRACE_SECONDS`. Cancelling kills at once. However the process ends, what it left running in its
    group is killed; a grandchild that made a session of its own escapes that.

    Args:
        command: the program and its arguments.
        stdin: what the process can read.
        cwd: its working folder.
        env: its whole environment.
        timeout_seconds: how long it may take.
        keep_bytes: how much of each output stream is kept, start and end together.

    Raises:
        OSError: the command cannot be started.
        ValueError: the command holds a NUL character.
    """
    # A task of its own: a start that is cancelled half-way would leave a process, and perhaps its
    # children, that nobody knows of.
    starting = asyncio.create_task(
        asyncio.get_running_loop().subprocess_exec(
            lambda: _Child(keep_bytes), *command, cwd=cwd, env=dict(env), start_new_session=True
        )
    )
    try:
        transport, child = await asyncio.shield(starting)
        timed_out = await _ended(transport, child, stdin, timeout_seconds)
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.wait((starting,))
            if starting.exception() is None:
                await _end(*starting.result())
    exit_code = transport.get_returncode()
    assert exit_code is not None  # it has ended
    stdout, stderr = child.output
    return Outcome(
        exit_code=exit_code,
        timed_out=timed_out,
        stdout=stdout.output(),
        stderr=stderr.output(),
    )


async def _ended(
    transport: asyncio.SubprocessTransport, child: _Child, stdin: bytes, timeout_seconds: float
) -> bool:
    """Feed a process and wait until it ends or its time is up; whether the latter came first."""
    pipe = transport.get_pipe_transport(0)
    if isinstance(pipe, asyncio.WriteTransport):
        pipe.write(stdin)
        pipe.close()  # after what was written has gone out
    with anyio.move_on_after(timeout_seconds) as time:
        await child.ended.wait()
    if time.cancelled_caught:
        _signal_group(transport, signal.SIGTERM)
        with anyio.move_on_after(GRACE_SECONDS):
            await child.ended.wait()
    return time.cancelled_caught


async def _end(transport: asyncio.SubprocessTransport, child: _Child) -> None:
    """Kill what is left of a process group, collect its last words, and close its pipes."""
    _signal_group(transport, signal.SIGKILL)
    await child.ended.wait()
    with anyio.move_on_after(_DRAIN_SECONDS):
        await child.drained.wait()
    pipe = transport.get_pipe_transport(0)
    if isinstance(pipe, asyncio.WriteTransport) and pipe.get_write_buffer_size():
        pipe.abort()  # closing would wait for a reader
    transport.close()


def _signal_group(transport: asyncio.SubprocessTransport, number: signal.Signals) -> None:
    try:
        # a session's first process leads a group of the same number
        os.killpg(transport.get_pid(), number)
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

    def output(self) -> Output:
        left_out = self._total - len(self._head) - len(self._tail)
        if not left_out:
            return Output(_decoded(self._head + self._tail), self._total, 0)
        cut = f"\n[… {left_out:,} bytes were left out here …]\n"
        return Output(_decoded(self._head) + cut + _decoded(self._tail), self._total, left_out)


class _Child(asyncio.SubprocessProtocol):
    """Collects what a process writes, and tells when it ends."""

    def __init__(self, keep_bytes: int) -> None:
        self.output = (_Kept(keep_bytes), _Kept(keep_bytes))
        self.ended = asyncio.Event()
        self.drained = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output[fd - 1].add(data)

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended and all its pipes are closed."""
        self.drained.set()


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")
