"""Writing a small file so that a reader, and the next start after a crash, sees all of it or what
was there before."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from service.storage.data_folder import prepare_folder


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place of what is there, readable by this user alone, safe from power loss.

    Raises:
        StorageError: the folder cannot be made.
        OSError: the disk refuses; what was there before still is.
    """
    prepare_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
