"""A copy of the script folder for one run, and the digest of what is in it.

What a person has said yes to is the whole folder: a script can load whatever lies beside it. The
digest is taken of the very bytes that are copied, so that nothing can change between the look and
the run. What is not copied a script does not see: hidden folders such as ``.git`` and ``.venv``,
``__pycache__`` (its files would be loaded in place of what was looked at), and what is no file.
Links are followed, out of the folder too: it is what they lead to that is copied.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from service.tools.protocol import ToolFailure

MOST_BYTES = 20_000_000
MOST_ENTRIES = 2_000
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """What a script folder holds."""

    digest: str
    """SHA-256 of names, rights to run, and contents."""
    left_out: tuple[str, ...]
    """What could not be copied, each with the reason in words."""


def contents_of(folder: Path, copy_to: Path | None = None) -> Contents:
    """Look through a script folder, and copy it where that is asked for.

    Args:
        folder: the script folder.
        copy_to: where the copy is made; there is nothing yet. Nobody can write in it afterwards.

    Raises:
        ToolFailure: the folder cannot be read, or holds more than can be copied for each run.
        OSError: the copy cannot be written.
    """
    walk = _Walk()
    walk.folder(folder, "", copy_to, ())
    return walk.contents()


class _Walk:
    """A way through a script folder, and what was seen on it."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._left_out: list[str] = []
        self._entries = 0
        self._size = 0

    def contents(self) -> Contents:
        return Contents(self._digest.hexdigest(), tuple(self._left_out))

    def folder(self, path: Path, inside: str, to: Path | None, above: tuple[str, ...]) -> None:
        """Go through a folder.

        Args:
            path: where it is.
            inside: its place in the script folder, with a slash at the end; empty for itself.
            to: where its copy goes.
            above: the true paths of the folders around it.
        """
        here = os.path.realpath(path)
        if here in above:
            self._leave_out(inside, "a link that leads back to a folder around it")
            return
        try:
            names = sorted(each.name for each in path.iterdir())
        except OSError as error:
            if not inside:
                raise ToolFailure(f"The script folder cannot be read: {error.strerror}.") from error
            self._leave_out(inside, f"cannot be read: {error.strerror}")
            return
        self._count(inside)
        self._note("folder", inside)
        if to is not None:
            to.mkdir(mode=0o700)
        for name in names:
            self._entry(path / name, inside + name, to and to / name, (*above, here))
        if to is not None:
            to.chmod(0o500)

    def _entry(self, path: Path, inside: str, to: Path | None, above: tuple[str, ...]) -> None:
        try:
            # Not blocking: a pipe that nobody writes to would never return from opening.
            opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            self._leave_out(inside, _why_not(path, error))
            return
        mode = os.fstat(opened).st_mode
        if stat.S_ISREG(mode):
            with os.fdopen(opened, "rb") as file:
                self._file(file, inside, to, may_run=bool(mode & stat.S_IXUSR))
            return
        os.close(opened)
        if not stat.S_ISDIR(mode):
            self._leave_out(inside, "a pipe, a socket or a device")
        elif not path.name.startswith(".") and path.name != "__pycache__":
            self.folder(path, f"{inside}/", to, above)

    def _file(self, file: BinaryIO, inside: str, to: Path | None, *, may_run: bool) -> None:
        self._count(inside)
        content = hashlib.sha256()
        with _written(to, 0o500 if may_run else 0o400) as copy:
            while piece := file.read(_PIECE):
                self._size += len(piece)
                if self._size > MOST_BYTES:
                    raise _too_much(f"{MOST_BYTES // 1_000_000} MB", inside)
                content.update(piece)
                if copy is not None:
                    copy.write(piece)
        self._note("program" if may_run else "file", inside, content.hexdigest())

    def _count(self, inside: str) -> None:
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise _too_much(f"{MOST_ENTRIES:,} files and folders", inside)

    def _leave_out(self, inside: str, reason: str) -> None:
        self._count(inside)
        self._left_out.append(f"{inside} ({reason})")
        self._note("left out", inside)

    def _note(self, *words: str) -> None:
        # Each with its length, so that no two lists of words come to the same bytes.
        for word in map(os.fsencode, words):
            self._digest.update(b"%d:%b" % (len(word), word))


@contextmanager
def _written(path: Path | None, mode: int) -> Iterator[BinaryIO | None]:
    if path is None:
        yield None
        return
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        yield file


def _why_not(path: Path, error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a link that leads in a circle"
    if error.errno == errno.ENOENT and path.is_symlink():
        return "a link that leads nowhere"
    if error.errno == errno.ENXIO:
        return "a pipe, a socket or a device"
    return f"cannot be read: {error.strerror}"


def _too_much(limit: str, inside: str) -> ToolFailure:
    return ToolFailure(
        f"The script folder holds more than {limit}, too much to be looked at and copied for each"
        f" run (reached at {inside.strip('/')[:200] or 'the folder itself'}). Tell the user to move"
        " out of it what is neither a script nor loaded by one, such as data; hidden folders do not"
        " count."
    )
