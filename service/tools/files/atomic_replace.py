"""Putting another content in the place of a file, at once and for good, in an open folder.

The new content is written beside it and takes its name when it is on the disk. Linux exchanges the
two (``renameat2`` with ``RENAME_EXCHANGE``, see its manual page), so that what is replaced can be
looked at once more, and put back where it is not what it was thought to be. Elsewhere it is looked
at right before.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from service.tools.files.granted_folders import open_entry

_NOREPLACE, _EXCHANGE = 1, 2  # RENAME_* of <linux/fs.h>
_MOST_HASHED = 20_000_000  # bytes
_UNFINISHED = ".new"
"""Added to the name of a file beside, until all is in it: so it is nobody else's."""
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV)


class ChangedMeanwhile(Exception):
    """The file is not what it was when it was looked at; nothing was changed."""


def replace(
    folder: int, name: str, data: bytes, *, expected: str | None, temporary: str, like: int | None
) -> None:
    """Let a file hold something else. Durable when this returns.

    Args:
        folder: the open folder that it is in.
        name: of the file.
        data: what it is to hold.
        expected: the SHA-256 of what it holds now; None: it is not there.
        temporary: the name of the file beside it, for as long as this takes; see `tidy`.
        like: an open file whose rights it gets; None: those of a new file.

    Raises:
        ChangedMeanwhile: it holds something else.
        OSError: it cannot be written; nothing was changed.
    """
    ours = (hashlib.sha256(data).hexdigest(), expected)
    with _written(folder, temporary, data, like, ours):
        if expected is None:
            _take_free_name(folder, temporary, name)
        else:
            _take_name_of(folder, temporary, name, expected)
    _sync(folder)


def remove(folder: int, name: str, *, expected: str, temporary: str) -> None:
    """Delete a file, if it holds what is expected.

    Raises:
        ChangedMeanwhile: it holds something else.
        OSError: it cannot be deleted.
    """
    try:
        _take_free_name(folder, name, temporary)
    except FileNotFoundError as error:
        raise ChangedMeanwhile from error
    if hash_of(folder, temporary) != expected:
        _take_free_name(folder, temporary, name)
        raise ChangedMeanwhile
    os.unlink(temporary, dir_fd=folder)
    _sync(folder)


def tidy(folder: int, temporary: str, ours: Collection[str | None]) -> None:
    """Delete what a crash has left beside a file. What somebody else wrote at the last moment, so
    that it was about to be put back, stays.

    Args:
        folder: the open folder that it is in.
        temporary: its name.
        ours: the SHA-256 of all that it can hold.
    """
    with suppress(FileNotFoundError):
        os.unlink(temporary + _UNFINISHED, dir_fd=folder)
    if (held := hash_of(folder, temporary)) is not None and held in ours:
        os.unlink(temporary, dir_fd=folder)


def hash_of(folder: int, name: str) -> str | None:
    """The SHA-256 of what a file holds; None where there is none, or something else; empty where it
    is too large to have been written here."""
    try:
        opened = open_entry(folder, name)
    except OSError:
        return None
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > _MOST_HASHED:
            return ""
        with os.fdopen(opened, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    finally:
        os.close(opened)


@contextmanager
def _written(
    folder: int, temporary: str, data: bytes, like: int | None, ours: Collection[str | None]
) -> Iterator[None]:
    """A file beside, on the disk; it is gone afterwards."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    unfinished = temporary + _UNFINISHED
    opened = os.open(unfinished, flags, 0o666 if like is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(data)
            file.flush()
            if like is not None:
                _make_like(opened, like)
            os.fsync(opened)
        os.rename(unfinished, temporary, src_dir_fd=folder, dst_dir_fd=folder)
        yield
    finally:
        with suppress(OSError):  # the next start tidies up
            tidy(folder, temporary, ours)


def _make_like(opened: int, like: int) -> None:
    status = os.fstat(like)
    with suppress(PermissionError):  # another group of the person's, or anybody's for root
        os.fchown(opened, -1 if os.geteuid() else status.st_uid, status.st_gid)
    with suppress(OSError):  # a file system that knows no rights
        os.fchmod(opened, stat.S_IMODE(status.st_mode) & 0o777)
    if sys.platform == "linux":
        with suppress(OSError):  # what a file system does not keep, it did not have
            for attribute in os.listxattr(like):
                os.setxattr(opened, attribute, os.getxattr(like, attribute))


def _take_name_of(folder: int, temporary: str, name: str, expected: str) -> None:
    if not _renamed(folder, temporary, name, _EXCHANGE):
        if hash_of(folder, name) != expected:
            raise ChangedMeanwhile
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    elif hash_of(folder, temporary) != expected:
        _renamed(folder, temporary, name, _EXCHANGE)
        raise ChangedMeanwhile


def _take_free_name(folder: int, name: str, free: str) -> None:
    try:
        if not _renamed(folder, name, free, _NOREPLACE):
            os.link(name, free, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(name, dir_fd=folder)
    except FileExistsError as error:
        raise ChangedMeanwhile from error


def _sync(folder: int) -> None:
    with suppress(OSError):  # not every file system does this for folders; the change is made
        os.fsync(folder)


def _renamed(folder: int, old: str, new: str, how: int) -> bool:
    """Rename in a way that not every system has; False where this one has it not.

    Raises:
        OSError: it cannot be renamed.
    """
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(folder, os.fsencode(old), folder, os.fsencode(new), how) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    if how == _EXCHANGE and number == errno.ENOENT:
        raise ChangedMeanwhile
    raise OSError(number, os.strerror(number), new)
