"""What files held before the assistant changed them, so that a person can have it back.

Each change is a file of its own in a folder of the data folder, for its user only: a line of JSON
that says what was changed, and after it the former content, byte for byte. It is there before the
file itself is changed, so that a crash leaves nothing that cannot be undone. How many are kept, and
how large they are together, is bounded: the oldest go first.

These are words of a person's. A change goes with the words of the tool call that made it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from service.domain.errors import NotFoundError, StorageError
from service.storage.private_files import delete_unfinished, write_privately

FOLDER = "file-changes"
"""Within the data folder."""
_ENDING = ".change"
_MOST = 200
_MOST_BYTES = 200_000_000


class FileChange(BaseModel):
    """A change of one file."""

    model_config = ConfigDict(frozen=True)

    id: str
    owner: str
    run_loop_id: str
    """Where it was made; empty where a person has run the tool by hand."""
    call_key: str
    """The idempotency key of the tool call that made it."""
    path: str
    """Whole, without links."""
    at: AwareDatetime
    before: str | None
    """The SHA-256 of what the file held before; None: there was no file."""
    after: str
    """The SHA-256 of what it holds by the change."""


class FileChanges:
    """The changes that are kept. May be used from any thread."""

    def __init__(self, folder: Path, *, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        """Name the place; it is made with the first change.

        Args:
            folder: where they are kept.
            most: how many are kept.
            most_bytes: how large they may be together.
        """
        self._folder = folder
        self._most = most
        self._most_bytes = most_bytes
        self.writing = threading.Lock()
        """Held by whoever changes a file, from the last look at it to its change."""

    def keep(self, change: FileChange, content: bytes) -> None:
        """Keep what a file holds that is about to be changed. Durable when this returns.

        Raises:
            StorageError: it cannot be written; then the file must not be changed.
        """
        data = change.model_dump_json().encode() + b"\n" + content
        if len(data) > self._most_bytes:
            raise StorageError(f"what it holds, {len(content):,} bytes, is too large to be kept")
        try:
            number = self._make_room(len(data))
            write_privately(self._folder / f"{number:010d}-{change.id}{_ENDING}", data)
        except OSError as error:
            raise StorageError(
                f"what the file holds cannot be kept in {self._folder}: {error.strerror}",
                advice="Make room there, or correct its rights.",
            ) from error

    def all(self) -> list[FileChange]:
        """The changes of all owners, newest first; what cannot be read is left out."""
        changes = (self._header(path) for path in self._files())
        return [change for change in changes if change is not None]

    def of(self, owner: str) -> list[FileChange]:
        """An owner's changes, newest first."""
        return [change for change in self.all() if change.owner == owner]

    def find(self, change_id: str, *, owner: str) -> tuple[FileChange, bytes]:
        """A change, and what the file held before it; empty where there was none.

        Raises:
            NotFoundError: the owner has no such change (any more).
        """
        path = self._path(change_id)
        read = None if path is None else self._read(path)
        if read is None or read[0].owner != owner:
            raise NotFoundError(
                f"there is no change {change_id[:80]} of a file",
                advice="`rondo files` lists those that are kept. The oldest go, and so do those"
                " whose run loop was forgotten.",
            )
        return read

    def remove(self, change_id: str) -> None:
        """Keep a change no longer."""
        path = self._path(change_id)
        if path is not None:
            path.unlink(missing_ok=True)

    def forget(
        self, owner: str, *, run_loop_id: str | None = None, but: Collection[str] = ()
    ) -> int:
        """Remove the changes of a run loop, and the later ones of the same files: what those keep
        may be what was written by a change that goes.

        Args:
            owner: whose.
            run_loop_id: the loop; None: all that the owner has.
            but: the keys of calls whose words stay.

        Returns:
            How many went.

        Raises:
            OSError: one cannot be deleted.
        """
        gone = 0
        paths: set[str] = set()
        with self.writing:
            delete_unfinished(self._folder)
            for change in reversed(self.of(owner)):
                is_named = run_loop_id is None or (
                    change.run_loop_id == run_loop_id and change.call_key not in but
                )
                if is_named or change.path in paths:
                    paths.add(change.path)
                    self.remove(change.id)
                    gone += 1
        return gone

    def run_loops(self, owner: str) -> frozenset[str]:
        """The ids of the run loops that an owner's changes were made in."""
        return frozenset(change.run_loop_id for change in self.of(owner))

    def _path(self, change_id: str) -> Path | None:
        if not (change_id.isascii() and change_id.isalnum()):
            return None
        return next(self._folder.glob(f"*-{change_id}{_ENDING}"), None)

    def _files(self) -> list[Path]:
        """Newest first, by their numbers: clocks are set back."""
        return sorted(self._folder.glob(f"*{_ENDING}"), reverse=True)

    def _header(self, path: Path) -> FileChange | None:
        try:
            with path.open("rb") as file:
                return FileChange.model_validate_json(file.readline())
        except (OSError, ValidationError):
            return None

    def _read(self, path: Path) -> tuple[FileChange, bytes] | None:
        try:
            header, _, content = path.read_bytes().partition(b"\n")
            return FileChange.model_validate_json(header), content
        except (OSError, ValidationError):
            return None

    def _make_room(self, size: int) -> int:
        """Delete the oldest where there are too many; gives the number of the next one."""
        files = self._files()
        for kept, path in enumerate(files, 1):
            size += path.stat().st_size
            if kept >= self._most or size > self._most_bytes:
                path.unlink(missing_ok=True)
        return int(files[0].name.partition("-")[0]) + 1 if files else 1
