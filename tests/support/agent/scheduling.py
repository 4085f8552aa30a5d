"""Schedules that are due at once."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio

from service.agent.agent import Agent
from service.schedules.recurrence import Timing
from service.schedules.schedule import Schedule, ScheduleKind


async def due_now(
    agent: Agent, what: str, kind: ScheduleKind = "reminder", *grants: str, name: str = "s"
) -> Schedule:
    timing = Timing(start=datetime.now(UTC), zone="UTC")
    schedule = Schedule(name, "me", kind, what, timing, timing.start, grants=grants)
    return await agent.memory.journal.schedules.add(schedule)


async def opened(agent: Agent, schedule_id: str = "s") -> str:
    """The run loop that a schedule has opened."""
    with anyio.fail_after(10):
        while True:
            newest = (await agent.schedules.occurrences(schedule_id))[0].run_loop_id
            if newest is not None and agent.memory.short_term.state(newest) is not None:
                return newest
            await anyio.sleep(0.005)
