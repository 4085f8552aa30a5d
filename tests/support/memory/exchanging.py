"""Memories at work, files of run loops, and what is made of both."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from service.domain.exchange import ImportReport
from service.memory.exchange.exporting import Exporting
from service.memory.exchange.importing import Importing
from service.memory.memory import Memory
from service.memory.protocol import Embedder

MOMENT = "2026-05-04T12:00:00.123Z"


@asynccontextmanager
async def at_work(folder: Path, embedder: Embedder | None = None) -> AsyncIterator[Memory]:
    """A memory that archives and embeds."""
    async with Memory(folder, embedder) as memory, anyio.create_task_group() as group:
        group.start_soon(memory.work)
        await memory.warmed_up()
        try:
            yield memory
        finally:
            group.cancel_scope.cancel()


def turn(question: str | None, answer: str | None = None, **more: Any) -> dict[str, Any]:
    """An iteration of a file."""
    return {"user_message": question, "response": answer, "timestamp": MOMENT, **more}


def loop(loop_id: str, *turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A line of a file, as an object."""
    return {
        "id": loop_id,
        "goal": f"Goal of {loop_id}",
        "status": "completed",
        "created_at": MOMENT,
        "completed_at": MOMENT,
        "iterations": list(turns),
        **more,
    }


def lines(*objects: Any) -> bytes:
    """A file of these; a text is a line as it is."""
    return b"".join(
        (each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)).encode() + b"\n"
        for each in objects
    )


async def pieces(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """A file as it comes over a wire."""
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


async def bring_in(memory: Memory, *objects: Any, **more: Any) -> ImportReport:
    """Import these lines."""
    options = {"owner": "me", **more}
    return await Importing(memory, **options).take(pieces(lines(*objects)))


async def exported(memory: Memory, owner: str = "me", **filters: Any) -> bytes:
    """An export, whole."""
    return b"".join([line async for line in Exporting(memory, owner, **filters).lines()])


def counts(report: ImportReport) -> tuple[int, int, int, int]:
    """Imported, extended, unchanged, failed."""
    return report.imported, report.extended, report.unchanged, report.failures
