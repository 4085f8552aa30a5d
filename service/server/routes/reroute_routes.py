"""``POST /v1/run-loops/{id}/reroute``: a message is moved to the run loop where it belongs."""

from __future__ import annotations

from fastapi import APIRouter

from service.server.daemon import TheDaemon
from service.server.http.json_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.run_loop_bodies import Rerouted, RerouteRequest

router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


@router.post("/{run_loop_id:path}/reroute")
async def reroute(
    run_loop_id: str, daemon: TheDaemon, owner: Owner, request: RerouteRequest
) -> Rerouted:
    """Move a message, and what followed from it, to the run loop where it belongs; or back."""
    agent = await daemon.agent()
    if request.undo:
        moved = await agent.undo_reroute(run_loop_id, message_id=request.message_id, owner=owner)
    else:
        moved = await agent.reroute(
            run_loop_id, message_id=request.message_id, to=request.to, owner=owner
        )
    return Rerouted(
        moved=list(moved.message_ids),
        from_run_loop_id=moved.from_run_loop_id,
        to=moved.to_run_loop_id,
        run_loop=moved.run_loop,
    )
