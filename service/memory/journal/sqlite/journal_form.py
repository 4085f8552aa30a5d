"""The form of the journal's rows: its version, and what is done when an older one is opened.

Rows of an older form are read as they are. When a new form comes, the run loops of the file are
listed in ``unmigrated``, and written anew one by one (`service.memory.migration`): being killed on
the way loses nothing, the next start goes on. Before that the file is copied, so that the version
that wrote it could be gone back to. The copy holds all words, so the first forgetting deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from service.storage.sqlite_copy import copy_file, version_of
from service.storage.sqlite_file import SqliteFile

VERSION = 3
"""3: words are kept once, and referred to from where they are told again."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS unmigrated (run_loop_id TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_ALL_ANEW = f"{SCHEMA} INSERT OR IGNORE INTO unmigrated SELECT id FROM run_loops;"
UPGRADES = {2: _ALL_ANEW}
"""By the version that a file has."""


def keep_copy(journal: Path) -> Path | None:
    """Copy the file of a journal of an older form, before it is opened; None: that is not needed.

    Raises:
        StorageError: there is no room for it; nothing was changed.
    """
    version = version_of(journal)
    copy = journal.with_name(f"{journal.stem}.before-v{VERSION}{journal.suffix}")
    # Without a version it is new; a copy is there where the opening failed after it was made.
    if not version or version >= VERSION:
        return None
    copy_file(journal, copy)
    return copy


def copies(journal: Path) -> list[Path]:
    """The copies that were kept of a journal, and parts of such, by their names."""
    return sorted(journal.parent.glob(f"{journal.stem}.before-v*"))


def delete_copies(journal: Path) -> int:
    """Delete the copies that were kept of a journal; how many there were.

    Raises:
        OSError: one cannot be deleted.
    """
    there = copies(journal)
    for copy in there:
        copy.unlink(missing_ok=True)
    return len(there)


def unmigrated(file: SqliteFile) -> list[str]:
    """The run loops of which rows may be of an older form."""
    return [row[0] for row in file.select("SELECT run_loop_id FROM unmigrated ORDER BY 1")]


def write_anew(file: SqliteFile, run_loop_id: str, rows: Mapping[int, str]) -> None:
    """Write rows of a run loop in the form of today, by their numbers: it is done with.

    Raises:
        StorageError: the disk refuses; nothing was written.
    """
    with file.transaction(durable=False) as db:
        db.executemany(
            "UPDATE events SET body = ? WHERE seq = ? AND run_loop_id = ?",
            [(body, seq, run_loop_id) for seq, body in rows.items()],
        )
        db.execute("DELETE FROM unmigrated WHERE run_loop_id = ?", (run_loop_id,))
