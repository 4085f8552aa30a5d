"""Changing single settings in ``rondo.toml``, and leaving all else in it as a person wrote it."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from service.config import Settings, backup_of, config_file
from service.domain.errors import ConfigurationError

_SECRET = re.compile(
    r"""((?:key|token)["']?\s*=\s*)("{3}.*|'{3}.*|"(?:\\.|[^"\\])*"|'[^']*')""", re.IGNORECASE
)
_USER = re.compile(r"(://)[^/\s\"']*@")
_NEW_FILE_MODE = 0o600
_CORRECT_IT = "Correct the file (it is TOML, in UTF-8), and try again."

Changes = Mapping[str, JsonValue]
"""Settings of one section by their names; None: the setting is taken out."""


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """A file, what it holds, and what it would hold."""

    path: Path
    before: str | None
    """None where there is no file yet."""
    after: str

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return self.after != (self.before or "")

    def diff(self) -> list[str]:
        """The lines that change, with a minus or a plus before them; secrets are hidden."""
        before, after = (self.before or "").splitlines(), self.after.splitlines()
        # Without the lines around: they can hold other secrets.
        lines = list(unified_diff(before, after, lineterm="", n=0))[2:]
        return [_hidden(line) for line in lines if not line.startswith("@@")]

    def write(self, *, private: bool = False) -> Path | None:
        """Replace the file at once, and keep the old one beside it.

        Args:
            private: make it readable by its owner alone, as a new one always is.

        Returns:
            Where the old one is; None where there was none.

        Raises:
            ConfigurationError: it cannot be written, or has changed meanwhile.
        """
        target = self.path.resolve()  # a link stays one
        try:
            if _text(target) != self.before:
                raise ConfigurationError(
                    f"{self.path} has changed meanwhile", advice="Nothing was written. Try again."
                )
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = _NEW_FILE_MODE if self.before is None else stat.S_IMODE(target.stat().st_mode)
            backup = None
            if self.before is not None:
                backup = backup_of(target)
                _replace(backup, self.before, mode & 0o600)
            _replace(target, self.after, mode & 0o600 if private else mode)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} cannot be written: {error.strerror or error}",
                advice="Nothing was changed. Give yourself the right to write there, or free some"
                " space; RONDO_CONFIG names another file.",
            ) from error
        return backup


def file_to_change(settings: Settings) -> Path:
    """The file that is read; where there is none, one in the data folder, read from anywhere."""
    return (config_file() or settings.data_dir / "rondo.toml").absolute()


def edited(path: Path, section: str, changes: Changes) -> ConfigEdit:
    """What a file would be with some settings of a section changed.

    Comments, order and all other settings stay. A section that is not there comes last.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        before = _text(path)
        expected = _with(tomllib.loads(before or ""), section, changes)
        document = tomlkit.parse(before or "")
    except (OSError, ValueError, TOMLKitError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}", advice=_CORRECT_IT) from error
    place: Any = document.get(section)
    if place is None:
        place = document[section] = tomlkit.table()
        place = document[section]
    for name, value in changes.items():
        if value is None:
            place.pop(name, None)
        else:
            place[name] = value
    after = tomlkit.dumps(document)
    if tomllib.loads(after) != expected:  # the library has its faults; a person's file is no place
        raise ConfigurationError(
            f"[{section}] of {path} is written in a way that cannot be changed safely",
            advice="Nothing was written. Change it by hand to: "
            + ", ".join(f"{name} = {value!r}" for name, value in _shown(changes).items()),
        )
    return ConfigEdit(path, before, after)


def _with(read: dict[str, Any], section: str, changes: Changes) -> dict[str, Any]:
    """The same change, of plain values."""
    there = read.get(section, {})
    if not isinstance(there, dict):
        raise ValueError(f"{section} is no table")
    left = {name: value for name, value in there.items() if name not in changes}
    given = {name: value for name, value in changes.items() if value is not None}
    return {**read, section: {**left, **given}}


def _hidden(line: str) -> str:
    """A line without what is secret.

    >>> _hidden('llm = { api_key = "sk-1", base_url = "http://me:pw@x/v1" }')
    'llm = { api_key = …, base_url = "http://…@x/v1" }'
    """
    return _USER.sub(r"\1…@", _SECRET.sub(r"\1…", line))


def _shown(changes: Changes) -> Changes:
    return {
        name: "…" if name.endswith(("key", "token")) else value
        for name, value in changes.items()
        if value is not None
    }


def _text(path: Path) -> str | None:
    """What a file holds, with its ends of lines as they are; None where there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None


def _replace(path: Path, text: str, mode: int) -> None:
    """Put a file in the place of another, so that there is always one or the other."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
