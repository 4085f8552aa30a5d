"""``POST /v1/run-loops/{id}/reroute``: a message is moved to the run loop where it belongs."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.domain.run_loops import RunLoop
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute

router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


class RerouteRequest(BaseModel):
    """Where a message belongs; or that its last move is undone."""

    model_config = ConfigDict(extra="forbid")

    message_id: str | None = None
    """None: the newest message of the run loop that was no answer. The same request again, with
    nothing said there since, moves nothing more."""
    to: str | None = None
    """Must be given, but to undo. The run loop where it belongs, active or ended; null, or
    ``new``: a new one."""
    undo: bool = False
    """The last move of the message, out of this run loop or into it, is taken back."""

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.undo == ("to" in self.model_fields_set):
            raise ValueError("give either `to`, a run loop or null for a new one, or `undo`: true")
        return self


class Rerouted(BaseModel):
    """What was moved, and where to."""

    moved: list[str]
    """The messages: those that were observed together are moved together."""
    from_run_loop_id: Annotated[str, Field(serialization_alias="from")]
    to: str
    run_loop: RunLoop
    """The one that they are in now."""


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
