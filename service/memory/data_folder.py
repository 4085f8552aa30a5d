"""The data folder belongs to one process at a time: two on one Chroma folder corrupt it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from service.domain.errors import DataFolderInUseError, StorageError


class DataFolder:
    """A folder, and the lock that makes it this process's own.

    The lock is the kernel's: it goes when the process dies, however it dies. Beside it stands the
    owner's process id, which is only there to be told to people.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._pid_file = self.path / "rondo.pid"
        # The lock may be taken in one thread and released in another. A file system without locks
        # is refused rather than believed.
        self._lock = FileLock(
            self.path / "rondo.lock", timeout=0, mode=0o600, thread_local=False,
            fallback_to_soft=False,
        )  # fmt: skip

    def acquire(self) -> None:
        """Create the folder, for this user only, if it is not there; and take the lock.

        Raises:
            DataFolderInUseError: another process owns it; names the process.
            StorageError: the folder cannot be created or written.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire()
            self._write_pid()
        except Timeout as error:
            raise DataFolderInUseError(
                f"{self.path} belongs to process {self._owner()}",
                advice="Talk to the daemon that is running, or stop it first; or give this one "
                "a folder of its own with --data-dir or RONDO_DATA_DIR.",
            ) from error
        except OSError as error:
            raise StorageError(
                f"the data folder {self.path} cannot be used: {error.strerror or error}",
                advice="Give this user the right to write there, or choose another folder with "
                "--data-dir or RONDO_DATA_DIR.",
            ) from error

    def release(self) -> None:
        """Give the folder up. Does nothing when it is not held."""
        if self._lock.is_locked:
            self._pid_file.unlink(missing_ok=True)
            self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _write_pid(self) -> None:
        descriptor = os.open(self._pid_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(str(os.getpid()))

    def _owner(self) -> str:
        try:
            return self._pid_file.read_text().strip() or "unknown"
        except OSError:
            return "unknown"  # it has taken the lock and is just about to write its id
