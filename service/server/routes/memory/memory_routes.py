"""``/v1/memory``: searching long-term memory, and how much there is in it."""

from __future__ import annotations

from fastapi import APIRouter

from service.domain.anchors import SearchResult
from service.server.daemon import TheDaemon
from service.server.http.json_body import JSONRoute
from service.server.routes.memory.index_routes import index_info, index_progress
from service.server.routes.memory.note_routes import counted_notes
from service.server.security.bearer_auth import Owner
from service.wire.memory_bodies import SearchRequest, Stats

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
    found = await agent.memory.long_term.stats()
    notes, notes_problem = await counted_notes(agent, owner)
    return Stats(
        run_loops=found.run_loops,
        segments=found.segments,
        embedded=found.embedded,
        pending=found.pending,
        embedder=found.embedder,
        problem=found.problem,
        notice=found.notice,
        notes=notes,
        notes_problem=notes_problem,
        index=index_info(found.index),
        progress=index_progress(found.index.progress if found.index else None),
        readers=agent.memory.journal.changes.lags(),
    )
