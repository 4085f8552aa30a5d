"""Standing approvals: what a person has allowed for good, until they take it back.

The tables live in the journal's file: a standing approval is written in the very transaction that
writes the answer by which it was given. It is kept in memory too, for the brain, which reads no
files.

What is narrowed stands in a table of its own: a version that knows nothing of narrowing does not
find it, and asks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from types import MappingProxyType

import anyio
from anyio import to_thread

from service.domain.history.approval_rules import exact_arguments
from service.memory.journal.standing_approvals import (
    Narrow,
    StandingApproval,
    meant_by,
    no_such_approval,
)
from service.storage.clock import millis_of, moment_of
from service.storage.concurrency import run_to_end
from service.storage.sqlite_file import SqliteFile

SCHEMA = """
CREATE TABLE IF NOT EXISTS standing_approvals (
    owner TEXT NOT NULL,
    scope TEXT NOT NULL,
    tool TEXT NOT NULL,
    granted_at INTEGER NOT NULL,            -- milliseconds since the epoch
    run_loop_id TEXT NOT NULL,
    PRIMARY KEY (owner, scope)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS narrowed_approvals (
    owner TEXT NOT NULL,
    scope TEXT NOT NULL,
    arguments TEXT NOT NULL,                -- JSON; '' for any
    tool TEXT NOT NULL,
    granted_at INTEGER NOT NULL,            -- milliseconds since the epoch
    until INTEGER,                          -- likewise; NULL for no end
    run_loop_id TEXT NOT NULL,
    PRIMARY KEY (owner, scope, arguments)
) WITHOUT ROWID;
"""
_TABLES = ("standing_approvals", "narrowed_approvals")
_NARROWED = "owner, scope, tool, granted_at, run_loop_id, arguments, until"


class ApprovalTable:
    """`StandingApprovals` in the journal's file; shares its lock of one writer.

    All but `load` is for the event loop's thread.
    """

    def __init__(self, file: SqliteFile, lock: anyio.Lock, threads: anyio.CapacityLimiter) -> None:
        self._file = file
        self._lock = lock
        self._threads = threads
        self._all: MappingProxyType[tuple[str, str, str], StandingApproval] = MappingProxyType({})

    def load(self) -> None:
        """Read the tables, once their file is open."""
        wide = self._file.select(
            "SELECT owner, scope, tool, granted_at, run_loop_id FROM standing_approvals"
        )
        narrow = self._file.select(f"SELECT {_NARROWED} FROM narrowed_approvals")
        every = [
            *(
                StandingApproval(owner, scope, tool, moment_of(at), run_loop_id)
                for owner, scope, tool, at, run_loop_id in wide
            ),
            *(
                StandingApproval(
                    *(owner, scope, tool, moment_of(at), run_loop_id),
                    arguments=arguments or None,
                    until=None if until is None else moment_of(until),
                )
                for owner, scope, tool, at, run_loop_id, arguments, until in narrow
            ),
        ]
        self._all = MappingProxyType({_key(each): each for each in every})

    def of(self, owner: str) -> tuple[StandingApproval, ...]:
        """See `StandingApprovals.of`."""
        now = datetime.now(UTC)
        mine = [e for e in self._all.values() if e.owner == owner and not e.is_over(now)]
        return tuple(sorted(mine, key=lambda each: each.granted_at, reverse=True))

    def scopes(self, owner: str) -> frozenset[str]:
        """See `StandingApprovals.scopes`."""
        mine = (each for each in self._all.values() if each.owner == owner)
        return frozenset(each.scope for each in mine if not each.is_narrowed)

    def narrowed(self, owner: str) -> tuple[StandingApproval, ...]:
        """See `StandingApprovals.narrowed`."""
        mine = (each for each in self._all.values() if each.owner == owner)
        return tuple(each for each in mine if each.is_narrowed)

    async def revoke(self, scope: str, *, owner: str) -> StandingApproval:
        """See `StandingApprovals.revoke`."""
        return await run_to_end(self._revoke_in_turn(scope, owner))

    async def narrow(self, approval: StandingApproval, narrow: Narrow) -> None:
        """See `StandingApprovals.narrow`."""
        await run_to_end(self._narrow_in_turn(approval, narrow))

    async def _revoke_in_turn(self, scope: str, owner: str) -> StandingApproval:
        async with self._lock:
            revoked = meant_by(self.of(owner), scope)
            if not revoked:
                raise no_such_approval(scope)
            await to_thread.run_sync(self._replace, revoked, [], limiter=self._threads)
            self.take_over([], revoked)
        return revoked[0]

    async def _narrow_in_turn(self, approval: StandingApproval, narrow: Narrow) -> None:
        async with self._lock:
            if self._all.get(_key(approval)) != approval:
                raise no_such_approval(approval.scope)
            narrower = narrow(approval)
            await to_thread.run_sync(self._replace, [approval], narrower, limiter=self._threads)
            self.take_over(narrower, [approval])

    def over(self, now: datetime) -> list[StandingApproval]:
        """Those whose time is over, and that are still kept."""
        return [each for each in self._all.values() if each.is_over(now)]

    def take_over(
        self, granted: Iterable[StandingApproval], gone: Collection[StandingApproval] = ()
    ) -> None:
        """Know of approvals that were written, and of others that are gone."""
        new = {_key(each): each for each in granted}
        if new or gone:
            left = {key: each for key, each in self._all.items() if each not in gone}
            self._all = MappingProxyType({**left, **new})

    def _replace(
        self, gone: Collection[StandingApproval], granted: Collection[StandingApproval]
    ) -> None:
        with self._file.transaction(durable=True) as db:
            remove(db, gone)
            grant(db, granted)


def grant(db: sqlite3.Connection, granted: Iterable[StandingApproval]) -> None:
    """Within a transaction that writes the answer: write what it allows for good. The newest yes
    stands in the place of an earlier one to the same."""
    granted = list(granted)
    remove(db, granted)
    db.executemany(
        "INSERT INTO standing_approvals VALUES (?, ?, ?, ?, ?)",
        [
            (each.owner, each.scope, each.tool, millis_of(each.granted_at), each.run_loop_id)
            for each in granted
            if not each.is_narrowed
        ],
    )
    db.executemany(
        f"INSERT INTO narrowed_approvals ({_NARROWED}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(each.owner, each.scope, each.tool, millis_of(each.granted_at), each.run_loop_id),
                each.arguments or "",
                None if each.until is None else millis_of(each.until),
            )
            for each in granted
            if each.is_narrowed
        ],
    )


def remove(db: sqlite3.Connection, gone: Iterable[StandingApproval]) -> None:
    """Within a transaction: let nothing be left of approvals."""
    for each in gone:
        owner, scope, arguments = _key(each)
        if not arguments:
            db.execute(
                "DELETE FROM standing_approvals WHERE owner = ? AND scope = ?", (owner, scope)
            )
        db.execute(
            "DELETE FROM narrowed_approvals WHERE owner = ? AND scope = ? AND arguments = ?",
            (owner, scope, arguments),
        )


def remove_of(
    db: sqlite3.Connection,
    *,
    owner: str | None = None,
    scopes: str | None = None,
    run_loop_id: str | None = None,
) -> int:
    """Within a transaction: let nothing be left of the approvals of an owner and a run loop (None:
    of any), of scopes that JSON lists (None: of all); how many there were."""
    return sum(
        db.execute(
            f"DELETE FROM {table} WHERE (?1 IS NULL OR owner = ?1)"
            " AND (?2 IS NULL OR scope IN (SELECT value FROM json_each(?2)))"
            " AND (?3 IS NULL OR run_loop_id = ?3)",
            (owner, scopes, run_loop_id),
        ).rowcount
        for table in _TABLES
    )


def remove_unsaid(db: sqlite3.Connection, run_loop_id: str, called: Iterable[str]) -> int:
    """Within a transaction: of the approvals that a run loop gave, remove those to arguments with
    which nothing is called in what stays of it; how many there were."""
    left = {exact_arguments(each) for each in called}
    rows = db.execute(
        "SELECT owner, scope, arguments FROM narrowed_approvals"
        " WHERE run_loop_id = ? AND arguments != ''",
        (run_loop_id,),
    ).fetchall()
    unsaid = [row for row in rows if row[2] not in left]
    db.executemany(
        "DELETE FROM narrowed_approvals WHERE owner = ? AND scope = ? AND arguments = ?", unsaid
    )
    return len(unsaid)


def _key(approval: StandingApproval) -> tuple[str, str, str]:
    return approval.owner, approval.scope, approval.arguments or ""
