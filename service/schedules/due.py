"""What is to become of a schedule that has come due: what runs, what is skipped, and what is next.

Of all that came due since somebody last looked only the newest can run, and it only where it has
just come due. All else was missed, as nobody was there: that is told once, in one run loop.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.schedules.schedule import Occurrence, Schedule, Settlement
from service.tuning import SCHEDULE_GRACE_SECONDS

MOST_ROWS = 100
"""How many missed times are told one by one; those before them are told together."""
_GRACE = timedelta(seconds=SCHEDULE_GRACE_SECONDS)


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule that has come due."""

    schedule: Schedule
    newest: Occurrence
    """The newest time: its run loop does what is to be done, or tells what was missed."""
    missed_before: int
    """How many times before it were missed, too."""
    first_missed: datetime | None
    settlement: Settlement

    @property
    def runs(self) -> bool:
        """Whether it is told or done now, and not only that it was missed."""
        return self.newest.state == "ran"


def come_due(
    schedule: Schedule,
    pending: datetime,
    *,
    now: datetime,
    run_loop_id: str,
    decided: Collection[datetime] = (),
) -> Due | None:
    """What is to become of it; None where it is not due yet.

    Args:
        schedule: active.
        pending: its next time.
        now: the present moment.
        run_loop_id: of the run loop that opens.
        decided: later times of which it was decided before, as clocks were set back since.
    """
    timing = schedule.timing
    passed = timing.passed(pending, now, keep=MOST_ROWS, without=decided)
    if not passed.newest:
        return None
    *missed, newest = passed.newest
    is_late = now - newest > _GRACE
    once = timing.recurrence is None
    if not is_late:
        last = Occurrence(schedule.id, newest, "ran", None, now, run_loop_id)
    elif once and schedule.kind == "reminder":
        last = Occurrence(schedule.id, newest, "ran", "late", now, run_loop_id)
    else:
        last = Occurrence(schedule.id, newest, "skipped", "missed", now, run_loop_id)
    rows = [Occurrence(schedule.id, due, "skipped", "missed", now) for due in missed]
    if passed.older is not None:
        first, through, count = passed.older
        together = Occurrence(
            schedule.id, first, "skipped", "missed", now, through=through, count=count
        )
        rows.insert(0, together)
    return Due(
        schedule=schedule,
        newest=last,
        missed_before=sum(each.count for each in rows),
        first_missed=rows[0].due if rows else None,
        settlement=Settlement(
            schedule_id=schedule.id,
            pending=pending,
            occurrences=(*rows, last),
            next_due=free_after(schedule, now, decided),
        ),
    )


def free_after(
    schedule: Schedule, moment: datetime, decided: Collection[datetime]
) -> datetime | None:
    """The next time after a moment of which nothing has been decided yet; None: there is none."""
    due = schedule.timing.next_after(moment)
    while due is not None and due in decided:
        due = schedule.timing.next_after(due)
    return due


def paused_meanwhile(schedule: Schedule, pending: datetime, *, now: datetime) -> Settlement:
    """What has become of the times during which a schedule was paused."""
    passed = schedule.timing.passed(pending, now, keep=1)
    rows: tuple[Occurrence, ...] = ()
    if passed.newest:
        first, count = passed.newest[0], 1
        if passed.older is not None:
            first, count = passed.older[0], passed.older[2] + 1
        through = passed.newest[0] if count > 1 else None
        rows = (
            Occurrence(schedule.id, first, "skipped", "paused", now, through=through, count=count),
        )
    next_due = schedule.timing.next_after(now) if passed.newest else pending
    return Settlement(schedule.id, pending, rows, next_due, while_paused=True)
