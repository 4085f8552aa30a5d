"""Those who watch slow nobody: an event is written once for all; who does not read is let go."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import Event, IterationStarted, MessageCompleted, RunLoopStarted
from service.server.http.connection_limits import Limits
from tests.support.server.http_daemon import House, head, running

pytestmark = pytest.mark.anyio

WATCHERS = 20


async def watcher(house: House, *, keep: int = 65_536) -> socket.socket:
    """A connection that watches all events; its kernel keeps so many bytes for it."""
    port = int(house.url.rsplit(":", 1)[1])
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, keep)
    await anyio.to_thread.run_sync(made.connect, ("127.0.0.1", port))
    made.sendall(head(house, "/v1/events", method="GET"))
    return made


async def test_an_event_is_written_once_for_all_who_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int | None] = []
    wire = Event.wire

    def counted(event: Event) -> dict[str, Any]:
        written.append(event.seq)
        return wire(event)

    monkeypatch.setattr(Event, "wire", counted)
    async with running(tmp_path) as house, anyio.create_task_group() as group:
        seen = [0] * WATCHERS

        async def watch(number: int) -> None:
            async with house.stream("GET", "/v1/events") as frames:
                seen[number] = -1
                async for frame in frames:
                    if frame.event == "run_loop.idle":
                        seen[number] = int(frame.id or 0)
                        return

        for number in range(WATCHERS):
            group.start_soon(watch, number)
        with anyio.fail_after(60):
            while seen != [-1] * WATCHERS:
                await anyio.sleep(0.01)
            await house.send("Hello")
            while min(seen) < 1:
                await anyio.sleep(0.01)
    journaled = [seq for seq in written if seq is not None]
    # Each stream that lags, as that of the sender may, reads some from the journal anew.
    assert len(journaled) < 3 * len(set(journaled))


@pytest.mark.slow
async def test_a_watcher_that_never_reads_is_let_go_in_words_and_holds_up_nobody(
    tmp_path: Path,
) -> None:
    limits = Limits(stall_seconds=3, linger_seconds=3)
    async with running(tmp_path, limits=limits) as house:
        silent = await watcher(house, keep=4096)
        with anyio.fail_after(120):
            await house.until(listeners=1)
            journal = house.agent.memory.journal
            await journal.append("one", RunLoopStarted(goal="One"), owner="me")
            await journal.append("one", IterationStarted(index=0))
            while house.listeners:
                words = Message.assistant("词" * 100_000)
                await journal.append("one", MessageCompleted(message=words))
                await anyio.sleep(0.05)
        silent.settimeout(60)
        read = await anyio.to_thread.run_sync(_all_of, silent)
        assert (await house.send("Hello"))["status"] == "idle"
    last = read.rstrip(b"\r\n0").rpartition(b"event: ")[2].decode()
    assert last.startswith("error"), read[-600:]
    problem = json.loads(last.partition("data: ")[2])["data"]["problem"]
    assert problem["kind"] == "slow-reader"
    assert "Last-Event-ID" in problem["advice"]


def _all_of(connection: socket.socket) -> bytes:
    content = b""
    with connection:
        while piece := connection.recv(1_000_000):
            content += piece
    return content
