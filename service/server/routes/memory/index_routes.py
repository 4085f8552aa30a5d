"""``/v1/memory/reindex``, and what ``/v1/memory/stats`` tells of the vector index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from service.server.daemon import TheDaemon
from service.server.http.json_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.memory_bodies import IndexInfo, IndexProgress, ReindexRequest, ReindexStarted

if TYPE_CHECKING:
    from service.memory.protocol import IndexStats, Progress

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


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
