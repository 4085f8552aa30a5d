"""``/v1/memory``: searching long-term memory, and reading around what was found."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.domain.anchors import AnchorRef, ExpandedContext, SearchResult, SegmentType
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute
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
    explain: bool = False
    """Whether each hit tells the parts of its score."""


class AnchorObject(BaseModel):
    """An anchor as a search gives it; its first three members suffice."""

    model_config = ConfigDict(extra="forbid")

    run_loop_id: str
    iteration_index: int = Field(ge=0, lt=10**9)
    segment_index: int = Field(ge=0, lt=10**9)
    segment_type: SegmentType | None = None
    timestamp: str | None = None
    text: str | None = None


AnchorInput = Annotated[
    str | AnchorObject, Field(description="RUN_LOOP_ID:ITERATION.SEGMENT, or an anchor object")
]


class ExpandRequest(BaseModel):
    """What to read around: one anchor, or several."""

    model_config = ConfigDict(extra="forbid")

    anchor: AnchorInput | None = None
    anchors: list[AnchorInput] | None = Field(default=None, min_length=1, max_length=100)
    before: int = Field(default=3, ge=0, le=1000)
    """How many segments before it."""
    after: int = Field(default=3, ge=0, le=1000)
    """How many segments after it."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Bound of each context; the segments farthest from the focus fall first."""

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.anchor is None) == (self.anchors is None):
            raise ValueError("give either `anchor` or `anchors`")
        return self


class ExpandedContexts(BaseModel):
    """A context for each of several anchors, in their order."""

    contexts: list[ExpandedContext]


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
        ),
        explain=request.explain,
    )


@router.post("/expand")
async def expand(
    request: ExpandRequest, daemon: TheDaemon, owner: Owner
) -> ExpandedContext | ExpandedContexts:
    """What stands at an anchor, and around it. For `anchors`: an object with `contexts`."""
    memory = (await daemon.agent()).memory.long_term
    anchors = [request.anchor] if request.anchor is not None else request.anchors or []
    contexts = [
        await memory.expand(
            _ref(anchor),
            owner=owner,
            before=request.before,
            after=request.after,
            max_tokens=request.max_tokens,
        )
        for anchor in anchors
    ]
    return contexts[0] if request.anchor is not None else ExpandedContexts(contexts=contexts)


@router.get("/stats")
async def stats(daemon: TheDaemon, owner: Owner) -> Stats:
    """How much is remembered, and how much of it is still to be embedded."""
    found = await (await daemon.agent()).memory.long_term.stats()
    return Stats(
        run_loops=found.run_loops,
        segments=found.segments,
        embedded=found.embedded,
        pending=found.pending,
        embedder=found.embedder,
        problem=found.problem,
    )


def _ref(anchor: str | AnchorObject) -> AnchorRef:
    if isinstance(anchor, str):
        return AnchorRef.parse(anchor)
    return AnchorRef(anchor.run_loop_id, anchor.iteration_index, anchor.segment_index)
