"""Schedules that are due at once."""

from __future__ import annotations

from datetime import UTC, datetime

from service.agent.agent import Agent
from service.schedules.recurrence import Timing
from service.schedules.schedule import Schedule, ScheduleKind


async def due_now(
    agent: Agent, what: str, kind: ScheduleKind = "reminder", *grants: str, name: str = "s"
) -> Schedule:
    timing = Timing(start=datetime.now(UTC), zone="UTC")
    schedule = Schedule(name, "me", kind, what, timing, timing.start, grants=grants)
    return await agent.memory.journal.schedules.add(schedule)
