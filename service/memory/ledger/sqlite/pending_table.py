"""How far long-term memory has read the change feed, and the run loops that it has yet to archive.

Both are in the ledger's file: the place moves on in the transaction that lists what was read. So a
loop that cannot be archived just now keeps no other one waiting, and none is missed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence

from service.memory.journal.change_feed import Checkpoint
from service.memory.ledger.protocol import Key, Pending
from service.storage.sqlite_file import SqliteFile

PENDING_SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoint (     -- one row at most
    journal_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    hash BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS pending (        -- run loops that have changed since they were archived
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    change INTEGER NOT NULL,                -- the newest
    lost_words INTEGER NOT NULL,            -- 1: words were forgotten in it since
    problem TEXT,                           -- why it could not be archived the last time
    PRIMARY KEY (owner, run_loop_id)
) WITHOUT ROWID;
"""
DROP_PENDING = """
DROP TABLE IF EXISTS checkpoint;
DROP TABLE IF EXISTS pending;
"""
"""Has all of the journal compared with the ledger at the next start."""


class PendingTable:
    """The tables. The methods block; all raise StorageError when the disk refuses."""

    def __init__(self, file: SqliteFile, writing: threading.Lock) -> None:
        self._file = file
        self._writing = writing

    def checkpoint(self) -> Checkpoint | None:
        """How far the change feed was read; None: never, or it is to be read anew."""
        rows = self._file.select("SELECT journal_id, number, hash FROM checkpoint")
        return Checkpoint(*rows[0]) if rows else None

    def all(self) -> list[Pending]:
        """All run loops that are to be archived."""
        rows = self._file.select(
            "SELECT owner, run_loop_id, change, lost_words FROM pending ORDER BY change"
        )
        return [
            Pending(owner, loop_id, change, bool(lost)) for owner, loop_id, change, lost in rows
        ]

    def take_in(
        self, pending: Sequence[Pending], place: Checkpoint | None, *, anew: bool = False
    ) -> None:
        """See `PendingRunLoops.take_in`."""
        with self._writing, self._file.transaction(durable=False) as db:
            if anew:
                db.execute("DELETE FROM pending")
            db.executemany(
                "INSERT INTO pending VALUES (?, ?, ?, ?, NULL) ON CONFLICT DO UPDATE SET"
                " change = excluded.change, lost_words = max(lost_words, excluded.lost_words)",
                pending,
            )
            db.execute("DELETE FROM checkpoint")
            if place is not None:
                db.execute("INSERT INTO checkpoint VALUES (?, ?, ?)", place)

    def settle(self, archived: Mapping[Key, int]) -> None:
        """See `PendingRunLoops.settle`."""
        with self._writing, self._file.transaction(durable=False) as db:
            db.executemany(
                "DELETE FROM pending WHERE owner = ? AND run_loop_id = ? AND change <= ?",
                [(*key, change) for key, change in archived.items()],
            )

    def failed(self, key: Key, problem: str) -> None:
        """Write down why a run loop could not be archived."""
        with self._writing, self._file.transaction(durable=False) as db:
            db.execute(
                "UPDATE pending SET problem = ? WHERE owner = ? AND run_loop_id = ?",
                (problem, *key),
            )


def forget_pending(db: sqlite3.Connection, key: Key) -> None:
    """Within a transaction: strike off a run loop that is gone."""
    db.execute("DELETE FROM pending WHERE owner = ? AND run_loop_id = ?", key)


def forget_problem(db: sqlite3.Connection, key: Key) -> None:
    """Within a transaction: drop the reason why a run loop was not archived, which may quote it."""
    db.execute("UPDATE pending SET problem = NULL WHERE owner = ? AND run_loop_id = ?", key)


def looked_into(db: sqlite3.Connection) -> tuple[int, list[tuple[str, str | None]]]:
    """The place, and the ids of run loops that are listed with why they were not archived."""
    place = db.execute("SELECT number FROM checkpoint").fetchone()
    pending = db.execute("SELECT run_loop_id, problem FROM pending").fetchall()
    return place[0] if place else 0, pending
