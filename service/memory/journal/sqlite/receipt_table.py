"""The table of receipts: what was forgotten, and what of it is still to be done.

It lives in the journal's file. A receipt is written in the very transaction that takes the words
out of the journal, and names what is left to do elsewhere; so a crash at any later moment leaves
behind what the next start needs to finish. It holds numbers and ids, none of the words.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

import anyio
from anyio import to_thread

from service.domain.forgetting_terms import ForgetReceipt
from service.memory.journal.rewriting import Record
from service.storage.concurrency import run_to_end
from service.storage.sqlite_file import SqliteFile

SCHEMA = """
CREATE TABLE IF NOT EXISTS forgettings (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    finished INTEGER NOT NULL,  -- 1 once nothing is pending
    changed TEXT NOT NULL,      -- JSON: ids of the run loops that stayed and lost words
    receipt TEXT NOT NULL       -- JSON
) WITHOUT ROWID;
"""


def write(db: sqlite3.Connection, record: Record) -> None:
    """Within a transaction: keep a record, in place of the one of the same id."""
    db.execute(
        "INSERT OR REPLACE INTO forgettings VALUES (?, ?, ?, ?, ?)",
        (
            record.receipt.id,
            record.owner,
            not record.receipt.pending,
            json.dumps(record.changed),
            record.receipt.model_dump_json(),
        ),
    )


class ReceiptTable:
    """`Receipts` in the journal's file; shares its lock of one writer."""

    def __init__(self, file: SqliteFile, lock: anyio.Lock, threads: anyio.CapacityLimiter) -> None:
        self._file = file
        self._lock = lock
        self._threads = threads

    async def keep(self, record: Record) -> None:
        """See `Receipts.keep`."""
        await run_to_end(self._keep_in_turn(record))

    async def _keep_in_turn(self, record: Record) -> None:
        async with self._lock:
            await to_thread.run_sync(self._keep, record, limiter=self._threads)

    def _keep(self, record: Record) -> None:
        with self._file.transaction(durable=True) as db:
            write(db, record)

    def unfinished(self) -> list[Record]:
        """The records of which something is left to do, oldest first."""
        rows = self._file.select(
            "SELECT owner, changed, receipt FROM forgettings WHERE NOT finished ORDER BY id"
        )
        return list(_records(rows))

    def find(self, receipt_id: str) -> Record | None:
        """One record; None when there is none of this id."""
        rows = self._file.select(
            "SELECT owner, changed, receipt FROM forgettings WHERE id = ?", (receipt_id,)
        )
        return next(iter(_records(rows)), None)

    def of(self, owner: str, *, limit: int) -> list[ForgetReceipt]:
        """An owner's receipts, newest first."""
        rows = self._file.select(
            "SELECT owner, changed, receipt FROM forgettings WHERE owner = ?"
            " ORDER BY id DESC LIMIT ?",
            (owner, limit),
        )
        return [record.receipt for record in _records(rows)]

    def forgotten_whole(self) -> frozenset[tuple[str, str]]:
        """Owners and ids of all run loops that were ever forgotten whole."""
        rows = self._file.select(
            "SELECT owner, value FROM forgettings, json_each(forgettings.receipt, '$.run_loops')"
        )
        return frozenset((owner, run_loop_id) for owner, run_loop_id in rows)


def _records(rows: Iterable[tuple[str, str, str]]) -> Iterable[Record]:
    for owner, changed, receipt in rows:
        yield Record(owner, ForgetReceipt.model_validate_json(receipt), tuple(json.loads(changed)))
