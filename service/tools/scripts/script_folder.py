"""The script repository: a folder whose runnable files a person put there to be run.

Only files directly in the folder count: executable ones, ``.py`` and ``.sh`` files, which their
interpreter runs, and those that have a manifest beside them. Hidden files, folders, and links that
lead out of the folder do not.

A run has a copy of the folder, and what a person says yes to is the whole of it: a script can load
whatever lies beside it. The digest is taken of the very bytes that are copied, so that nothing can
change between the look and the run. What is not copied a script does not see: hidden folders such
as ``.git`` and ``.venv``, ``__pycache__`` (its files would be loaded in place of what was looked
at), and what is no file. Links are followed, out of the folder too: it is what they lead to that is
copied.
"""

from __future__ import annotations

import ast
import errno
import functools
import hashlib
import os
import re
import shutil
import stat
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from service.tools.protocol import ToolFailure

MANIFEST_SUFFIX = ".toml"
"""``NAME.toml`` beside a script says how it is run, see `service.tools.skills.script_manifest`."""
BEGUN_PREFIX = ".rondo-begun-"
"""How files are called that Rondo is writing, or was when it was killed; they are not copied."""
_READ_BYTES = 65_536  # a description stands at the top
_LONGEST_DESCRIPTION = 200
_NO_DESCRIPTION = re.compile(r"^#!|^#.*?coding[:=]|^#\s*(?:SPDX-|Copyright)|^#\W*$")


@dataclass(frozen=True, slots=True)
class Script:
    """A script that can be run."""

    name: str
    """The file's name, with its suffix."""
    path: Path
    description: str
    """The first line of its docstring or of its leading comment; may be empty."""

    @property
    def command(self) -> tuple[str, ...]:
        """What runs it, without arguments."""
        if os.access(self.path, os.X_OK) and (_has_shebang(self.path) or not _suffix(self.path)):
            return (str(self.path),)
        return (*_interpreter(self.path), str(self.path))


def list_scripts(folder: Path) -> tuple[Script, ...]:
    """The scripts of a repository by name; none when the folder does not exist.

    Raises:
        OSError: the folder cannot be read.
    """
    if not folder.is_dir():
        return ()
    home = folder.resolve()
    return tuple(
        Script(name=_named(path), path=path.resolve(), description=_description(path))
        for path in sorted(folder.iterdir())
        if _is_runnable(path, home)
    )


def find_script(folder: Path, name: str) -> Script | None:
    """The script of this name, compared with the names that are there: no name leads elsewhere."""
    normalized = unicodedata.normalize("NFC", name)
    return next((script for script in list_scripts(folder) if script.name == normalized), None)


def _named(path: Path) -> str:
    return unicodedata.normalize("NFC", path.name)  # some file systems take names apart


def _is_runnable(path: Path, home: Path) -> bool:
    if path.name.startswith(".") or not path.name.isprintable():
        return False
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a dangling link, or links in a circle
        return False
    if real.parent != home or not real.is_file() or not os.access(real, os.R_OK):
        return False
    if real.name.endswith(MANIFEST_SUFFIX):
        return False
    has_manifest = real.with_name(f"{real.name}{MANIFEST_SUFFIX}").is_file()
    return has_manifest or may_be_run(real.name, is_executable=os.access(real, os.X_OK))


def may_be_run(name: str, *, is_executable: bool) -> bool:
    """Whether a file is a script by its name or its rights, without a manifest."""
    return bool(_suffix(Path(name))) or is_executable


def _suffix(path: Path) -> str:
    return path.suffix.lower() if path.suffix.lower() in (".py", ".sh") else ""


def _interpreter(path: Path) -> tuple[str, ...]:
    match _suffix(path):
        case ".py":
            return (sys.executable,)
        case ".sh":
            return (shutil.which("bash") or "/bin/sh",)
        case _:
            return ()


def _has_shebang(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _description(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return ""
    state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _description_then(path, state)


@functools.lru_cache(maxsize=1_000)
def _description_then(path: Path, state: tuple[int, ...]) -> str:
    """What a file says of itself in one state of it. The model is told before each of its calls."""
    try:
        with path.open("rb") as file:
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""  # it is still there to be run, and running it will tell
    line = (_docstring(text) if _suffix(path) == ".py" else "") or _comment(text)
    return " ".join(line.split())[:_LONGEST_DESCRIPTION]


def _docstring(text: str) -> str:
    try:
        words = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return words.partition("\n")[0]


def _comment(text: str) -> str:
    for line in text.splitlines():
        if not line.startswith("#"):
            if line.strip():
                return ""
        elif not _NO_DESCRIPTION.search(line):
            return line.lstrip("#").strip()
    return ""


MOST_BYTES = 20_000_000
MOST_ENTRIES = 2_000
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file of a script folder."""

    path: str
    """In the folder, with slashes."""
    sha256: str
    may_run: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What a script folder holds."""

    digest: str
    """SHA-256 of names, rights to run, and contents."""
    files: tuple[SeenFile, ...]
    """Those that are copied."""
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
        self._files: list[SeenFile] = []
        self._left_out: list[str] = []
        self._entries = 0
        self._size = 0

    def contents(self) -> Contents:
        return Contents(self._digest.hexdigest(), tuple(self._files), tuple(self._left_out))

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
            names = [name for name in names if not name.startswith(BEGUN_PREFIX)]
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
        self._files.append(SeenFile(inside, content.hexdigest(), may_run))
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
