"""Opening files in granted folders, and nowhere else: no ``..``, no link and no race leads out.

On Linux the kernel itself sees to it (``openat2`` with ``RESOLVE_BENEATH``, see its manual page);
elsewhere the way is gone folder by folder, each opened from the one before, and no link followed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from service.tools.protocol import ToolFailure

_OPENAT2 = 437  # on all architectures
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08  # RESOLVE_* of <linux/openat2.h>
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of <linux/openat2.h>."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class GrantedFolders:
    """Folders in which a person lets the assistant read."""

    folders: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    """What is not to be read, though it lies within: the data folder, above all."""

    @contextmanager
    def file(self, written: str) -> Iterator[BinaryIO]:
        """A file, open for reading.

        Args:
            written: its path: whole, from ``~``, or within a granted folder.

        Raises:
            ToolFailure: it is not in a granted folder, is no file, or cannot be read.
        """
        opened = self._opened(written)
        try:
            mode = os.fstat(opened).st_mode
            if stat.S_ISDIR(mode):
                raise ToolFailure(f"{written[:200]} is a folder: list_files shows what is in it.")
            if not stat.S_ISREG(mode):
                raise ToolFailure(f"{written[:200]} is a pipe, a socket or a device, not a file.")
            with os.fdopen(os.dup(opened), "rb") as file:
                yield file
        finally:
            os.close(opened)

    @contextmanager
    def folder(self, written: str) -> Iterator[tuple[int, Path]]:
        """A folder, open for listing: its descriptor, and its path without links.

        Raises:
            ToolFailure: it is not in a granted folder, is no folder, or cannot be read.
        """
        opened = self._opened(written)
        try:
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                raise ToolFailure(f"{written[:200]} is no folder: read_file shows what is in it.")
            yield opened, _real_path(opened, self._placed(written)[0][1])
        finally:
            os.close(opened)

    def is_hidden(self, path: Path) -> bool:
        """Whether a path, without links, is not to be read."""
        return any(path.is_relative_to(each.resolve()) for each in self.hidden)

    def in_words(self) -> str:
        """The folders, for the model."""
        return ", ".join(str(each) for each in self.folders)

    def _opened(self, written: str) -> int:
        if "\0" in written:
            raise ToolFailure("A path cannot hold a NUL character.")
        refused: OSError | None = None
        for folder, path in self._placed(written):
            try:
                opened = _open_beneath(folder, os.path.relpath(path, folder))
            except OSError as error:
                refused = error
                continue
            real = _real_path(opened, path)
            if self.is_hidden(real):
                os.close(opened)
                raise ToolFailure(f"{written[:200]} is Rondo's own, and is not to be read.")
            return opened
        assert refused is not None
        raise ToolFailure(_refused(written, refused, self.in_words()))

    def _placed(self, written: str) -> list[tuple[Path, Path]]:
        """Where a path can be meant: the granted folder, and the path in it, without ``..``."""
        given = Path(written.strip() or ".")
        with suppress(RuntimeError):
            given = given.expanduser()
        if given.is_absolute():
            both = (*self.folders, *(each.resolve() for each in self.folders))  # it may be a link
            paths = [(each, Path(os.path.normpath(given))) for each in both]
        else:
            paths = [(each, Path(os.path.normpath(each / given))) for each in self.folders]
        found = [(each, path) for each, path in paths if path.is_relative_to(each)]
        if not found:
            raise ToolFailure(
                f"{written[:200]} is in no granted folder. The person has granted:"
                f" {self.in_words()}. Others they grant with the setting tools.files_read."
            )
        return found


def open_entry(folder: int, name: str) -> int:
    """Open what lies in an open folder, unless it is a link.

    Raises:
        OSError: it is one, or cannot be read.
    """
    return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)


def _open_beneath(folder: Path, inside: str) -> int:
    """Open a path within a folder, and nothing outside of it.

    Raises:
        OSError: the path leads out (``EXDEV``), is not there, or cannot be read.
    """
    home = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        if sys.platform == "linux":
            how = _OpenHow(_FLAGS, 0, _BENEATH | _NO_MAGICLINKS)
            libc = ctypes.CDLL(None, use_errno=True)
            opened = libc.syscall(
                _OPENAT2, home, os.fsencode(inside), ctypes.byref(how), ctypes.sizeof(how)
            )
            if opened >= 0:
                return int(opened)
            number = ctypes.get_errno()
            if number not in (errno.ENOSYS, errno.EPERM):  # not there, or a sandbox refuses it
                raise OSError(number, os.strerror(number), inside)
        return _walked(home, Path(inside).parts)
    finally:
        os.close(home)


def _walked(home: int, parts: Sequence[str]) -> int:
    here = os.dup(home)
    try:
        for part in parts:
            if part == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            below = open_entry(here, part)
            os.close(here)
            here = below
    except OSError:
        os.close(here)
        raise
    return here


def _real_path(opened: int, otherwise: Path) -> Path:
    """Where an open file is, without links."""
    for place in (f"/proc/self/fd/{opened}", f"/dev/fd/{opened}"):
        with suppress(OSError):
            return Path(place).readlink()
    return otherwise.resolve()


def _refused(written: str, error: OSError, granted: str) -> str:
    name = written[:200]
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return (
            f"{name} is or passes a link that leads out of what the person has granted: {granted}."
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"There is no {name}. list_files and search_files tell what there is in {granted}."
    return f"{name} cannot be read: {error.strerror}."
