"""Secrets for what the assistant talks to, encrypted in the data folder.

The key lies beside them, in a file of its own that only its owner may read. That protects a copy
of the secrets alone, such as one in a backup without the key or one that is pasted somewhere; it
does not protect them from a program that runs as the same user, nor a copy of the whole folder.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from filelock import FileLock, Timeout

from service.domain.errors import InvalidInputError, NotFoundError, StorageError
from service.storage.data_folder import prepare_folder
from service.storage.whole_file import write_whole

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""What a secret may be called."""
MOST_CHARACTERS = 16_000
"""Of one secret."""
_LOCK_SECONDS = 10.0


class SecretStore:
    """Secrets by name. Nothing is read or made before it is asked for; all methods block."""

    def __init__(self, data_dir: Path) -> None:
        """Name the data folder."""
        self._folder = data_dir / "secrets"
        self._key_file = self._folder / "key"
        self._file = self._folder / "secrets.json"

    def names(self) -> list[str]:
        """What is kept, in order.

        Raises:
            StorageError: the file cannot be read.
        """
        return sorted(self._read())

    def unreadable(self) -> list[str]:
        """Those of the names that cannot be read with the key that is there, in order.

        Raises:
            StorageError: the file of the secrets cannot be read.
        """
        return [name for name in self.names() if not self._can_be_read(name)]

    def _can_be_read(self, name: str) -> bool:
        try:
            self.get(name)
        except (NotFoundError, StorageError):
            return False
        return True

    def get(self, name: str) -> str:
        """A secret.

        Raises:
            NotFoundError: none of that name is kept.
            StorageError: it cannot be read, or not with the key that is there.
        """
        sealed = self._read().get(name)
        if sealed is None:
            raise NotFoundError(
                f"no secret {name!r} is kept", advice=f"Keep it: rondo tools secret set {name}"
            )
        try:
            opened = json.loads(self._cipher().decrypt(sealed.encode()))
            if opened["name"] != name:  # one that was put under another name
                raise InvalidToken
            return str(opened["value"])
        except (InvalidToken, ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"the secret {name!r} cannot be read with the key in {self._key_file}",
                advice=f"Keep it anew: rondo tools secret set {name}",
            ) from error

    def set(self, name: str, value: str) -> None:
        """Keep a secret, in place of one of the same name.

        Raises:
            InvalidInputError: the name or the value cannot be used.
            StorageError: it cannot be kept, or the key is damaged, or is gone from beside
                secrets that only it can read.
        """
        if not re.fullmatch(NAME, name):
            raise InvalidInputError(
                f"{name!r} is no name for a secret",
                advice="Take letters, digits, dots, - and _, at most 64 of them.",
            )
        if not value or len(value) > MOST_CHARACTERS:
            raise InvalidInputError(
                "the secret is empty" if not value else f"it has {len(value):,} characters",
                advice=f"A secret has 1 to {MOST_CHARACTERS:,} characters.",
            )
        with self._changing():
            kept = self._read()
            plain = json.dumps({"name": name, "value": value}).encode()
            if not kept:
                self._make_key()
            kept[name] = self._cipher().encrypt(plain).decode()
            self._write(kept)

    def remove(self, name: str) -> bool:
        """Keep a secret no longer; whether there was one.

        Raises:
            StorageError: the file cannot be read or written.
        """
        with self._changing():
            kept = self._read()
            was_there = kept.pop(name, None) is not None
            if was_there:
                self._write(kept)
            return was_there

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Two who change them at once come one after the other."""
        prepare_folder(self._folder)
        lock = FileLock(self._folder / "lock", timeout=_LOCK_SECONDS, mode=0o600)
        try:
            lock.acquire()
        except (OSError, Timeout) as error:
            raise _unusable(self._folder, error) from error
        try:
            yield
        finally:
            lock.release()

    def _read(self) -> dict[str, str]:
        try:
            kept = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise _unusable(self._file, error) from error
        if not isinstance(kept, dict) or not all(isinstance(each, str) for each in kept.values()):
            raise _unusable(self._file, ValueError("it is not as it was written"))
        return kept

    def _write(self, kept: dict[str, str]) -> None:
        try:
            write_whole(self._file, json.dumps(kept, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise _unusable(self._file, error) from error

    def _make_key(self) -> None:
        """A key, where there is none yet that could be used: nothing was encrypted with it."""
        try:
            if not self._key_file.exists():
                write_whole(self._key_file, Fernet.generate_key())
        except OSError as error:
            raise _unusable(self._key_file, error) from error

    def _cipher(self) -> Fernet:
        try:
            status = self._key_file.stat()
            if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
                self._key_file.chmod(0o600)
            return Fernet(self._key_file.read_bytes().strip())
        except FileNotFoundError as error:
            raise self._without_key("is not there") from error
        except OSError as error:
            raise _unusable(self._key_file, error) from error
        except ValueError as error:
            raise self._without_key("is damaged") from error

    def _without_key(self, fault: str) -> StorageError:
        return StorageError(
            f"the key of the secrets, {self._key_file}, {fault}: what is kept cannot be read",
            advice=f"Bring the key back from a backup; or move {self._folder} away, and keep your"
            " secrets anew with `rondo tools secret set NAME`.",
            title="The secrets cannot be used",
        )


def _unusable(path: Path, error: Exception) -> StorageError:
    reason = getattr(error, "strerror", None) or str(error)
    return StorageError(
        f"{path} cannot be used: {reason}",
        advice="Correct its permissions, or move it away and keep your secrets anew.",
        title="The secrets cannot be used",
    )
