"""``/v1/memory``: searching long-term memory, and how much there is in it."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from service.domain.anchors import SearchResult, SegmentType
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute
from service.server.routes.memory_index import (
    IndexInfo,
    IndexProgress,
    index_info,
    index_progress,
)
from service.server.routes.memory_notes import counted_notes
from service.server.routes.moments import Moment

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


class SearchRequest(BaseModel):
    """What to look for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(max_length=10_000)
    """In any words and any language."""
    limit: int = Field(default=8, ge=1, le=100)
    """At most so many hits."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Bound of all hits together; the best one always comes."""
    types: list[SegmentType] | None = Field(default=None, min_length=1)
    """Only segments of these types."""
    since: Moment | None = None
    """Only from then on."""
    until: Moment | None = None
    """Only from before then."""
    run_loop_id: str | None = None
    """Only from this run loop."""
    without_run_loop_id: str | None = None
    """From all run loops but this one."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict, max_length=20)
    """Only what was sent with all of these names and values."""
    explain: bool = False
    """Whether each hit tells the parts of its score."""
    rerank: bool = False
    """Whether the reranker, if one is configured, has the last word."""
    fold: bool = True
    """Whether pieces that say the same are one hit, with the others as its `duplicates`."""


class Stats(BaseModel):
    """How much is remembered."""

    run_loops: int
    segments: int
    embedded: int
    pending: int
    """Segments that wait for their vector; they are found by their words already."""
    embedder: str | None
    """Which one is in use; None before it is loaded, or without one."""
    problem: str | None
    """Why embedding does not go on."""
    notice: str | None = None
    """While the ledger does not yet hold all that the journal does: how far it has come."""
    notes: int = 0
    """How many notes you have."""
    notes_problem: str | None = None
    """Why none are written at present, where they should be; see ``/v1/memory/notes``."""
    index: IndexInfo | None = None
    progress: IndexProgress | None = None
    """What is being done about the index; null when nothing is."""
    readers: dict[str, int] = Field(default_factory=dict)
    """By how many changes of the journal each of those who follow it is behind."""


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
