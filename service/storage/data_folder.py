"""The data folder belongs to one process at a time: two on one Chroma folder corrupt it."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from service.domain.errors import DataFolderInUseError, StorageError

log = logging.getLogger(__name__)

_ANOTHER = "or choose another folder with --data-dir or RONDO_DATA_DIR."


def prepare_folder(path: Path) -> None:
    """Create a data folder for this user only; close one of theirs that is there to others.

    Raises:
        StorageError: it cannot be created, or something else stands in its place; says what.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
        # A shared folder such as /tmp has the sticky bit, and must stay open to all.
        shared = status.st_mode & stat.S_ISVTX or path == path.parent
        if status.st_uid == os.geteuid() and status.st_mode & 0o077 and not shared:
            path.chmod(0o700)
            log.warning("%s was open to other users of this machine; now it is yours alone", path)
    except OSError as error:
        raise unusable_folder(path, error) from error


def unusable_folder(path: Path, error: OSError) -> StorageError:
    """Why a data folder cannot be used, in words."""
    title = "The data folder cannot be used"
    if isinstance(error, IsADirectoryError):
        return StorageError(
            f"{error.filename} is a folder, not a file",
            advice="Move it out of the data folder.",
            title=title,
        )
    if obstacle := _in_the_way(path, error):
        return StorageError(obstacle, advice=f"Move it away, {_ANOTHER}", title=title)
    return StorageError(
        f"{error.filename or path}: {error.strerror or error}",
        advice=f"Give this user the right to write there, {_ANOTHER}",
        title=title,
    )


def _in_the_way(path: Path, error: OSError) -> str | None:
    """What stands where the folder should be, or one of those that it is in."""
    if error.errno not in (errno.EEXIST, errno.ENOTDIR, errno.ELOOP):
        return None
    for place in (path, *path.parents):
        if place.is_dir():
            break
        if place.exists():
            return f"{place} is a file, not a folder"
        if place.is_symlink():
            return f"{place} is a link that leads nowhere or in a circle, not a folder"
    return None


class DataFolder:
    """A folder, and the locks that make it this process's own.

    They are the kernel's: they go when the process dies, however it dies. One is on the folder
    itself, whatever it is called and by whichever path it is reached, so that deleting a file frees
    nothing; one on a file in it, for file systems that know no locks of folders. Beside them stands
    the owner's process id, which is only there to be told to people.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._pid_file = self.path / "rondo.pid"
        self._itself: int | None = None  # the folder, open: it is locked as long as it is
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
            prepare_folder(self.path)
            self._lock.acquire()
            try:
                self._itself = _locked_folder(self.path)
                self._write_pid()
            except BaseException:
                self._unlock()
                raise
        except (Timeout, BlockingIOError) as error:
            raise DataFolderInUseError(
                f"{self.path} belongs to process {self._owner()}",
                advice="Talk to the daemon that is running, or stop it first; or give this one "
                "a folder of its own with --data-dir or RONDO_DATA_DIR.",
            ) from error
        except OSError as error:
            raise unusable_folder(self.path, error) from error

    def release(self) -> None:
        """Give the folder up. Does nothing when it is not held."""
        if self._lock.is_locked:
            self._pid_file.unlink(missing_ok=True)
            self._unlock()

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

    def _unlock(self) -> None:
        if self._itself is not None:
            os.close(self._itself)
            self._itself = None
        self._lock.release()

    def _write_pid(self) -> None:
        descriptor = os.open(self._pid_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(str(os.getpid()))

    def _owner(self) -> str:
        try:
            return self._pid_file.read_text().strip() or "unknown"
        except OSError:
            return "unknown"  # it has taken the lock and is just about to write its id


def _locked_folder(path: Path) -> int | None:
    """The folder, open and locked; None where folders cannot be locked, such as on NFS or Windows.

    Raises:
        BlockingIOError: another process has it, or this one through another `DataFolder`.
        OSError: it cannot be opened.
    """
    try:
        import fcntl
    except ImportError:
        return None
    itself = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(itself, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(itself)
        raise
    except OSError as error:
        os.close(itself)
        log.warning("%s cannot be locked itself (%s): do not delete rondo.lock", path, error)
        return None
    return itself
