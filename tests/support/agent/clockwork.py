"""A journal and a runner of schedules whose clock a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from service.agent.schedules.schedule_runner import ScheduleRunner
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.schedules.recurrence import Recurrence, Timing
from service.schedules.schedule import SCHEDULED, Occurrence, Schedule, ScheduleKind

T0 = datetime(2026, 10, 23, 6, 30, tzinfo=UTC)  # two days before clocks are changed in Berlin
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Clockwork:
    """A journal and a runner whose clock a test sets."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.sqlite3"
        self.now = T0
        self.opened: list[tuple[datetime, datetime]] = []
        """Of each time that ran: the clock at that moment, and the time."""
        self._seq = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SqliteJournal]:
        self.journal = SqliteJournal(self.path)
        self.journal.open(lambda change: None)
        self.runner = ScheduleRunner(self.journal, lambda run_loop_id: None, now=lambda: self.now)
        try:
            yield self.journal
        finally:
            await self.journal.aclose()

    async def add(
        self, timing: Timing, *, kind: ScheduleKind = "reminder", name: str = "s"
    ) -> Schedule:
        schedule = Schedule(name, "me", kind, f"water {name}", timing, self.now)
        return await self.journal.schedules.add(schedule)

    async def look(self) -> list[str]:
        """What is due now; what the run loops that opened say, a task with an arrow before it."""
        await self.runner.look()
        said: list[str] = []
        for event in await self.journal.read(after=self._seq):
            self._seq = event.seq or 0
            if event.body.type == "message.received":
                due = datetime.fromisoformat(event.body.metadata[SCHEDULED]["due"])
                self.opened.append((self.now, due))
                said.append(f"→ {event.body.message.text}")
            elif event.body.type == "message.completed":
                said[-1] = event.body.message.text
        return said

    async def occurrences(self, name: str = "s") -> list[Occurrence]:
        found = await self.journal.schedules.occurrences(name, limit=100_000)
        return found[::-1]


def in_words(occurrences: Sequence[Occurrence]) -> list[str]:
    return [
        f"{each.due:%d %H:%M} {each.state} {each.reason or ''}{f' {each.count}' * (each.count > 1)}"
        for each in occurrences
    ]


def once(at: datetime) -> Timing:
    return Timing(start=at, zone="UTC")


def daily(*hours: int) -> Timing:
    recurrence = Recurrence(unit="day", times=tuple(time(each) for each in hours))
    return Timing.recurring(recurrence, zone="UTC", now=T0)
