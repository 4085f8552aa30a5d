"""Memory as a file: written out, and brought in from one of Rondo's, ChatGPT's or Claude's."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path

import anyio
from anyio import to_thread

from service.domain.errors import StorageError
from service.domain.exchange import LISTED_PROBLEMS, ImportProblem, ImportReport
from service.memory.exchange.exporting import Exporting
from service.memory.exchange.importers.archives import Archive, Format
from service.memory.exchange.importing import Importing
from service.memory.memory import Memory
from service.memory.run_loop_lines import line_of


async def export_memory(
    memory: Memory,
    file: str | Path,
    *,
    owner: str = "me",
    since: datetime | None = None,
    until: datetime | None = None,
) -> int:
    """Write an owner's run loops to a file, as JSON Lines, oldest first.

    The file is for this user only. It gets its name at the end: what had it before stays until
    then.

    Args:
        memory: an open one, such as `Agent.memory`.
        file: its path.
        owner: whose run loops.
        since: those that were opened then or later.
        until: those that were opened before then.

    Returns:
        How many run loops were written; of an open one, what is done of it.

    Raises:
        StorageError: the history cannot be read, or the file cannot be written.
    """
    path = Path(file)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    written = 0
    try:
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            async with anyio.wrap_file(os.fdopen(descriptor, "wb")) as target:
                async for line in Exporting(memory, owner, since=since, until=until).lines():
                    await target.write(line)
                    written += 1
                await target.flush()
                await to_thread.run_sync(os.fsync, descriptor)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror or error}",
            title="The export cannot be written",
            advice="Name a file in a folder that is there, on a disk with room.",
        ) from error
    return written


async def import_memory(
    memory: Memory,
    file: str | Path,
    *,
    owner: str = "me",
    format: Format | None = None,  # noqa: A002 - the word for it
    dry_run: bool = False,
) -> ImportReport:
    """Bring in the run loops of a file. What is known already changes nothing.

    What cannot go in is reported, and the others go in. An import that was broken off is begun
    anew with the same file.

    Args:
        memory: an open one, such as `Agent.memory`.
        file: what `export_memory` has written; or what ChatGPT or Claude let one download: the
            ZIP, its folder, or its ``conversations.json``.
        owner: whose the run loops will be.
        format: ``rondo``, ``chatgpt`` or ``claude``; None: the contents tell.
        dry_run: look at everything, and write nothing.

    Raises:
        InvalidInputError: the file cannot be read, or holds nothing of the kind.
        StorageError: the disk refuses; what came before is in.
    """
    archive = Archive(Path(file), BytesIO(), format)
    await to_thread.run_sync(archive.__enter__)
    try:
        lines = _Lines(archive)
        importing = Importing(memory, owner=owner, source=archive.format, dry_run=dry_run)
        return lines.report(await importing.take(_in_threads(lines.chunks())))
    finally:
        await to_thread.run_sync(archive.__exit__)


async def _in_threads(chunks: Iterator[bytes]) -> AsyncGenerator[bytes]:
    while (chunk := await to_thread.run_sync(next, chunks, None)) is not None:
        yield chunk


class _Lines:
    """The lines of an archive, and what could not become one."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._failed: list[ImportProblem] = []
        self._failures = 0

    def chunks(self) -> Iterator[bytes]:
        """Lines, in pieces of any size."""
        if self._archive.format == "rondo":
            yield from self._archive.chunks()
            return
        for conversation in self._archive.conversations():
            if conversation.problem is not None:
                self._failures += 1
                name = f"conversation {conversation.number} {conversation.title!r}"
                self._failed.append(
                    ImportProblem(
                        line=conversation.number, problem=f"{name}: {conversation.problem}"
                    )
                )
            for run_loop in conversation.run_loops:
                yield line_of(run_loop)

    def report(self, report: ImportReport) -> ImportReport:
        """The report, with what never became a line."""
        failed = (*self._failed, *report.failed)[:LISTED_PROBLEMS]
        failures = report.failures + self._failures
        return report.model_copy(update={"failures": failures, "failed": failed})
