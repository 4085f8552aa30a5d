"""``/v1/memory/expand``: reading around what was found in long-term memory."""

from __future__ import annotations

from fastapi import APIRouter

from service.domain.anchors import AnchorRef, ExpandedContext
from service.server.daemon import TheDaemon
from service.server.http.json_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.memory_bodies import AnchorObject, ExpandedWindows, ExpandRequest

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


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
