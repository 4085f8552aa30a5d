"""Copies of an SQLite file: whole or not there, and for this user alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from service.domain.errors import StorageError

_ROOM = 1.1  # times the size of the file and its log
PART = ".part"
"""Behind the name of a copy that is not whole."""


def version_of(path: Path) -> int | None:
    """The version of a file's schema (``user_version``); None: there is none that can be read."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(path)) as db:
            version: int = db.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error:
        return None  # whoever opens it tells what is wrong with it
    return version


def copy_file(path: Path, copy: Path) -> None:
    """Copy a file, with what its log holds; a copy that is there already is written over.

    Being killed on the way leaves no copy, but a part of it under another name.

    Raises:
        StorageError: the disk has no room for it, or refuses; there is no copy then.
    """
    part = copy.with_name(f"{copy.name}{PART}")
    log = path.with_name(f"{path.name}-wal")
    size = path.stat().st_size + (log.stat().st_size if log.exists() else 0)
    try:
        part.unlink(missing_ok=True)
        needed = int(size * _ROOM)
        if shutil.disk_usage(path.parent).free < needed:
            raise OSError(f"{needed / 1e6:,.1f} MB are needed")
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # it is one file, with no log beside it
        _to_disk(part)
        part.replace(copy)
        _to_disk(copy.parent)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise StorageError(
            f"{path.name} cannot be copied to {copy}: {error}",
            advice=f"Make room for {size * _ROOM / 1e6:,.1f} MB on the disk, and start again.",
        ) from error


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
