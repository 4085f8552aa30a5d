"""Schedules as people see them."""

from __future__ import annotations

from service.agent.schedules.schedule_actions import Notice, ScheduleActions
from service.schedules.schedule import Occurrence, Schedule
from service.schedules.timing_words import language_of, timing_in_words
from service.wire.schedule_bodies import DueNotice, OccurrenceLine, ScheduleDetails, ScheduleLine


def line_of(schedules: ScheduleActions, schedule: Schedule) -> ScheduleLine:
    """A schedule in a list."""
    return ScheduleLine(
        id=schedule.id,
        kind=schedule.kind,
        what=schedule.what,
        when=timing_in_words(schedule.timing, language_of(schedule.what)),
        zone=schedule.timing.zone,
        state=schedule.state,
        next=schedules.upcoming(schedule),
        created_at=schedule.created_at,
        run_loop_id=schedule.run_loop_id,
        allow=list(schedule.grants),
    )


async def details_of(
    schedules: ScheduleActions, schedule_id: str, *, owner: str
) -> ScheduleDetails:
    """A schedule, and what became of its newest times.

    Raises:
        NotFoundError: the owner has no such schedule.
        StorageError: the journal cannot be read.
    """
    schedule = schedules.find(schedule_id, owner=owner)
    occurrences = await schedules.occurrences(schedule_id, owner=owner)
    return ScheduleDetails(
        **dict(line_of(schedules, schedule)),
        occurrences=[_occurrence(each) for each in occurrences],
    )


def _occurrence(occurrence: Occurrence) -> OccurrenceLine:
    return OccurrenceLine(
        due=occurrence.due,
        state=occurrence.state,
        reason=occurrence.reason,
        decided_at=occurrence.decided_at,
        run_loop_id=occurrence.run_loop_id,
        through=occurrence.through,
        count=occurrence.count,
    )


def notice_of(notice: Notice) -> DueNotice:
    """What a client is to tell."""
    return DueNotice(
        run_loop_id=notice.run_loop_id,
        schedule_id=notice.schedule.id,
        kind=notice.schedule.kind,
        what=notice.schedule.what,
        due=notice.occurrence.due,
        status=notice.status,
        text=notice.text,
    )
