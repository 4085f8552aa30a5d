"""``/v1/audit``: what tools have done, by whose leave, and what came of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.domain.audit import AuditPage
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.time_parameters import Moment

router = APIRouter(prefix="/v1", tags=["audit"], route_class=JSONRoute)


@router.get("/audit")
async def audit(
    daemon: TheDaemon,
    owner: Owner,
    *,
    since: Annotated[Moment | None, Query(description="Calls begun then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Calls begun before then.")] = None,
    tool: Annotated[str | None, Query(description="Only calls of this tool.")] = None,
    run_loop_id: Annotated[str | None, Query(description="Only calls in this run loop.")] = None,
    read_only: Annotated[
        bool, Query(description="Also calls of tools that say that they only read.")
    ] = False,
    before: Annotated[
        str | None, Query(description="`next` of the page before: go on behind it.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="At most so many calls.")] = 50,
) -> AuditPage:
    """The tool calls that have begun, newest first."""
    journal = (await daemon.agent()).memory.journal
    if run_loop_id is not None:
        await journal.run_loops.check_owner(run_loop_id, owner=owner)
    return await journal.audit.page(
        owner=owner,
        since=since,
        until=until,
        tool=tool,
        run_loop_id=run_loop_id,
        with_read_only=read_only,
        cursor=before,
        limit=limit,
    )
