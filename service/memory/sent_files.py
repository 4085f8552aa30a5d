"""The files that persons have sent with messages: copies of Rondo's own, in the data folder.

Each is a file for this user alone: a line of JSON that tells its name and whose it is, and after it
what was sent, byte for byte. It is there before its message is accepted, and as long as any event
or any message that waits tells of it: with the words it is forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio.to_thread
from pydantic import ValidationError

from service.domain.conversation.file_attachments import SentFile, ids_in
from service.domain.errors import NotFoundError, RondoError, StorageError
from service.domain.history.events import MessageReceived
from service.memory.journal.protocol import Journal
from service.storage.private_files import delete_unfinished, write_privately

FOLDER = "sent-files"
"""Within the data folder."""
_ENDING = ".sent"

log = logging.getLogger(__name__)


class SentFiles:
    """The files that are kept. May be used from any thread."""

    def __init__(self, folder: Path) -> None:
        """Name the place; it is made with the first file."""
        self._folder = folder
        self._arriving: set[str] = set()

    @asynccontextmanager
    async def arriving(self, files: Sequence[tuple[SentFile, bytes]]) -> AsyncIterator[None]:
        """Keep files whose message is accepted within this; where it is not, they are removed.

        Raises:
            StorageError: one cannot be written.
        """
        ids = {sent.id for sent, _ in files}
        self._arriving |= ids
        try:
            for sent, data in files:
                await anyio.to_thread.run_sync(self._keep, sent, data)
            yield
        except BaseException:
            with suppress(OSError):  # then it goes with the next sweep
                self.remove(ids)
            raise
        finally:
            self._arriving -= ids

    def _keep(self, sent: SentFile, data: bytes) -> None:
        try:
            write_privately(self._path(sent.id), sent.model_dump_json().encode() + b"\n" + data)
        except OSError as error:
            raise StorageError(
                f"the file {sent.name} cannot be kept in {self._folder}: {error.strerror}",
                advice="Make room there, or correct its rights.",
            ) from error

    def find(self, file_id: str, *, owner: str) -> SentFile:
        """A file of an owner's.

        Raises:
            NotFoundError: they have no such file (any more).
        """
        return self._read(file_id, owner, whole=False)[0]

    def content(self, file_id: str, *, owner: str) -> bytes:
        """What a file holds.

        Raises:
            NotFoundError: as `find`.
        """
        return self._read(file_id, owner, whole=True)[1]

    def _read(self, file_id: str, owner: str, *, whole: bool) -> tuple[SentFile, bytes]:
        if file_id.isascii() and file_id.isalnum():
            try:
                with self._path(file_id).open("rb") as file:
                    sent = SentFile.model_validate_json(file.readline())
                    if sent.owner == owner:
                        return sent, file.read() if whole else b""
            except (OSError, ValidationError):
                pass
        raise NotFoundError(f"there is no file {file_id[:80]}", advice="It may be forgotten.")

    def remove(self, ids: Iterable[str]) -> None:
        """Keep files no longer.

        Raises:
            OSError: one cannot be deleted.
        """
        for each in ids:
            self._path(each).unlink(missing_ok=True)

    @property
    def are_there(self) -> bool:
        """Whether any file is kept, or about to be."""
        return bool(self._arriving) or next(self._folder.glob(f"*{_ENDING}"), None) is not None

    async def sweep(self, journal: Journal) -> int:
        """Remove the files of which nothing tells any more; gives how many went.

        Raises:
            StorageError: the journal cannot be read.
            OSError: a file cannot be deleted.
        """
        kept = await anyio.to_thread.run_sync(self._ids)
        kept = [each for each in kept if each not in self._arriving]
        if not kept:
            return 0
        # The inbox first: a message that leaves it meanwhile is in the journal by then.
        waiting = {
            file_id
            for entry in await journal.inbox.undelivered()
            for file_id in ids_in(entry.metadata)
        }
        gone = 0
        for file_id in kept:
            if file_id in waiting or await _is_told_of(journal, file_id):
                continue
            await anyio.to_thread.run_sync(self.remove, (file_id,))
            gone += 1
        return gone

    async def sweep_once(self, journal: Journal) -> None:
        """At the start: remove what a crash has left. Raises nothing; the log tells."""
        try:
            await self.sweep(journal)
        except (RondoError, ValueError, OSError) as error:
            log.warning("files of which nothing tells are removed later: %s", error)

    def _ids(self) -> list[str]:
        delete_unfinished(self._folder, but=self._arriving)
        return sorted(path.name.removesuffix(_ENDING) for path in self._folder.glob(f"*{_ENDING}"))

    def _path(self, file_id: str) -> Path:
        return self._folder / f"{file_id}{_ENDING}"


async def _is_told_of(journal: Journal, file_id: str) -> bool:
    telling = await journal.read(kind="message.received", holding=f"file:{file_id}")
    return any(
        isinstance(event.body, MessageReceived) and file_id in ids_in(event.body.metadata)
        for event in telling
    )
