"""The table of receipts: what was forgotten, and what of it is still to be done.

It lives in the journal's file. A receipt is written in the very transaction that takes the words
out of the journal, and names what is left to do elsewhere; so a crash at any later moment leaves
behind what the next start needs to finish. It holds numbers and ids, none of the words.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from service.domain.forgetting_terms import ForgetReceipt
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


@dataclass(frozen=True, slots=True)
class Record:
    """A receipt, and what finishing needs to know besides."""

    owner: str
    receipt: ForgetReceipt
    changed: tuple[str, ...]
    """Run loops that stayed and lost words: to be archived anew."""


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


def unfinished(file: SqliteFile) -> list[Record]:
    """The records of which something is left to do, oldest first. Blocks."""
    rows = file.select(
        "SELECT owner, changed, receipt FROM forgettings WHERE NOT finished ORDER BY id"
    )
    return list(_records(rows))


def find(file: SqliteFile, receipt_id: str) -> Record | None:
    """One record; None when there is none of this id. Blocks."""
    rows = file.select(
        "SELECT owner, changed, receipt FROM forgettings WHERE id = ?", (receipt_id,)
    )
    return next(iter(_records(rows)), None)


def receipts(file: SqliteFile, owner: str, *, limit: int) -> list[ForgetReceipt]:
    """An owner's receipts, newest first. Blocks."""
    rows = file.select(
        "SELECT owner, changed, receipt FROM forgettings WHERE owner = ? ORDER BY id DESC LIMIT ?",
        (owner, limit),
    )
    return [record.receipt for record in _records(rows)]


def forgotten_whole(file: SqliteFile) -> frozenset[tuple[str, str]]:
    """Owners and ids of all run loops that were ever forgotten whole. Blocks."""
    rows = file.select(
        "SELECT owner, value FROM forgettings, json_each(forgettings.receipt, '$.run_loops')"
    )
    return frozenset((owner, run_loop_id) for owner, run_loop_id in rows)


def _records(rows: Iterable[tuple[str, str, str]]) -> Iterable[Record]:
    for owner, changed, receipt in rows:
        yield Record(owner, ForgetReceipt.model_validate_json(receipt), tuple(json.loads(changed)))
