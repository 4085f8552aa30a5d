"""The bearer token: made at the first start, kept in the data folder for its owner's eyes only."""

from __future__ import annotations

import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from service.domain.errors import ConfigurationError, StorageError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """The secret that a client shows."""

    value: str
    file: Path
    is_new: bool
    """Whether it was made just now."""


def token_file(data_dir: Path) -> Path:
    """Where the token of a data folder is kept."""
    return data_dir.expanduser().absolute() / "token"


def load_token(data_dir: Path) -> Token:
    """The token of a data folder; makes one where there is none.

    Raises:
        ConfigurationError: the file is empty or not text.
        StorageError: the file cannot be read or written.
    """
    file = token_file(data_dir)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return _make(file)
        except FileExistsError:
            return _read(file)
    except OSError as error:
        raise StorageError(
            f"{error.filename or file}: {error.strerror}",
            advice="Make the data folder readable and writable for yourself, "
            "or choose another one with RONDO_DATA_DIR.",
        ) from error


def _make(file: Path) -> Token:
    value = secrets.token_urlsafe(32)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(value + "\n")
            opened.flush()
            os.fsync(opened.fileno())
    except OSError:
        file.unlink(missing_ok=True)  # an empty token must not stay behind
        raise
    return Token(value, file, is_new=True)


def _read(file: Path) -> Token:
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
        log.warning("%s was open to other users of this machine; now it is yours alone", file)
    try:
        value = file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        value = ""
    if not value:
        raise ConfigurationError(
            f"{file} holds no token", advice="Delete the file: the next start makes a new one."
        )
    return Token(value, file, is_new=False)
