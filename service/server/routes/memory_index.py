"""``/v1/memory/reindex``, and what ``/v1/memory/stats`` tells of the vector index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute

if TYPE_CHECKING:
    from service.memory.protocol import IndexStats, Progress

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


class IndexProgress(BaseModel):
    """Work on the vector index that is under way."""

    doing: Literal["embedding", "reindexing", "rebuilding", "scrubbing"]
    done: int
    """Segments."""
    total: int
    rate: float
    """Segments a second, lately; 0 before that is known."""
    eta_seconds: float | None


class IndexInfo(BaseModel):
    """The vector index."""

    place: str
    """Which Chroma it is in."""
    generation: int | None
    """The one that is searched; null while it is being built."""
    embedder: str | None
    """Which embedder built it."""
    configured: str | None
    """Which one is configured; null before it is loaded."""
    indexed: int
    scrub_pending: bool
    """Whether files are still to be rid of what was forgotten."""
    damaged: list[str]
    """Folders that were set aside as damaged; they can be deleted."""
    notice: str | None
    """Why it is not used, and what to do."""


class ReindexRequest(BaseModel):
    """How to build the index anew."""

    model_config = ConfigDict(extra="forbid")

    force: bool = False
    """Even when the configured embedder has built the one there is."""


class ReindexStarted(BaseModel):
    """Whether a new index is being built."""

    started: bool
    notice: str | None
    """Why none was begun."""


@router.post("/reindex", status_code=202)
async def reindex(
    daemon: TheDaemon, owner: Owner, request: ReindexRequest | None = None
) -> ReindexStarted:
    """Build the index of the configured embedder beside the old one, in the background."""
    memory = (await daemon.agent()).memory.long_term
    notice = await memory.index.reindex(force=request is not None and request.force)
    return ReindexStarted(started=notice is None, notice=notice)


def index_info(index: IndexStats | None) -> IndexInfo | None:
    """The index as the wire has it."""
    if index is None:
        return None
    return IndexInfo(
        place=index.place,
        generation=index.generation,
        embedder=index.built_by,
        configured=index.configured,
        indexed=index.indexed,
        scrub_pending=index.scrub_pending,
        damaged=list(index.damaged),
        notice=index.notice,
    )


def index_progress(progress: Progress | None) -> IndexProgress | None:
    """Progress as the wire has it."""
    if progress is None:
        return None
    return IndexProgress(
        doing=progress.doing,
        done=progress.done,
        total=progress.total,
        rate=round(progress.rate, 1),
        eta_seconds=None if progress.eta_seconds is None else round(progress.eta_seconds, 1),
    )
