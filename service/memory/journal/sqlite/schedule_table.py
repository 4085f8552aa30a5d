"""The tables of schedules and of the times at which they were due.

They live in the journal's file: that a time has come is written in the very transaction that opens
its run loop. What is due next is kept in memory too, for whoever waits for it, and so are the
grants, for the brain, which reads no files.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

import anyio
from anyio import to_thread

from service.domain.errors import ConflictError, NotFoundError
from service.memory.journal.schedule_store import Opened, Pending
from service.memory.journal.sqlite import schedule_rows
from service.memory.journal.sqlite.schedule_rows import (
    OCCURRENCE,
    SCHEDULE,
    columns,
    occurrence_of,
    schedule_of,
)
from service.schedules.schedule import (
    MOST_SCHEDULES,
    Occurrence,
    Schedule,
    ScheduleState,
    Settlement,
)
from service.storage.clock import millis_of, moment_of
from service.storage.concurrency import run_to_end
from service.storage.sqlite_file import Row, SqliteFile

log = logging.getLogger(__name__)


class _Entry(NamedTuple):
    schedule: Schedule
    due: datetime | None
    """Its next time, also while it is paused."""


class ScheduleTable:
    """`Schedules` in the journal's file; shares its lock of one writer.

    All but `load` is for the event loop's thread.
    """

    def __init__(self, file: SqliteFile, lock: anyio.Lock, threads: anyio.CapacityLimiter) -> None:
        self._file = file
        self._lock = lock
        self._threads = threads
        self._all: MappingProxyType[str, _Entry] = MappingProxyType({})
        self._grants: MappingProxyType[str, frozenset[str]] = MappingProxyType({})
        self.changed = anyio.Event()

    def load(self) -> None:
        """Read the tables, once their file is open."""
        rows = self._file.select(
            f"SELECT {columns('schedules', SCHEDULE)}, occurrences.due FROM schedules"
            " LEFT JOIN occurrences ON schedule_id = id AND occurrences.state = 'pending'"
        )
        entries: dict[str, _Entry] = {}
        for *row, due in rows:
            try:
                schedule = schedule_of(row)
            except ValueError as error:  # pydantic's errors are of this kind
                # One that another version wrote must not keep the rest from being told.
                log.error("schedule %s is left as it is, unread: %s", row[0], error)
            else:
                entries[schedule.id] = _Entry(schedule, None if due is None else moment_of(due))
        self._all = MappingProxyType(entries)
        self._load_grants()

    def _load_grants(self) -> None:
        granted = self._file.select(
            "SELECT occurrences.run_loop_id, grants FROM occurrences"
            " JOIN schedules ON id = schedule_id WHERE occurrences.run_loop_id IS NOT NULL"
            " AND occurrences.state = 'ran' AND kind = 'task'"
        )
        self._grants = MappingProxyType(
            {run_loop_id: frozenset(json.loads(grants)) for run_loop_id, grants in granted}
        )

    # --- what is kept in memory

    def of(self, owner: str) -> tuple[Schedule, ...]:
        """See `Schedules.of`."""
        mine = [each.schedule for each in self._all.values() if each.schedule.owner == owner]
        return tuple(sorted(mine, key=lambda each: (each.created_at, each.id), reverse=True))

    def find(self, schedule_id: str, *, owner: str) -> Schedule:
        """See `Schedules.find`."""
        entry = self._all.get(schedule_id)
        if entry is None or entry.schedule.owner != owner:
            raise NotFoundError(
                f"there is no schedule {schedule_id!r}", advice="`rondo schedules` lists them."
            )
        return entry.schedule

    def pending(self) -> tuple[Pending, ...]:
        """See `Schedules.pending`."""
        active = [
            Pending(each.schedule, each.due)
            for each in self._all.values()
            if each.schedule.state == "active" and each.due is not None
        ]
        return tuple(sorted(active, key=lambda each: (each.due, each.schedule.id)))

    def next_due(self, schedule_id: str) -> datetime | None:
        """See `Schedules.next_due`."""
        entry = self._all.get(schedule_id)
        return None if entry is None else entry.due

    def grants(self, run_loop_id: str) -> frozenset[str] | None:
        """See `Schedules.grants`."""
        return self._grants.get(run_loop_id)

    def take_over(self, settlement: Settlement) -> None:
        """Know of what became of a schedule, once that was written."""
        entry = self._all.get(settlement.schedule_id)
        if entry is None:
            return
        if entry.schedule.kind == "task":
            opened = {
                each.run_loop_id: frozenset(entry.schedule.grants)
                for each in settlement.occurrences
                if each.run_loop_id is not None and each.state == "ran"
            }
            self._grants = MappingProxyType({**self._grants, **opened})
        if settlement.pending is None:
            return
        ended = settlement.next_due is None
        schedule = replace(entry.schedule, state="ended") if ended else entry.schedule
        self._put(_Entry(schedule, settlement.next_due))

    def _put(self, entry: _Entry) -> None:
        self._all = MappingProxyType({**self._all, entry.schedule.id: entry})
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    # --- writing

    async def add(self, schedule: Schedule) -> Schedule:
        """See `Schedules.add`."""

        def write(db: sqlite3.Connection) -> None:
            schedule_rows.insert_schedule(db, schedule)
            first = Occurrence(schedule.id, schedule.timing.start, "pending")
            schedule_rows.insert_occurrences(db, [first])
            schedule_rows.trim(db, now=datetime.now(UTC))

        async def do() -> Schedule:
            async with self._lock:
                there = self._all.get(schedule.id)
                if there is not None:
                    if there.schedule.owner != schedule.owner:
                        raise ConflictError(f"the id {schedule.id} is taken")
                    return there.schedule
                mine = self.of(schedule.owner)
                if sum(each.state != "ended" for each in mine) >= MOST_SCHEDULES:
                    raise ConflictError(
                        f"there are {MOST_SCHEDULES} schedules already",
                        advice="Remove some: `rondo schedules` lists them.",
                    )
                await self._write(write)
                self._put(_Entry(schedule, schedule.timing.start))
            return schedule

        return await run_to_end(do())

    async def settle(self, settlement: Settlement) -> None:
        """See `Schedules.settle`."""

        async def do() -> None:
            async with self._lock:
                await self._write(lambda db: schedule_rows.settle(db, settlement))
                self.take_over(settlement)

        await run_to_end(do())

    async def set_paused(self, schedule_id: str, *, owner: str, paused: bool) -> Schedule:
        """See `Schedules.set_paused`."""
        state: ScheduleState = "paused" if paused else "active"

        async def do() -> Schedule:
            async with self._lock:
                schedule = self.find(schedule_id, owner=owner)
                if schedule.state == "ended":
                    raise ConflictError(
                        "this schedule has ended", advice="Add it anew: `rondo schedules add`."
                    )
                await self._write(
                    lambda db: db.execute(
                        "UPDATE schedules SET state = ? WHERE id = ?", (state, schedule_id)
                    )
                )
                changed = replace(schedule, state=state)
                self._put(_Entry(changed, self.next_due(schedule_id)))
            return changed

        return await run_to_end(do())

    async def remove(self, schedule_id: str, *, owner: str) -> Schedule:
        """See `Schedules.remove`."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM schedules WHERE id = ?", (schedule_id,))
            db.execute("DELETE FROM occurrences WHERE schedule_id = ?", (schedule_id,))

        async def do() -> Schedule:
            async with self._lock:
                schedule = self.find(schedule_id, owner=owner)
                await self._write(write)
                rest = {key: each for key, each in self._all.items() if key != schedule_id}
                self._all = MappingProxyType(rest)
                await to_thread.run_sync(self._load_grants, limiter=self._threads)
                self._wake()
            return schedule

        return await run_to_end(do())

    async def take_back(
        self,
        schedule_id: str,
        gone: Collection[Occurrence],
        shortened: Collection[Occurrence],
        due: datetime,
    ) -> None:
        """See `Schedules.take_back`."""

        def write(db: sqlite3.Connection) -> None:
            schedule_rows.delete_undone(db, schedule_id, (*gone, *shortened))
            pending = Occurrence(schedule_id, due, "pending")
            schedule_rows.insert_occurrences(db, (*shortened, pending))

        async def do() -> None:
            async with self._lock:
                entry = self._all.get(schedule_id)
                if entry is not None and entry.due is not None:
                    await self._write(write)
                    self._put(entry._replace(due=due))

        await run_to_end(do())

    async def mark_seen(self, run_loop_ids: Collection[str], *, owner: str) -> None:
        """See `Schedules.mark_seen`."""

        def write(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE occurrences SET seen = 1 WHERE seen = 0"
                " AND run_loop_id IN (SELECT value FROM json_each(?))"
                " AND schedule_id IN (SELECT id FROM schedules WHERE owner = ?)",
                (json.dumps(list(run_loop_ids)), owner),
            )

        async def do() -> None:
            async with self._lock:
                await self._write(write)

        if run_loop_ids:
            await run_to_end(do())

    async def _write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        def write() -> None:
            with self._file.transaction(durable=True) as db:
                work(db)

        await to_thread.run_sync(write, limiter=self._threads)

    # --- reading

    async def occurrences(self, schedule_id: str, *, limit: int) -> list[Occurrence]:
        """See `Schedules.occurrences`."""
        rows = await self._select(
            f"SELECT {OCCURRENCE} FROM occurrences WHERE schedule_id = ? ORDER BY due DESC LIMIT ?",
            (schedule_id, limit),
        )
        return [occurrence_of(row) for row in rows]

    async def decided_after(self, moment: datetime) -> list[Occurrence]:
        """See `Schedules.decided_after`."""
        rows = await self._select(
            f"SELECT {OCCURRENCE} FROM occurrences WHERE state != 'pending' AND due > ?1"
            f" UNION SELECT {OCCURRENCE} FROM occurrences WHERE through > ?1 ORDER BY due",
            (millis_of(moment),),
        )
        return [occurrence_of(row) for row in rows]

    async def unseen(self, owner: str, *, limit: int) -> list[Opened]:
        """See `Schedules.unseen`."""
        rows = await self._select(
            f"SELECT {columns('occurrences', OCCURRENCE)} FROM occurrences"
            " JOIN schedules ON id = schedule_id"
            " WHERE owner = ? AND seen = 0 AND occurrences.run_loop_id IS NOT NULL"
            " ORDER BY decided_at, due LIMIT ?",
            (owner, limit),
        )
        opened = (occurrence_of(row) for row in rows)
        return [
            Opened(self._all[each.schedule_id].schedule, each)
            for each in opened
            if each.schedule_id in self._all
        ]

    async def _select(self, query: str, values: tuple[object, ...]) -> list[Row]:
        return await to_thread.run_sync(self._file.select, query, values, limiter=self._threads)
