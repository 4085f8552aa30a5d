"""One history that cannot be read keeps no other from being remembered."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import anyio
import pytest

from service.domain.history.events import RunLoopCompleted, RunLoopIdle, RunLoopStarted
from service.memory.memory import Memory
from tests.support.histories import received

pytestmark = pytest.mark.anyio


async def test_what_ended_after_it_is_still_archived_at_the_start(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        for name in ("broken", "fine"):  # ended, and not archived: nobody is at work
            await memory.journal.append(
                name,
                RunLoopStarted(goal=name),
                received(f"the words of {name}"),
                RunLoopIdle(),
                RunLoopCompleted(),
                owner="me",
            )
    with sqlite3.connect(tmp_path / "journal.sqlite3") as db:
        db.execute('UPDATE events SET body = \'{"type": "of.the.future"}\' WHERE seq = 2')

    async with Memory(tmp_path, None) as memory, anyio.create_task_group() as group:
        group.start_soon(memory.work)
        with anyio.fail_after(20):
            while await memory.long_term.run_loop("fine", owner="me") is None:
                await anyio.sleep(0.02)
        problem = await memory.archivist.drain()
        assert problem is not None
        assert "broken" in problem.in_words()
        group.cancel_scope.cancel()
