"""The raw baseline of a run loop's step: the same rows, written by bare SQLite."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path


def bare_commits(path: Path, sizes: Sequence[int]) -> list[float]:
    """Commit one row of each size to a fresh file, with the journal's own settings.

    Args:
        path: of the file, which must not exist.
        sizes: characters of each row.

    Returns:
        Milliseconds of each commit.
    """
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        taken = []
        for size in sizes:
            body = "x" * size
            begun = time.perf_counter()
            db.execute("INSERT INTO events (body) VALUES (?)", (body,))
            taken.append((time.perf_counter() - begun) * 1000)
        return taken
    finally:
        db.close()
