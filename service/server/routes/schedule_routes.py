"""``/v1/schedules``: reminders and tasks that wait or recur, and what is to be told of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header

from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.schedule_bodies import (
    DueNotices,
    NewSchedule,
    RanSchedule,
    ScheduleDetails,
    ScheduleLine,
    ScheduleList,
    SeenNotices,
)

# What turns schedules into lines is slow to import, and loaded once there is an agent.

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=JSONRoute)


@router.get("")
async def list_schedules(daemon: TheDaemon, owner: Owner) -> ScheduleList:
    """All schedules, newest first; those that have ended too, until they are removed."""
    schedules = (await daemon.agent()).schedules
    from service.agent.schedules.schedule_listing import line_of

    lines = [line_of(schedules, each) for each in schedules.all(owner=owner)]
    return ScheduleList(schedules=lines)


@router.post("", status_code=201)
async def add(
    request: NewSchedule,
    daemon: TheDaemon,
    owner: Owner,
    idempotency_key: Annotated[
        str | None,
        Header(max_length=200, description="The same key adds it once, however often it is sent."),
    ] = None,
) -> ScheduleLine:
    """Have something told or done, once or again and again.

    What is ambiguous is refused, with an example; look at `next` for how it was understood.
    """
    schedules = (await daemon.agent()).schedules
    from service.agent.schedules.schedule_listing import line_of

    added = await schedules.add(
        request.what,
        request.when,
        kind=request.kind,
        zone=request.zone,
        grants=request.allow,
        owner=owner,
        idempotency_key=idempotency_key,
    )
    return line_of(schedules, added)


@router.get("/notices")
async def notices(daemon: TheDaemon, owner: Owner) -> DueNotices:
    """What has come due, and no client has told its owner yet; see `POST …/notices/seen`."""
    schedules = (await daemon.agent()).schedules
    from service.agent.schedules.schedule_listing import notice_of

    return DueNotices(notices=[notice_of(each) for each in await schedules.notices(owner=owner)])


@router.post("/notices/seen")
async def seen(request: SeenNotices, daemon: TheDaemon, owner: Owner) -> SeenNotices:
    """Its owner was told of these run loops: no other client tells them again."""
    schedules = (await daemon.agent()).schedules
    await schedules.seen(request.run_loop_ids, owner=owner)
    return request


@router.get("/{schedule_id}")
async def show(schedule_id: str, daemon: TheDaemon, owner: Owner) -> ScheduleDetails:
    """A schedule, and what became of its newest times."""
    schedules = (await daemon.agent()).schedules
    from service.agent.schedules.schedule_listing import details_of

    return await details_of(schedules, schedule_id, owner=owner)


@router.post("/{schedule_id}/pause")
async def pause(schedule_id: str, daemon: TheDaemon, owner: Owner) -> ScheduleLine:
    """Let it be due no more, until it is resumed."""
    schedules = (await daemon.agent()).schedules
    from service.agent.schedules.schedule_listing import line_of

    return line_of(schedules, await schedules.pause(schedule_id, owner=owner))


@router.post("/{schedule_id}/resume")
async def resume(schedule_id: str, daemon: TheDaemon, owner: Owner) -> ScheduleLine:
    """Let it be due again; what came due meanwhile is skipped."""
    schedules = (await daemon.agent()).schedules
    from service.agent.schedules.schedule_listing import line_of

    return line_of(schedules, await schedules.resume(schedule_id, owner=owner))


@router.post("/{schedule_id}/run")
async def run(schedule_id: str, daemon: TheDaemon, owner: Owner) -> RanSchedule:
    """Tell or do it now; its next time stays."""
    schedules = (await daemon.agent()).schedules
    run_loop_id = await schedules.run_now(schedule_id, owner=owner)
    return RanSchedule(schedule_id=schedule_id, run_loop_id=run_loop_id)


@router.delete("/{schedule_id}")
async def remove(schedule_id: str, daemon: TheDaemon, owner: Owner) -> ScheduleLine:
    """Let nothing be left of it; the run loops that it opened stay."""
    schedules = (await daemon.agent()).schedules
    from service.agent.schedules.schedule_listing import line_of

    line = line_of(schedules, schedules.find(schedule_id, owner=owner))
    await schedules.remove(schedule_id, owner=owner)
    return line
