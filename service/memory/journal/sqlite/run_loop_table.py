"""The table of run loops: one line each, for lists, written together with their events.

A projection: all of it can be told from the events, but not as fast.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import anyio
from anyio import to_thread

from service.domain.errors import NotFoundError
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoopSummary, Status
from service.memory.journal.event_reader import Outline
from service.storage.clock import millis_of, moment_of
from service.storage.sqlite_file import Row, SqliteFile, Where

log = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS run_loops (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    goal TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    completed_at INTEGER,
    predecessor_id TEXT,
    iteration_count INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS run_loops_of_owner ON run_loops (owner, created_at, id);
CREATE INDEX IF NOT EXISTS run_loops_by_status ON run_loops (status);
"""


def project(
    db: sqlite3.Connection, state: RunLoopState, before: RunLoopState | None = None
) -> None:
    """Within a transaction that writes events: bring a loop's line up to date.

    Args:
        db: the journal's writing connection.
        state: as it is.
        before: as its line is, where that is known. Columns that are in an index cost as much as
            the rest of the commit to write, also where they stay the same.
    """
    if before is not None and _indexed(before) == _indexed(state):
        db.execute(
            "UPDATE run_loops SET updated_at = ?, iteration_count = ? WHERE id = ?",
            (millis_of(state.updated_at), state.iteration_count, state.id),
        )
        return
    db.execute(
        "INSERT INTO run_loops VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET goal = excluded.goal, status = excluded.status,"
        " created_at = excluded.created_at, predecessor_id = excluded.predecessor_id,"
        " updated_at = excluded.updated_at, completed_at = excluded.completed_at,"
        " iteration_count = excluded.iteration_count",
        _projection(state),
    )


class RunLoopTable:
    """A `RunLoopIndex` over the lines. The file is the journal's."""

    def __init__(self, file: SqliteFile, threads: anyio.CapacityLimiter) -> None:
        self._file = file
        self._threads = threads

    async def summaries(
        self,
        *,
        owner: str,
        statuses: frozenset[Status] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before_id: str | None = None,
        limit: int = 50,
    ) -> list[RunLoopSummary]:
        """See `RunLoopIndex.summaries`."""
        where = Where("owner = ?", owner)
        if statuses is not None:
            where.add(f"status IN ({','.join('?' * len(statuses))})", *sorted(statuses))
        where.add("created_at >= ?", since and millis_of(since))
        where.add("created_at < ?", until and millis_of(until))
        where.add(
            "(created_at, id) < (SELECT created_at, id FROM run_loops WHERE id = ?)", before_id
        )
        rows = await self._in_thread(
            # As bytes: a page that is damaged must not keep the other loops from being listed.
            "SELECT id, owner, CAST(goal AS BLOB), status, created_at, updated_at, completed_at,"
            f" predecessor_id, iteration_count FROM run_loops {where}"
            " ORDER BY created_at DESC, id DESC LIMIT ?",
            (*where.values, limit),
        )
        return [summary for row in rows if (summary := _summary(row)) is not None]

    async def oldest(
        self,
        *,
        owner: str,
        since: datetime | None = None,
        until: datetime | None = None,
        run_loop_id: str | None = None,
        after: tuple[int, str] | None = None,
        limit: int = 500,
    ) -> list[tuple[int, str]]:
        """See `RunLoopIndex.oldest`."""
        where = _of(owner, since, until, run_loop_id)
        if after is not None:
            where.add("(created_at, id) > (?, ?)", *after)
        rows = await self._in_thread(
            f"SELECT created_at, id FROM run_loops {where} ORDER BY created_at, id LIMIT ?",
            (*where.values, limit),
        )
        return [(at, loop_id) for at, loop_id in rows]

    async def count(
        self,
        *,
        owner: str,
        since: datetime | None = None,
        until: datetime | None = None,
        run_loop_id: str | None = None,
    ) -> int:
        """How many run loops `oldest` gives in all."""
        where = _of(owner, since, until, run_loop_id)
        rows = await self._in_thread(f"SELECT count(*) FROM run_loops {where}", where.values)
        counted: int = rows[0][0]
        return counted

    async def check_owner(self, run_loop_id: str, *, owner: str | None) -> None:
        """See `RunLoopIndex.check_owner`."""
        rows = await self._in_thread("SELECT owner FROM run_loops WHERE id = ?", (run_loop_id,))
        if not rows or owner not in (None, rows[0][0]):
            raise NotFoundError(
                f"there is no run loop {run_loop_id}", advice="`rondo loops list` shows all."
            )

    def outlines(self) -> list[Outline]:
        """All loops, of all owners, oldest first. Blocks."""
        rows = self._file.select(
            "SELECT owner, id, status, iteration_count, completed_at FROM run_loops"
            " ORDER BY created_at, id"
        )
        return [Outline(*row) for row in rows]

    def ids(self, statuses: frozenset[Status]) -> list[str]:
        """The ids of all loops of these statuses, oldest first. Blocks."""
        rows = self._file.select(
            f"SELECT id FROM run_loops WHERE status IN ({','.join('?' * len(statuses))})"
            " ORDER BY created_at, id",
            sorted(statuses),
        )
        return [row[0] for row in rows]

    def set_aside(self, run_loop_id: str) -> None:
        """Show a loop whose history cannot be read as failed. Blocks."""
        with self._file.transaction(durable=True) as db:
            db.execute("UPDATE run_loops SET status = 'failed' WHERE id = ?", (run_loop_id,))

    async def _in_thread(self, query: str, values: Sequence[Any]) -> list[Row]:
        return await to_thread.run_sync(self._file.select, query, values, limiter=self._threads)


def _of(
    owner: str, since: datetime | None, until: datetime | None, run_loop_id: str | None
) -> Where:
    where = Where("owner = ?", owner)
    where.add("created_at >= ?", since and millis_of(since))
    where.add("created_at < ?", until and millis_of(until))
    where.add("id = ?", run_loop_id)
    return where


def _indexed(state: RunLoopState) -> Row:
    """What seldom changes."""
    return (state.status, state.goal, state.created_at, state.completed_at, state.predecessor_id)


def _projection(state: RunLoopState) -> Row:
    return (
        state.id,
        state.owner,
        state.goal,
        state.status,
        millis_of(state.created_at),
        millis_of(state.updated_at),
        millis_of(state.completed_at) if state.completed_at else None,
        state.predecessor_id,
        state.iteration_count,
    )


def _summary(row: Row) -> RunLoopSummary | None:
    """A loop as it is listed; None where the row is damaged, which the log tells."""
    try:
        return RunLoopSummary(
            id=row[0],
            owner=row[1],
            goal=bytes(row[2]).decode("utf-8", "replace"),
            status=row[3],
            created_at=moment_of(row[4]),
            updated_at=moment_of(row[5]),
            completed_at=None if row[6] is None else moment_of(row[6]),
            predecessor_id=row[7],
            iteration_count=row[8],
        )
    except (TypeError, ValueError, OverflowError) as error:
        log.error(
            "run loop %s is not listed: its line in the journal is damaged: %s", row[0], error
        )
        return None
