"""A journal that a test has opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.domain.history.events import (
    RunLoopStarted,
)
from service.memory.journal.change_feed import Change, Commit
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from tests.support.histories import received


class BoundJournal(SqliteJournal):
    """A journal on a disk of which somebody says how large it is."""

    def allow_pages(self, most: int | None) -> None:
        """Let the file have so many pages; None: those that it has."""
        with self._file.transaction(durable=False) as db:
            pages = most or db.execute("PRAGMA page_count").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {pages}")


class Opened:
    """A journal and what its listener heard."""

    def __init__(self, path: Path, **sizes: Any) -> None:
        self.commits: list[Commit] = []
        self.journal = BoundJournal(path, **sizes)
        self.active = self.journal.open(self._hear)

    def _hear(self, change: Change) -> None:
        if isinstance(change, Commit):
            self.commits.append(change)


async def begin_loop(journal: SqliteJournal, run_loop_id: str = "a", goal: str = "hi") -> Commit:
    return await journal.append(
        run_loop_id, RunLoopStarted(goal=goal), received(goal), owner="me", durable=True
    )
