"""The table of usage: one line for each model call, written together with its event.

A projection: all of it can be told from the ``usage`` events, but not as fast. What is missing, in
a journal that is older than the table, is brought in when the journal is opened. Only calls that
belong to no run loop, such as those that write notes, have no event: their lines are numbered
downwards from -1, and name no loop.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import anyio
from anyio import to_thread

from service.domain.history.events import BODY, Event, Usage, UsagePurpose
from service.domain.usage import Grouping, UsageLine, UsageTotals
from service.storage.clock import millis_of
from service.storage.concurrency import run_to_end
from service.storage.sqlite_file import Row, SqliteFile, Where

log = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS usage (
    seq INTEGER PRIMARY KEY,                -- of the event; below 0: there is none
    owner TEXT NOT NULL,
    at INTEGER NOT NULL,                    -- milliseconds since the epoch
    run_loop_id TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cost REAL,
    estimated INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS usage_of_owner ON usage (owner, at);
CREATE INDEX IF NOT EXISTS usage_of_all ON usage (at);
"""

_INSERT = "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TOTALS = (
    "count(*), sum(input_tokens), sum(output_tokens), sum(cached_input_tokens), sum(cost),"
    " count(*) - count(cost), sum(estimated)"
)
_KEYS: dict[Grouping, str] = {
    "day": "date(at / 1000, 'unixepoch', 'localtime')",
    "model": "model",
    "purpose": "purpose",
    "run_loop": "run_loop_id",
}
_MOST_FIRST = "sum(input_tokens) + sum(output_tokens) DESC, 1"
_BATCH = 1000


def project(db: sqlite3.Connection, events: Iterable[Event]) -> None:
    """Within a transaction that writes events: add a line for each model call among them."""
    rows = [
        _row(event.seq, event.owner, millis_of(event.at), event.run_loop_id, event.body)
        for event in events
        if isinstance(event.body, Usage)
    ]
    if rows:
        db.executemany(_INSERT, rows)


class UsageTable:
    """A `UsageLedger`: sums up the lines. The file is the journal's."""

    def __init__(self, file: SqliteFile, lock: anyio.Lock, threads: anyio.CapacityLimiter) -> None:
        self._file = file
        self._lock = lock
        self._threads = threads

    def catch_up(self) -> None:
        """Bring in the calls that came after the last line: those of a version without this table.

        Blocks. Reads no more than what came after the last call that is in the table.

        Raises:
            StorageError: the disk refuses.
        """
        rows = self._file.select("SELECT coalesce(max(seq), 0) FROM usage")
        last = rows[0][0]
        while page := self._file.select(
            "SELECT seq, owner, at, run_loop_id, body FROM events"
            # Bodies begin with their type, as pydantic writes them.
            """ WHERE seq > ? AND body LIKE '{"type":"usage"%' ORDER BY seq LIMIT ?""",
            (last, _BATCH),
        ):
            lines = [line for row in page if (line := _line_of(row)) is not None]
            with self._file.transaction(durable=False) as db:
                db.executemany(_INSERT, lines)
            last = page[-1][0]

    async def add(self, usage: Usage, *, owner: str, at: datetime, run_loop_id: str = "") -> None:
        """See `UsageLedger.add`."""
        await run_to_end(self._add_in_turn(usage, owner, at, run_loop_id))

    async def _add_in_turn(self, usage: Usage, owner: str, at: datetime, run_loop_id: str) -> None:
        async with self._lock:
            await to_thread.run_sync(
                self._add, usage, owner, at, run_loop_id, limiter=self._threads
            )

    def _add(self, usage: Usage, owner: str, at: datetime, run_loop_id: str) -> None:
        with self._file.transaction(durable=False) as db:
            lowest = db.execute("SELECT min(coalesce(min(seq), 0), 0) FROM usage").fetchone()[0]
            db.execute(_INSERT, _row(lowest - 1, owner, millis_of(at), run_loop_id, usage))

    async def spent(self, purpose: UsagePurpose, *, since: datetime) -> int:
        """See `UsageLedger.spent`."""
        rows = await self._select(
            "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM usage"
            " WHERE purpose = ? AND at >= ?",
            (purpose, millis_of(since)),
        )
        return int(rows[0][0])

    async def lines(
        self,
        *,
        owner: str,
        by: Grouping,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> list[UsageLine]:
        """See `UsageLedger.lines`."""
        where = _within(owner, since, until)
        order = "1 DESC" if by == "day" else _MOST_FIRST
        rows = await self._select(
            f"SELECT {_KEYS[by]}, {_TOTALS} FROM usage {where} GROUP BY 1 ORDER BY {order} LIMIT ?",
            (*where.values, limit),
        )
        goals: dict[str, str] = {}
        if by == "run_loop":
            marks = ",".join("?" * len(rows))
            goals = dict(
                await self._select(
                    f"SELECT id, goal FROM run_loops WHERE id IN ({marks})",
                    [row[0] for row in rows],
                )
            )
        return [UsageLine(key=key, goal=goals.get(key), **_totals(totals)) for key, *totals in rows]

    async def total(
        self, *, owner: str | None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals:
        """See `UsageLedger.total`."""
        where = _within(owner, since, until)
        rows = await self._select(f"SELECT {_TOTALS} FROM usage {where}", where.values)
        return UsageTotals(**_totals(rows[0]))

    async def _select(self, query: str, values: Sequence[Any]) -> list[Row]:
        return await to_thread.run_sync(self._file.select, query, values, limiter=self._threads)


def _within(owner: str | None, since: datetime | None, until: datetime | None) -> Where:
    where = Where()
    where.add("owner = ?", owner)
    where.add("at >= ?", None if since is None else millis_of(since))
    where.add("at < ?", None if until is None else millis_of(until))
    return where


def _totals(row: Sequence[Any]) -> dict[str, Any]:
    calls, given, said, cached, cost, without, estimated = row
    return {
        "calls": calls,
        "input_tokens": given or 0,
        "output_tokens": said or 0,
        "cached_input_tokens": cached or 0,
        "cost": cost,
        "calls_without_cost": without,
        "estimated_calls": estimated or 0,
    }


def _line_of(row: Row) -> Row | None:
    seq, owner, at, run_loop_id, body = row
    try:
        usage = BODY.validate_json(body)
    except ValueError as error:
        log.warning("event %s is not counted, as it cannot be read: %s", seq, error)
        return None
    return _row(seq, owner, at, run_loop_id, usage) if isinstance(usage, Usage) else None


def _row(seq: int | None, owner: str, at: int, run_loop_id: str, usage: Usage) -> Row:
    return (
        seq,
        owner,
        at,
        run_loop_id,
        usage.model,
        usage.purpose,
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_input_tokens,
        usage.cost,
        usage.estimated,
    )
