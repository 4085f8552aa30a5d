"""Standing approvals: what a person has allowed for good, until they take it back.

The table lives in the journal's file: a standing approval is written in the very transaction that
writes the answer by which it was given. It is kept in memory too, for the brain, which reads no
files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from types import MappingProxyType

import anyio
from anyio import to_thread

from service.domain.errors import NotFoundError
from service.memory.journal.standing_approvals import StandingApproval
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
"""


class ApprovalTable:
    """`StandingApprovals` in the journal's file; shares its lock of one writer.

    All but `load` is for the event loop's thread.
    """

    def __init__(self, file: SqliteFile, lock: anyio.Lock, threads: anyio.CapacityLimiter) -> None:
        self._file = file
        self._lock = lock
        self._threads = threads
        self._all: MappingProxyType[tuple[str, str], StandingApproval] = MappingProxyType({})

    def load(self) -> None:
        """Read the table, once its file is open."""
        rows = self._file.select(
            "SELECT owner, scope, tool, granted_at, run_loop_id FROM standing_approvals"
        )
        self._all = MappingProxyType(
            {
                (owner, scope): StandingApproval(owner, scope, tool, moment_of(at), run_loop_id)
                for owner, scope, tool, at, run_loop_id in rows
            }
        )

    def of(self, owner: str) -> tuple[StandingApproval, ...]:
        """What an owner has allowed, newest first."""
        mine = [each for each in self._all.values() if each.owner == owner]
        return tuple(sorted(mine, key=lambda each: each.granted_at, reverse=True))

    def scopes(self, owner: str) -> frozenset[str]:
        """The scopes of what an owner has allowed."""
        return frozenset(scope for whose, scope in self._all if whose == owner)

    async def revoke(self, scope: str, *, owner: str) -> StandingApproval:
        """See `StandingApprovals.revoke`."""
        return await run_to_end(self._revoke_in_turn(scope, owner))

    async def _revoke_in_turn(self, scope: str, owner: str) -> StandingApproval:
        async with self._lock:
            approval = self._all.get((owner, scope))
            if approval is None:
                raise NotFoundError(
                    f"there is no standing approval {scope!r}",
                    advice="`rondo approvals` lists them; a scope is given as it stands there.",
                )
            await to_thread.run_sync(self._delete, approval, limiter=self._threads)
            rest = {key: each for key, each in self._all.items() if each is not approval}
            self._all = MappingProxyType(rest)
        return approval

    def take_over(self, granted: Iterable[StandingApproval]) -> None:
        """Know of approvals that were written."""
        new = {(each.owner, each.scope): each for each in granted}
        if new:
            self._all = MappingProxyType({**self._all, **new})

    def _delete(self, approval: StandingApproval) -> None:
        with self._file.transaction(durable=True) as db:
            db.execute(
                "DELETE FROM standing_approvals WHERE owner = ? AND scope = ?",
                (approval.owner, approval.scope),
            )


def grant(db: sqlite3.Connection, granted: Iterable[StandingApproval]) -> None:
    """Within a transaction that writes the answer: write what it allows for good."""
    db.executemany(
        "INSERT INTO standing_approvals VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (owner, scope) DO UPDATE SET granted_at = excluded.granted_at,"
        " run_loop_id = excluded.run_loop_id",
        [
            (each.owner, each.scope, each.tool, millis_of(each.granted_at), each.run_loop_id)
            for each in granted
        ],
    )
