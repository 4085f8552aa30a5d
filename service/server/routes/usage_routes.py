"""``/v1/usage``: what the language model was used for, in tokens and money."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.domain.usage import Grouping, UsageReport
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.time_parameters import Moment

router = APIRouter(prefix="/v1", tags=["usage"], route_class=JSONRoute)


@router.get("/usage")
async def usage(
    daemon: TheDaemon,
    owner: Owner,
    *,
    since: Annotated[Moment | None, Query(description="Calls made then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Calls made before then.")] = None,
    by: Annotated[
        Grouping,
        Query(description="What a line sums up. A day is one of the daemon's local time."),
    ] = "day",
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many lines.")] = 100,
) -> UsageReport:
    """The model calls of a time: days newest first, all else most tokens first; and the caps."""
    agent = await daemon.agent()
    table, prices = agent.memory.journal.usage, agent.options.prices
    lines = await table.lines(owner=owner, by=by, since=since, until=until, limit=limit + 1)
    return UsageReport(
        by=by,
        since=since,
        until=until,
        currency=None if prices is None else prices.currency,
        lines=tuple(lines[:limit]),
        more=len(lines) > limit,
        total=await table.total(owner=owner, since=since, until=until),
        spend=await agent.spend_status(),
    )
