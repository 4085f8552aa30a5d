"""Brings a journal into the form of today until it is killed.

As a program: ``python -m tests.support.memory.killed_migrating FOLDER COUNT`` dies in the middle of
the run loop after so many.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from service.domain.history.events import Event
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.journal_migration import QuotingRows, migrate

DEAD = 9


class Mortal(QuotingRows):
    """Does its work for some run loops, and then is no more."""

    def __init__(self, journal: SqliteJournal, lives: int) -> None:
        super().__init__(journal)
        self._lives = lives

    def rows(self, events: Sequence[Event]) -> Mapping[int, str]:
        rows = super().rows(events)
        self._lives -= 1
        if self._lives < 0:
            os._exit(DEAD)
        return rows


async def die(folder: Path, count: int) -> None:
    path = folder / "journal.sqlite3"
    journal = SqliteJournal(path)
    journal.open(lambda change: None)
    await migrate(journal, [Mortal(journal, count)])


if __name__ == "__main__":
    anyio.run(die, Path(sys.argv[1]), int(sys.argv[2]))
