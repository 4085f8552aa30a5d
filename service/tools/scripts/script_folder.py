"""The script repository: a folder whose runnable files a person put there to be run.

Only files directly in the folder count: executable ones, and ``.py`` and ``.sh`` files, which their
interpreter runs. Hidden files, folders, and links that lead out of the folder do not.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

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
    wanted = unicodedata.normalize("NFC", name)
    return next((script for script in list_scripts(folder) if script.name == wanted), None)


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
    return bool(_suffix(real)) or os.access(real, os.X_OK)


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
        found = path.stat()
    except OSError:
        return ""
    state = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
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
