"""``/v1/memory/expand``: reading around what was found in long-term memory."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.domain.anchors import AnchorRef, ExpandedContext, ExpandedWindow, SegmentType
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


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
    """How many segments, or iterations, before each."""
    after: int = Field(default=3, ge=0, le=1000)
    """How many segments, or iterations, after each."""
    unit: Literal["segments", "iterations"] = "segments"
    """What `before` and `after` count; iterations are given whole, an anchor's own too."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Bound of all that is given together; what is farthest from the anchors falls first."""

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.anchor is None) == (self.anchors is None):
            raise ValueError("give either `anchor` or `anchors`")
        return self


class ExpandedWindows(BaseModel):
    """What stands around several anchors; where that overlaps or touches, it is one window."""

    windows: list[ExpandedWindow]


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
