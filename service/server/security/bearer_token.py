"""The bearer token, kept in the data folder for its owner's eyes only, and a log without it.

Addresses are logged by many a library at debug, and quoted in the tracebacks of others. A token has
no place in one and is refused there, but it has been sent by then.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from service.domain.errors import ConfigurationError, StorageError
from service.storage.data_folder import prepare_folder

log = logging.getLogger(__name__)

TOKEN_PARAMETERS = frozenset(
    ("token", "access_token", "auth_token", "bearer", "bearer_token", "api_key", "apikey")
)
"""Names of parameters under which programs put tokens into addresses. All are refused."""
LEAST_SECRET = 12
"""Characters of a token that is looked for anywhere; a shorter one is part of too much else."""

_HIDDEN = "[hidden]"
_NAMED = re.compile(
    rf"(?i)\b((?:{'|'.join(sorted(TOKEN_PARAMETERS))})=)[^&\s\"'#]+|(\bbearer\s+)[^\s\"',]+"
)
_MOST_BYTES = 4096
_VISIBLE_ASCII = re.compile(r"[!-~]+")  # what a header can carry as one word


class ScrubbingFormatter(logging.Formatter):
    """Writes records as its format says, without tokens, in tracebacks too."""

    def __init__(self, fmt: str) -> None:
        super().__init__(fmt)
        self._secrets: tuple[str, ...] = ()

    def know(self, secret: str) -> None:
        """Hide this wherever it stands."""
        if len(secret) >= LEAST_SECRET:
            self._secrets = (*self._secrets, secret, quote(secret, safe=""))

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, or as several with a traceback."""
        written = super().format(record)
        for secret in self._secrets:
            written = written.replace(secret, _HIDDEN)
        return _NAMED.sub(lambda match: f"{match[1] or match[2]}{_HIDDEN}", written)


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
        ConfigurationError: the file is not one of this user's own, or holds no usable token.
        StorageError: the data folder cannot be used, or the file cannot be read or written.
    """
    file = token_file(data_dir)
    prepare_folder(file.parent)
    try:
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
    try:
        # A link may lead to a file that somebody else chose; a pipe would block forever.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _unusable(f"{file} is a link, not a file") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "something else"
            raise _unusable(f"{file} is {kind}, not a file")
        if status.st_uid != os.geteuid():
            raise _unusable(f"{file} belongs to another user")
        if status.st_size > _MOST_BYTES:
            raise _unusable(f"{file} is too long for a token")
        if status.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
            log.warning("%s was open to other users of this machine; now it is yours alone", file)
        value = os.read(descriptor, _MOST_BYTES).strip().decode("latin-1")
    finally:
        os.close(descriptor)
    if not value:
        raise _unusable(f"{file} holds no token")
    if not _VISIBLE_ASCII.fullmatch(value):
        raise _unusable(
            f"{file} holds no token that a program could send: there is white space in it, or"
            " another character than ASCII's letters, digits and signs"
        )
    return Token(value, file, is_new=False)


def _unusable(detail: str) -> ConfigurationError:
    return ConfigurationError(
        detail,
        title="The token file cannot be used",
        advice="Move it away: the next start makes a new one.",
    )
