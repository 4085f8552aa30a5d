"""Opening files in granted folders, and nowhere else: no ``..``, no link and no race leads out.

What is read may lie behind a link that stays within its grant; what is written may not.

On Linux the kernel itself sees to it (``openat2`` with ``RESOLVE_BENEATH``, see its manual page);
elsewhere the way is gone folder by folder, each opened from the one before, and no link followed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from service.tools.protocol import ToolFailure

_OPENAT2 = 437  # on all architectures
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08  # RESOLVE_* of <linux/openat2.h>
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of <linux/openat2.h>."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file is, or is to be."""

    folder: int
    """The folder that it is in, open."""
    name: str
    path: Path
    """Whole, without links."""


@dataclass(frozen=True, slots=True)
class GrantedFolders:
    """Folders that a person has granted, to be read in or to be written in."""

    folders: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    """What is not to be touched, though it lies within: the data folder, above all."""
    setting: str = "tools.files_read"
    """By which a person grants others."""

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

    @contextmanager
    def place(self, written: str) -> Iterator[Place]:
        """The place of a file that is to be written, which need not be there yet.

        No link stands in its path within the grant; the file itself may be one, which whoever
        opens it has to see to.

        Raises:
            ToolFailure: it is not in a granted folder, or its folder cannot be opened.
        """
        places: list[Place] = []
        refused: OSError | None = None
        try:
            for folder, path in self._placed(written):
                try:
                    opened = _open_parent(folder, path)
                except OSError as error:
                    refused = refused or error
                    continue
                places.append(Place(opened, path.name, _real_path(opened, path.parent) / path.name))
            if not places:
                assert refused is not None
                raise ToolFailure(_no_place(written, refused, self.in_words()))
            place = next((each for each in places if _is_there(each)), places[0])
            if self.is_hidden(place.path):
                raise ToolFailure(f"{written[:200]} is Rondo's own, and is not to be changed.")
            yield place
        finally:
            for each in places:
                os.close(each.folder)

    def is_hidden(self, path: Path) -> bool:
        """Whether a path, without links, is not to be touched."""
        return self.hiding()(path)

    def hiding(self) -> Callable[[Path], bool]:
        """`is_hidden` for many paths: where the hidden ones are is looked up once."""
        real = tuple(each.resolve() for each in self.hidden)
        return lambda path: any(path.is_relative_to(each) for each in real)

    def in_words(self) -> str:
        """The folders, for the model."""
        return ", ".join(str(each) for each in self.folders)

    def _opened(self, written: str) -> int:
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
        if "\0" in written:
            raise ToolFailure("A path cannot hold a NUL character.")
        try:
            os.fsencode(written)
        except UnicodeEncodeError as error:
            raise ToolFailure(f"{written[:200]!r} is no name that a file can have.") from error
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
                f" {self.in_words()}. Others they grant with the setting {self.setting}."
            )
        return found


def open_entry(folder: int, name: str, flags: int = 0) -> int:
    """Open what lies in an open folder for reading, unless it is a link.

    Raises:
        OSError: it is one, or cannot be read.
    """
    return os.open(name, _FLAGS | flags | os.O_NOFOLLOW, dir_fd=folder)


def _open_parent(folder: Path, path: Path) -> int:
    """Open the folder that a file within a granted one is in, on a way without links.

    Raises:
        OSError: it cannot be opened so; ``EISDIR``: the file would be the granted folder itself.
    """
    if path == folder:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    inside = os.path.relpath(path.parent, folder)
    return _open_beneath(folder, inside, os.O_DIRECTORY, _NO_SYMLINKS)


def _is_there(place: Place) -> bool:
    try:
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _open_beneath(folder: Path, inside: str, flags: int = 0, resolve: int = 0) -> int:
    """Open a path within a folder, and nothing outside of it.

    Args:
        folder: a granted one.
        inside: the path in it.
        flags: more of them, of `os.open`.
        resolve: more of ``RESOLVE_*``. Where the kernel does not know them, no link is followed.

    Raises:
        OSError: the path leads out (``EXDEV``), is not there, or cannot be read.
    """
    home = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        if sys.platform == "linux":
            how = _OpenHow(_FLAGS | flags, 0, _BENEATH | _NO_MAGICLINKS | resolve)
            libc = ctypes.CDLL(None, use_errno=True)
            opened = libc.syscall(
                _OPENAT2, home, os.fsencode(inside), ctypes.byref(how), ctypes.sizeof(how)
            )
            if opened >= 0:
                return int(opened)
            number = ctypes.get_errno()
            if number not in (errno.ENOSYS, errno.EPERM):  # not there, or a sandbox refuses it
                raise OSError(number, os.strerror(number), inside)
        return _walked(home, Path(inside).parts, flags)
    finally:
        os.close(home)


def _walked(home: int, parts: Sequence[str], flags: int) -> int:
    here = os.dup(home)
    try:
        for at, part in enumerate(parts, 1):
            if part == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            below = open_entry(here, part, flags if at == len(parts) else 0)
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


def _no_place(written: str, error: OSError, granted: str) -> str:
    name = written[:200]
    if error.errno == errno.EISDIR:
        return f"{name} is a folder: name a file in it."
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return f"{name} passes a link. What is written is named by its path without links."
    if error.errno == errno.ENOENT:
        return f"The folder of {name} is not there; a file can be written where there is one."
    if error.errno == errno.ENOTDIR:
        return f"{name} would lie in a file, or behind a link: name a folder without links."
    return f"The folder of {name} cannot be opened: {error.strerror}. Granted are {granted}."
