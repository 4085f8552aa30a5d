"""The rows of schedules and of the times at which they were due, within a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter

from service.domain.errors import ConflictError
from service.schedules.recurrence import Timing
from service.schedules.schedule import (
    Occurrence,
    OccurrenceReason,
    OccurrenceState,
    Schedule,
    ScheduleKind,
    ScheduleState,
    Settlement,
    stands_in_arguments,
)
from service.storage.clock import millis_of, moment_of
from service.storage.sqlite_file import Row
from service.tuning import SCHEDULE_KEPT_DAYS, SCHEDULE_KEPT_ROWS

SCHEMA = """
CREATE TABLE IF NOT EXISTS schedules (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    what TEXT NOT NULL,
    timing TEXT NOT NULL,                   -- JSON
    created_at INTEGER NOT NULL,            -- milliseconds since the epoch, as all times here
    state TEXT NOT NULL,
    run_loop_id TEXT,                       -- in which it was made
    grants TEXT NOT NULL                    -- JSON
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS occurrences (
    schedule_id TEXT NOT NULL,
    due INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    decided_at INTEGER,
    run_loop_id TEXT,                       -- that it opened
    through INTEGER,                        -- for several that were skipped: the last
    count INTEGER NOT NULL DEFAULT 1,
    seen INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (schedule_id, due)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS pending_occurrences ON occurrences (schedule_id)
    WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS opened_by_schedules ON occurrences (run_loop_id)
    WHERE run_loop_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS skipped_together ON occurrences (through) WHERE through IS NOT NULL;
CREATE INDEX IF NOT EXISTS decided_occurrences ON occurrences (due) WHERE state != 'pending';
"""
SCHEDULE = "id, owner, kind, what, timing, created_at, state, run_loop_id, grants"
OCCURRENCE = "schedule_id, due, state, reason, decided_at, run_loop_id, through, count, seen"

_KIND: TypeAdapter[ScheduleKind] = TypeAdapter(ScheduleKind)
_STATE: TypeAdapter[ScheduleState] = TypeAdapter(ScheduleState)
_OCCURRENCE_STATE: TypeAdapter[OccurrenceState] = TypeAdapter(OccurrenceState)
_REASON: TypeAdapter[OccurrenceReason | None] = TypeAdapter(OccurrenceReason | None)


def settle(db: sqlite3.Connection, settlement: Settlement) -> None:
    """Within a transaction: write what became of a schedule's times.

    Raises:
        ConflictError: it was settled, changed or removed meanwhile; nothing may be written.
    """
    schedule_id = settlement.schedule_id
    if settlement.pending is not None:
        gone = db.execute(
            "DELETE FROM occurrences WHERE schedule_id = ? AND due = ? AND state = 'pending'"
            " AND EXISTS (SELECT 1 FROM schedules WHERE id = schedule_id AND schedules.state = ?)",
            (
                schedule_id,
                millis_of(settlement.pending),
                "paused" if settlement.while_paused else "active",
            ),
        )
        is_there = gone.rowcount == 1
    else:
        query = "SELECT 1 FROM schedules WHERE id = ?"
        is_there = db.execute(query, (schedule_id,)).fetchone() is not None
    if not is_there:
        raise ConflictError(f"schedule {schedule_id} was changed meanwhile")
    try:
        insert_occurrences(db, settlement.occurrences)
    except sqlite3.IntegrityError as error:
        raise ConflictError(f"of a time of schedule {schedule_id} was decided before") from error
    if settlement.pending is None:
        return
    if settlement.next_due is not None:
        insert_occurrences(db, [Occurrence(schedule_id, settlement.next_due, "pending")])
    else:
        db.execute("UPDATE schedules SET state = 'ended' WHERE id = ?", (schedule_id,))
    db.execute(
        "DELETE FROM occurrences WHERE schedule_id = ?1 AND state != 'pending' AND due <"
        " (SELECT min(due) FROM (SELECT due FROM occurrences WHERE schedule_id = ?1"
        " ORDER BY due DESC LIMIT ?2))",
        (schedule_id, SCHEDULE_KEPT_ROWS),
    )


def trim(db: sqlite3.Connection, *, now: datetime) -> None:
    """Within a transaction: delete schedules that ended long ago, once their owner was told."""
    db.execute(
        "DELETE FROM schedules WHERE state = 'ended' AND NOT EXISTS (SELECT 1 FROM occurrences"
        " WHERE schedule_id = id AND (decided_at > ? OR (run_loop_id IS NOT NULL AND seen = 0)))",
        (millis_of(now - timedelta(days=SCHEDULE_KEPT_DAYS)),),
    )
    _delete_orphans(db)


def remove_with_loop(db: sqlite3.Connection, run_loop_id: str) -> int:
    """Within a transaction: delete the schedules that were made in a run loop, and those that have
    ended with it; how many. What it tells of others is that they had opened one."""
    gone = db.execute(
        "DELETE FROM schedules WHERE run_loop_id = ?1 OR (state = 'ended' AND id IN"
        " (SELECT schedule_id FROM occurrences WHERE run_loop_id = ?1))",
        (run_loop_id,),
    ).rowcount
    _delete_orphans(db)
    db.execute("UPDATE occurrences SET run_loop_id = NULL WHERE run_loop_id = ?", (run_loop_id,))
    return gone


def remove_unsaid(
    db: sqlite3.Connection, run_loop_id: str, *, called: Iterable[str], said: Iterable[str]
) -> int:
    """Within a transaction: delete the schedules that belonged to words that a run loop has lost;
    how many.

    Args:
        db: the writing connection.
        run_loop_id: of the run loop.
        called: arguments of the calls that it still holds, by one of which a schedule was made.
        said: what its person has said, as far as it still holds that: the words of a schedule that
            opened it, and has ended with it.
    """
    rows = db.execute(
        "SELECT id, what, run_loop_id IS ?1 FROM schedules WHERE run_loop_id = ?1"
        " OR (state = 'ended' AND id IN"
        " (SELECT schedule_id FROM occurrences WHERE run_loop_id = ?1))",
        (run_loop_id,),
    ).fetchall()
    if not rows:
        return 0
    arguments, words = "\n".join(called), "\n".join(said)
    gone = [
        (schedule_id,)
        for schedule_id, what, made_here in rows
        if not (stands_in_arguments(what, arguments) if made_here else what in words)
    ]
    db.executemany("DELETE FROM schedules WHERE id = ?", gone)
    _delete_orphans(db)
    return len(gone)


def remove_of(db: sqlite3.Connection, owner: str) -> int:
    """Within a transaction: delete all schedules of an owner; how many."""
    gone = db.execute("DELETE FROM schedules WHERE owner = ?", (owner,)).rowcount
    _delete_orphans(db)
    return gone


def _delete_orphans(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM occurrences WHERE schedule_id NOT IN (SELECT id FROM schedules)")


def insert_occurrences(db: sqlite3.Connection, occurrences: Iterable[Occurrence]) -> None:
    """Write new rows, of times of which there are none."""
    db.executemany(
        f"INSERT INTO occurrences ({OCCURRENCE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(each.schedule_id, millis_of(each.due), each.state, each.reason),
                None if each.decided_at is None else millis_of(each.decided_at),
                each.run_loop_id,
                None if each.through is None else millis_of(each.through),
                *(each.count, int(each.seen)),
            )
            for each in occurrences
        ],
    )


def delete_undone(db: sqlite3.Connection, schedule_id: str, skipped: Iterable[Occurrence]) -> None:
    """Within a transaction: delete the pending time of a schedule, and some that were skipped."""
    db.execute(
        "DELETE FROM occurrences WHERE schedule_id = ? AND state = 'pending'", (schedule_id,)
    )
    db.executemany(
        "DELETE FROM occurrences WHERE schedule_id = ? AND due = ? AND state = 'skipped'",
        [(schedule_id, millis_of(each.due)) for each in skipped],
    )


def insert_schedule(db: sqlite3.Connection, schedule: Schedule) -> None:
    """Write a new row."""
    db.execute(
        f"INSERT INTO schedules ({SCHEDULE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(schedule.id, schedule.owner, schedule.kind, schedule.what),
            schedule.timing.model_dump_json(),
            *(millis_of(schedule.created_at), schedule.state, schedule.run_loop_id),
            json.dumps(schedule.grants),
        ),
    )


def columns(table: str, names: str) -> str:
    """The names of columns, with that of their table.

    >>> columns("schedules", "id, owner")
    'schedules.id, schedules.owner'
    """
    return ", ".join(f"{table}.{each}" for each in names.split(", "))


def schedule_of(row: Sequence[Any]) -> Schedule:
    """A schedule, of the columns `SCHEDULE`.

    Raises:
        ValueError: it is of a form that cannot be read.
    """
    schedule_id, owner, kind, what, timing, created_at, state, run_loop_id, grants = row
    return Schedule(
        id=schedule_id,
        owner=owner,
        kind=_KIND.validate_python(kind),
        what=what,
        timing=Timing.model_validate_json(timing),
        created_at=moment_of(created_at),
        state=_STATE.validate_python(state),
        run_loop_id=run_loop_id,
        grants=tuple(json.loads(grants)),
    )


def occurrence_of(row: Row) -> Occurrence:
    """What became of a time, of the columns `OCCURRENCE`."""
    schedule_id, due, state, reason, decided_at, run_loop_id, through, count, seen = row
    return Occurrence(
        schedule_id=schedule_id,
        due=moment_of(due),
        state=_OCCURRENCE_STATE.validate_python(state),
        reason=_REASON.validate_python(reason),
        decided_at=None if decided_at is None else moment_of(decided_at),
        run_loop_id=run_loop_id,
        through=None if through is None else moment_of(through),
        count=count,
        seen=bool(seen),
    )
