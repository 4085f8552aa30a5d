"""``/v1/files/changes``: what the assistant has changed in files, and taking it back."""

from __future__ import annotations

from typing import NamedTuple

import anyio.to_thread
from fastapi import APIRouter

from service.domain.errors import ConflictError
from service.memory.file_changes import FileChange, FileChanges
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.storage.concurrency import run_to_end
from service.tools.files.file_grants import granted_for_writing
from service.tools.files.file_writer import FileWriter
from service.tools.protocol import ToolFailure
from service.wire.file_bodies import ChangedFile, ChangedFileDetails, ChangedFiles, UndoneChange

router = APIRouter(prefix="/v1/files", tags=["files"], route_class=JSONRoute)


class _Parts(NamedTuple):
    changes: FileChanges
    writer: FileWriter


@router.get("/changes")
async def changes(daemon: TheDaemon, owner: Owner) -> ChangedFiles:
    """The changes that are kept, newest first."""
    parts = await _parts(daemon)

    def listed() -> ChangedFiles:
        kept = parts.changes.of(owner)
        return ChangedFiles(changes=[_shown(change, parts.writer) for change in kept])

    return await anyio.to_thread.run_sync(listed)


@router.get("/changes/{change_id}")
async def change(change_id: str, daemon: TheDaemon, owner: Owner) -> ChangedFileDetails:
    """One of them, with what taking it back would do."""
    parts = await _parts(daemon)

    def details() -> ChangedFileDetails:
        change, content = parts.changes.find(change_id, owner=owner)
        try:
            difference = parts.writer.undo_difference(change, content)
        except ToolFailure as failure:
            difference = f"[{failure}]"
        shown = _shown(change, parts.writer)
        return ChangedFileDetails(**shown.model_dump(), difference=difference)

    return await anyio.to_thread.run_sync(details)


@router.post("/changes/{change_id}/undo")
async def undo(change_id: str, daemon: TheDaemon, owner: Owner) -> UndoneChange:
    """Let the file hold again what it held before. Refused where it was changed since."""
    parts = await _parts(daemon)

    def take_back() -> UndoneChange:
        change, content = parts.changes.find(change_id, owner=owner)
        try:
            parts.writer.undo(change, content)
        except ToolFailure as failure:
            raise ConflictError(
                str(failure),
                advice=f"`rondo files show {change.id}` shows how it differs from what it was.",
            ) from failure
        return UndoneChange(id=change.id, path=change.path, deleted=change.before is None)

    return await run_to_end(anyio.to_thread.run_sync(take_back))


async def _parts(daemon: TheDaemon) -> _Parts:
    changes = (await daemon.agent()).memory.file_changes
    return _Parts(changes, FileWriter(granted_for_writing(daemon.settings), changes))


def _shown(change: FileChange, writer: FileWriter) -> ChangedFile:
    return ChangedFile(
        id=change.id,
        path=change.path,
        at=change.at,
        run_loop_id=change.run_loop_id,
        is_new=change.before is None,
        state=writer.state_of(change),
    )
