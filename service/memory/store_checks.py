"""What can be told of the stores of a data folder from outside, while a daemon may be at work.

Nothing is opened for writing, and no store need be of this version.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from service.domain.errors import StorageError
from service.memory.journal.sqlite import change_table, journal_form
from service.memory.ledger.sqlite import pending_table
from service.memory.stores import JOURNAL_FILE, LEDGER_FILE
from service.storage.sqlite_file import looking_into

STORES = (JOURNAL_FILE, LEDGER_FILE)
"""Their names in the folder; the first is the truth of which all else is made."""


class ReaderLag(NamedTuple):
    """How far long-term memory is behind the journal."""

    changes: int
    """Those that it has not read."""
    since: float | None
    """When the oldest of them was made, in seconds since the epoch."""
    waiting: int
    """Run loops that are listed and could be archived."""
    problem: str | None
    """Why one of them was not."""


def damage_of(folder: Path, store: str) -> str | None:
    """What is wrong with a store, in words; None where every page of it is whole. Blocks."""
    try:
        with looking_into(folder / store) as db:
            rows = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    except StorageError as error:
        return error.detail
    words = " ".join(" ".join(rows).split())
    return None if words == "ok" else words[:200]


def journal_copies(folder: Path) -> list[Path]:
    """The copies that were kept of the journal as it was before its form changed."""
    return journal_form.copies(folder / JOURNAL_FILE)


def reader_lag(folder: Path) -> ReaderLag | None:
    """How far long-term memory is behind; None before there is anything. Blocks.

    Raises:
        StorageError: it cannot be read.
    """
    journal, ledger = folder / JOURNAL_FILE, folder / LEDGER_FILE
    if not (journal.exists() and ledger.exists()):
        return None
    with looking_into(ledger) as db:
        place, pending = pending_table.looked_into(db)
    with looking_into(journal) as db:
        changes, oldest, at_work = change_table.looked_into(db, after=place)
    waiting = [problem for run_loop_id, problem in pending if run_loop_id not in at_work]
    return ReaderLag(
        changes,
        None if oldest is None else oldest / 1000,
        len(waiting),
        next(filter(None, waiting), None),
    )
