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
