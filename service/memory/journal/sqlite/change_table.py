"""The table of changes: written within the transaction that makes them, and read back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b

from service.domain.ids import new_id
from service.memory.journal.change_feed import Change, ChangeFeed, Checkpoint
from service.storage.sqlite_file import Row, SqliteFile, insert

SCHEMA = """
CREATE TABLE IF NOT EXISTS journal_id (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS changes (
    number INTEGER PRIMARY KEY,             -- without gaps
    at INTEGER NOT NULL,                    -- milliseconds since the epoch
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    first_seq INTEGER,                      -- of the events that were written; NULL: none were
    last_seq INTEGER,
    copied INTEGER NOT NULL,                -- 1: a fork's beginning
    hash BLOB NOT NULL                      -- over this row and the hash before it
);
"""

_FIRST_HASH = b""
_INSERT = "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_COLUMNS = "number, at, kind, owner, run_loop_id, first_seq, last_seq, copied"


class ChangeTable(ChangeFeed):
    """The `ChangeFeed` of the journal's file."""

    def __init__(self, file: SqliteFile) -> None:
        super().__init__()
        self._file = file
        self._journal_id = ""
        self._hash = _FIRST_HASH
        self._written = _FIRST_HASH
        """The newest hash of a transaction that may yet fail."""

    def open(self) -> None:
        """Find out how far the journal has come; give one of an older version its id. Blocks.

        Raises:
            StorageError: the file cannot be read or written.
        """
        rows = self._file.select("SELECT id FROM journal_id")
        if not rows:
            with self._file.transaction(durable=True) as db:
                db.execute("INSERT INTO journal_id VALUES (?)", (new_id(),))
                self._take_over_grown_imports(db)
            rows = self._file.select("SELECT id FROM journal_id")
        self._journal_id = rows[0][0]
        newest = self._file.select("SELECT number, hash FROM changes ORDER BY number DESC LIMIT 1")
        self._last, self._hash = newest[0] if newest else (0, _FIRST_HASH)

    def _take_over_grown_imports(self, db: sqlite3.Connection) -> None:
        """Earlier versions listed the imports that long-term memory might lack by themselves."""
        if not db.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'grown_imports' AND type = 'table'"
        ).fetchone():
            return
        rows = db.execute(
            "SELECT id, owner, updated_at FROM run_loops"
            " WHERE id IN (SELECT run_loop_id FROM grown_imports)"
        ).fetchall()
        self.write(
            db,
            [
                Change(
                    number=number, at=updated_at, kind="imported", owner=owner, run_loop_id=loop_id
                )
                for number, (loop_id, owner, updated_at) in enumerate(rows, start=1)
            ],
        )
        db.execute("DROP TABLE grown_imports")

    def write(self, db: sqlite3.Connection, changes: Sequence[Change]) -> None:
        """Within the transaction that makes them: write changes down. `publish` them afterwards."""
        rows: list[Row] = []
        digest = self._hash
        for each in changes:
            row = (
                each.number,
                each.at,
                each.kind,
                each.owner,
                each.run_loop_id,
                each.first_seq,
                each.last_seq,
                each.copied,
            )
            digest = blake2b(digest + repr(row).encode(), digest_size=16).digest()
            rows.append((*row, digest))
        insert(db, _INSERT, rows)
        self._written = digest

    def publish(self, changes: Sequence[Change]) -> None:
        """See `ChangeFeed.publish`."""
        self._hash = self._written
        super().publish(changes)

    def read(self, *, after: int, limit: int) -> list[Change]:
        """See `ChangeFeed.read`."""
        rows = self._file.select(
            f"SELECT {_COLUMNS} FROM changes WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        )
        return [_change(row) for row in rows]

    def checkpoint(self, number: int) -> Checkpoint:
        """See `ChangeFeed.checkpoint`."""
        return Checkpoint(self._journal_id, number, self._hash_of(number) or _FIRST_HASH)

    def matches(self, checkpoint: Checkpoint) -> bool:
        """See `ChangeFeed.matches`."""
        return (
            checkpoint.journal_id == self._journal_id
            and self._hash_of(checkpoint.number) == checkpoint.hash
        )

    def _hash_of(self, number: int) -> bytes | None:
        """None where that change never was, or is not kept any more."""
        if number == 0:
            first = self._file.select("SELECT min(number) FROM changes")[0][0]
            return _FIRST_HASH if first in (None, 1) else None
        rows = self._file.select("SELECT hash FROM changes WHERE number = ?", (number,))
        return rows[0][0] if rows else None


def trim(db: sqlite3.Connection, *, before: int, limit: int) -> int:
    """Within a transaction: delete the oldest changes, which all durable readers have passed.

    Args:
        db: the journal's writing connection.
        before: those with a smaller number.
        limit: at most so many.

    Returns:
        How many were deleted.
    """
    return db.execute(
        "DELETE FROM changes WHERE number IN"
        " (SELECT number FROM changes WHERE number < ? ORDER BY number LIMIT ?)",
        (before, limit),
    ).rowcount


def _change(row: Row) -> Change:
    return Change(
        number=row[0],
        at=row[1],
        kind=row[2],
        owner=row[3],
        run_loop_id=row[4],
        first_seq=row[5],
        last_seq=row[6],
        copied=bool(row[7]),
    )


def looked_into(db: sqlite3.Connection, *, after: int) -> tuple[int, int | None, set[str]]:
    """How many changes there are after a number, when the oldest of these was made (milliseconds
    since the epoch), and which run loops are at work."""
    count, oldest = db.execute(
        "SELECT count(*), min(at) FROM changes WHERE number > ?", (after,)
    ).fetchone()
    at_work = db.execute("SELECT id FROM run_loops WHERE status = 'running'").fetchall()
    return count, oldest, {row[0] for row in at_work}
