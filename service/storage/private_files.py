"""Files for this user alone, that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

UNFINISHED = ".new"
"""How a file's name ends until all of it is there."""


def write_privately(path: Path, data: bytes) -> None:
    """Write a file that survives power loss once this returns. Its folder is made, for this user.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(path.name + UNFINISHED)
    try:
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(opened)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def delete_unfinished(folder: Path, *, but: Container[str] = ()) -> None:
    """Delete what a crash has left of files that were being written.

    Args:
        folder: which they are in.
        but: the stems of those that are being written now.

    Raises:
        OSError: it cannot be deleted.
    """
    for left in folder.glob(f"*{UNFINISHED}"):
        if left.name.partition(".")[0] not in but:
            left.unlink(missing_ok=True)
