"""``/v1/memory``: searching long-term memory, reading around a hit, how much there is in it, and
embedding it anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from service.domain.anchors import AnchorRef, ExpandedContext, SearchResult
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.routes.memory.note_routes import counted_notes
from service.server.security.bearer_auth import Owner
from service.wire.memory_bodies import (
    AnchorObject,
    ExpandedWindows,
    ExpandRequest,
    IndexInfo,
    IndexProgress,
    ReindexRequest,
    ReindexStarted,
    SearchRequest,
    Stats,
)

if TYPE_CHECKING:
    from service.memory.protocol import IndexStats, Progress

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


@router.post("/search")
async def search(request: SearchRequest, daemon: TheDaemon, owner: Owner) -> SearchResult:
    """Find what was said, thought and done, by words and by meaning, best first."""
    memory = (await daemon.agent()).memory.long_term
    from service.memory.protocol import SearchFilters  # slow, but loaded once there is an agent

    return await memory.search(
        request.query,
        owner=owner,
        limit=request.limit,
        max_tokens=request.max_tokens,
        filters=SearchFilters(
            types=None if request.types is None else frozenset(request.types),
            since=request.since,
            until=request.until,
            run_loop_id=request.run_loop_id,
            without_run_loop_id=request.without_run_loop_id,
            metadata=request.metadata,
        ),
        explain=request.explain,
        rerank=request.rerank,
        fold=request.fold,
    )


@router.get("/stats")
async def stats(daemon: TheDaemon, owner: Owner) -> Stats:
    """How much is remembered, and how much of it is still to be embedded."""
    agent = await daemon.agent()
    long_term = await agent.memory.long_term.stats()
    notes, notes_problem = await counted_notes(agent, owner)
    return Stats(
        run_loops=long_term.run_loops,
        segments=long_term.segments,
        embedded=long_term.embedded,
        pending=long_term.pending,
        embedder=long_term.embedder,
        problem=long_term.problem,
        notice=long_term.notice,
        notes=notes,
        notes_problem=notes_problem,
        index=index_info(long_term.index),
        progress=index_progress(long_term.index.progress if long_term.index else None),
        readers=agent.memory.journal.changes.lags(),
    )


@router.post("/expand")
async def expand(
    request: ExpandRequest, daemon: TheDaemon, owner: Owner
) -> ExpandedContext | ExpandedWindows:
    """What stands at an anchor, and around it. For `anchors`: an object with `windows`."""
    memory = (await daemon.agent()).memory.long_term
    from service.memory.search.expansion import (
        as_context,  # slow, but loaded once there is an agent
    )

    anchors = [request.anchor] if request.anchor is not None else request.anchors or []
    windows = await memory.expand_many(
        [_ref(anchor) for anchor in anchors],
        owner=owner,
        before=request.before,
        after=request.after,
        unit=request.unit,
        max_tokens=request.max_tokens,
    )
    if request.anchor is not None:
        return as_context(windows[0])
    return ExpandedWindows(windows=windows)


def _ref(anchor: str | AnchorObject) -> AnchorRef:
    if isinstance(anchor, str):
        return AnchorRef.parse(anchor)
    return AnchorRef(anchor.run_loop_id, anchor.iteration_index, anchor.segment_index)


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
