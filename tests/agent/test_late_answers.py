"""An answer can come days later: the run loop has waited for it, and goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.agent.agents import running_agent
from tests.support.agent.waiting import (
    Launches,
    asked,
    launch_call,
    request_id,
    rested,
    results_of,
    wanting,
)

pytestmark = pytest.mark.anyio

ROCKET = wanting(launch_call("the rocket"))


async def test_an_answer_that_comes_ten_days_later_still_resumes_the_loop(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db, db:
        for table, columns in {
            "events": ("at",),
            "run_loops": ("created_at", "updated_at"),
        }.items():
            for each in columns:  # as if all of it had been that long ago
                db.execute(f"UPDATE {table} SET {each} = {each} - 10 * 24 * 3600 * 1000")
    async with running_agent(tmp_path, ROCKET, launches.tool(), auto_classify=False) as agent:
        await asked(agent, "another one meanwhile")
        assert (await agent.run_loop(loop_id)).status == "waiting_for_human_input"
        (opened, *_) = await agent.memory.journal.read(run_loop_id=loop_id)
        assert datetime.now(UTC) - opened.at > timedelta(days=9)
        await agent.answer(loop_id, approved=True, request_id=request_id(agent, loop_id))
        assert "is launched" in results_of(await rested(agent, loop_id))[0]
    assert launches.launched == ["the rocket"]
