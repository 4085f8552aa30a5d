"""The journal's file, looked into and spoiled from outside, while a memory has it open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any


def rows(path: Path, query: str, values: Sequence[Any] = ()) -> list[Any]:
    """The rows of a query."""
    with closing(sqlite3.connect(path, timeout=60)) as db:
        return db.execute(query, values).fetchall()


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Change the file in one transaction."""
    with closing(sqlite3.connect(path, timeout=60)) as db, db:
        yield db


@contextmanager
def refusing(path: Path, table: str, event: str, when: str = "1") -> Iterator[None]:
    """Have SQLite refuse each change of that kind to a table, as it does when a disk is full."""
    with writing(path) as db:
        db.execute(
            f"CREATE TRIGGER refusing BEFORE {event} ON {table} WHEN {when}"
            " BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
        )
    yield
    with writing(path) as db:
        db.execute("DROP TRIGGER refusing")


@contextmanager
def unreadable_receipts(path: Path) -> Iterator[None]:
    """Have each receipt that is written be spoiled on the disk, until it is restored at the end."""
    with writing(path) as db:
        db.execute("CREATE TABLE unspoiled (id TEXT PRIMARY KEY, receipt TEXT)")
        db.execute(
            "CREATE TRIGGER spoiling AFTER INSERT ON forgettings BEGIN"
            " INSERT OR REPLACE INTO unspoiled VALUES (new.id, new.receipt);"
            " UPDATE forgettings SET receipt = 'spoiled' WHERE id = new.id; END"
        )
    yield
    with writing(path) as db:
        db.execute("DROP TRIGGER spoiling")
        db.execute(
            "UPDATE forgettings SET receipt = unspoiled.receipt"
            " FROM unspoiled WHERE unspoiled.id = forgettings.id"
        )
        db.execute("DROP TABLE unspoiled")
