"""``/v1/approvals``: what a person has allowed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query

from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.daemon_bodies import Approval, Approvals

if TYPE_CHECKING:
    from service.memory.journal.standing_approvals import StandingApproval

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/approvals", tags=["approvals"])
async def approvals(daemon: TheDaemon, owner: Owner) -> Approvals:
    """What may run without being asked for, because a person once said so."""
    standing = (await daemon.agent()).memory.journal.standing_approvals
    return Approvals(approvals=[_shown(each) for each in standing.of(owner)])


@router.delete("/approvals", tags=["approvals"])
async def revoke(
    daemon: TheDaemon,
    owner: Owner,
    scope: Annotated[str, Query(description="As it is listed, word for word.")],
) -> Approval:
    """Take a yes back: from now on it is asked for again."""
    standing = (await daemon.agent()).memory.journal.standing_approvals
    return _shown(await standing.revoke(scope, owner=owner))


def _shown(approval: StandingApproval) -> Approval:
    return Approval(
        scope=approval.scope,
        tool=approval.tool,
        granted_at=approval.granted_at,
        run_loop_id=approval.run_loop_id,
    )
