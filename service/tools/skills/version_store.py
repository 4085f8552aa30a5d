"""Every version of each skill: its files by the hash of what they hold, and a list of versions.

    objects/1f/1fc0…            what a file holds, once, however many versions have it
    skills/tea/000001.json      a version: when, by whom, and its files by path and hash
    scripts/backup.sh/…         the same of a script by itself

A version is written whole or not at all: first what its files hold, then its list, by renaming. A
lock keeps two processes apart, such as the daemon and a command. What is oldest goes when there is
more than is kept, but for the newest version of each skill.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from service.domain.errors import ConflictError, NotFoundError, StorageError
from service.tools.scripts.script_folder import SeenFile
from service.tools.skills.skill_catalogue import Kind

Author = Literal["person", "model", "unknown"]
"""Who made a version; ``unknown``: somebody changed the files by other means."""

_LOCK_SECONDS = 20.0


class VersionFile(BaseModel):
    """A file of a version."""

    model_config = ConfigDict(frozen=True)

    path: str
    sha256: str
    may_run: bool = False


class Version(BaseModel):
    """What a skill was at a time."""

    model_config = ConfigDict(frozen=True)

    number: int
    """From 1; none is given twice."""
    at: datetime
    """When it was kept."""
    author: Author
    run_loop_id: str = ""
    """In which it was made, by a model."""
    digest: str
    """SHA-256 of all of it; what a yes to a run names."""
    files: tuple[VersionFile, ...]
    """By path. None where the skill was removed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept."""

    versions: int = 200
    """Of one skill."""
    total_bytes: int = 200_000_000
    """Of what files hold, of all skills."""


KEPT = Bounds()


class VersionStore:
    """The versions of all skills. All methods block."""

    def __init__(self, folder: Path, *, bounds: Bounds = KEPT) -> None:
        """Name where they are kept; the folder is made when there is something to keep."""
        self._folder = folder
        self._bounds = bounds

    def history(self, kind: Kind, name: str) -> tuple[Version, ...]:
        """The versions that are kept, oldest first.

        Raises:
            StorageError: they cannot be read.
        """
        folder = self._list(kind, name)
        try:
            paths = sorted(folder.glob("*.json"))
        except OSError as error:
            raise _unreadable(folder, error) from error
        return tuple(_read(path) for path in paths)

    def version(self, kind: Kind, name: str, number: int) -> Version:
        """One version.

        Raises:
            NotFoundError: it is not kept.
            StorageError: it cannot be read.
        """
        path = self._path(kind, name, number)
        if not path.is_file():
            versions = [each.number for each in self.history(kind, name)]
            have = f"{versions[0]} to {versions[-1]}" if versions else "none"
            raise NotFoundError(
                f"there is no version {number} of {name}", advice=f"Kept are: {have}."
            )
        return _read(path)

    def content(self, file: VersionFile) -> bytes:
        """What a file of a version holds.

        Raises:
            StorageError: it cannot be read, or is not what was kept.
        """
        path = self._object(file.sha256)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise _unreadable(path, error) from error
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise StorageError(
                f"{path} is damaged: it does not hold what was kept",
                advice="Delete the file, and restore it from a backup; other versions are whole.",
            )
        return data

    def keep(
        self,
        kind: Kind,
        name: str,
        files: Sequence[SeenFile],
        folder: Path,
        *,
        digest: str,
        author: Author,
        run_loop_id: str = "",
    ) -> Version:
        """Keep a version, unless it is the newest one already.

        Args:
            kind: whether it is a skill or a script by itself.
            name: of it.
            files: what it holds.
            folder: in which they lie.
            digest: of all of it.
            author: who made it.
            run_loop_id: in which a model made it.

        Returns:
            The newest version.

        Raises:
            StorageError: the disk refuses; what was kept stays.
            ConflictError: another process holds the store, or a file is changed just now.
        """
        with self._writing():
            newest = self._newest(kind, name)
            if newest is not None and newest.digest == digest:
                return newest
            for each in files:
                self._put(folder / each.path, each.sha256)
            version = Version(
                number=1 if newest is None else newest.number + 1,
                at=datetime.now(UTC),
                author=author,
                run_loop_id=run_loop_id,
                digest=digest,
                files=tuple(
                    VersionFile(path=f.path, sha256=f.sha256, may_run=f.may_run) for f in files
                ),
            )
            self._write(self._path(kind, name, version.number), version.model_dump_json().encode())
            self._prune(kind, name)
            return version

    def forget(self, kind: Kind, name: str) -> int:
        """Remove all versions of a skill; how many there were.

        Raises:
            StorageError: the disk refuses.
            ConflictError: another process holds the store.
        """
        with self._writing():
            folder = self._list(kind, name)
            count = len(list(folder.glob("*.json")))
            shutil.rmtree(folder, ignore_errors=True)
            self._sweep()
            return count

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep others from changing skills meanwhile.

        Raises:
            ConflictError: another process is at it.
            StorageError: the disk refuses.
        """
        with self._locked("changing"):
            yield

    # --- places

    def _list(self, kind: Kind, name: str) -> Path:
        return self._folder / f"{kind}s" / unicodedata.normalize("NFC", name)

    def _path(self, kind: Kind, name: str, number: int) -> Path:
        return self._list(kind, name) / f"{number:06}.json"

    def _object(self, sha256: str) -> Path:
        return self._folder / "objects" / sha256[:2] / sha256

    # --- writing; within the lock

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._locked("writing"):
            yield

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self._folder / f"{name}.lock", timeout=_LOCK_SECONDS, mode=0o600):
                yield
        except Timeout as error:
            raise ConflictError(
                "somebody else is changing skills just now", advice="Try again in a moment."
            ) from error
        except OSError as error:
            raise StorageError(
                f"{error.filename or self._folder}: {error.strerror or error}",
                advice=f"Free some space, and give this user the right to write in {self._folder}.",
            ) from error

    def _newest(self, kind: Kind, name: str) -> Version | None:
        paths = sorted(self._list(kind, name).glob("*.json"))
        return _read(paths[-1]) if paths else None

    def _put(self, source: Path, sha256: str) -> None:
        if self._object(sha256).is_file():
            return
        data = source.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ConflictError(f"{source.name} is changed just now", advice="Try again.")
        self._write(self._object(sha256), data)

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix="new-")  # mode 600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _prune(self, kind: Kind, name: str) -> None:
        paths = sorted(self._list(kind, name).glob("*.json"))
        surplus = paths[: -self._bounds.versions]
        for path in surplus:
            path.unlink()
        swept = bool(surplus)
        if swept:
            self._sweep()
        while self._size() > self._bounds.total_bytes and (oldest := self._oldest()) is not None:
            oldest.unlink()
            self._sweep()

    def _oldest(self) -> Path | None:
        """The version that was kept first, of those that are not the newest of their skill."""
        older: list[Path] = []
        for folder in self._lists():
            older += sorted(folder.glob("*.json"))[:-1]
        return min(older, key=lambda path: path.stat().st_mtime, default=None)

    def _sweep(self) -> None:
        """Remove what no version holds any more, and what was left half-written."""
        needed = {
            file.sha256
            for folder in self._lists()
            for path in folder.glob("*.json")
            for file in _read(path).files
        }
        for path in self._folder.glob("objects/*/*"):
            if path.name not in needed:
                path.unlink()
        for path in self._folder.glob("new-*"):
            path.unlink()

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("objects/*/*"))

    def _lists(self) -> list[Path]:
        return [*self._folder.glob("skills/*"), *self._folder.glob("scripts/*")]


def _read(path: Path) -> Version:
    try:
        return Version.model_validate(json.loads(path.read_bytes()))
    except (ValueError, ValidationError) as error:
        raise StorageError(
            f"{path} is damaged",
            title="A version cannot be read",
            advice="Delete it: the other versions are whole.",
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: {error.strerror or error}", advice="Give this user the right to read it."
    )
