"""Schedules and what has come due of them, as the terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from service.cli.daemon.daemon_requests import DaemonRequests
from service.cli.daemon.stream_items import body_of, read_as
from service.cli.terminal.output import aside, one_line, out, plain, short_id
from service.cli.views.phrases import counted
from service.domain.errors import RondoError
from service.wire.schedule_bodies import (
    DueNotices,
    OccurrenceLine,
    ScheduleDetails,
    ScheduleLine,
    SeenNotices,
)

if TYPE_CHECKING:
    from rich.table import Table

_REASONS = {
    "late": "told late: nobody was there",
    "missed": "nobody was there",
    "paused": "paused",
    "by_hand": "by you",
}


def tell_what_came_due(daemon: DaemonRequests) -> None:
    """Tell of reminders and tasks that have come due since somebody was last there; once.

    Where the daemon cannot tell, nothing is: whatever the person is about is not to fail for it.
    """
    try:
        notices = read_as(DueNotices, daemon.get("/v1/schedules/notices")).notices
        newest = {each.schedule_id: each for each in notices}
        for each in newest.values():
            others = sum(other.schedule_id == each.schedule_id for other in notices) - 1
            times = f", and {counted(others, 'time')} before" if others else ""
            words = f"{plain(each.text)}  ({short_id(each.run_loop_id)}{times})"
            aside().print(words, style="bold cyan", soft_wrap=True)
        if notices:
            aside().print()
            seen = body_of(SeenNotices, run_loop_ids=[each.run_loop_id for each in notices])
            daemon.post("/v1/schedules/notices/seen", seen)
    except RondoError:
        return


def schedules_table(schedules: Sequence[ScheduleLine]) -> Table:
    """Schedules, one a line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("id", "state", "next", "when", "what"):
        table.add_column(name)
    for each in schedules:
        words = one_line(each.what, 200)
        table.add_row(
            plain(each.id),
            each.state,
            _shown(each.next[0], each.zone) if each.next else "",
            Text(plain(each.when)),
            Text(f"→ {words}" if each.kind == "task" else words),
        )
    return table


def by_next_time(schedules: Sequence[ScheduleLine]) -> list[ScheduleLine]:
    """Schedules in the order in which they come due; last those that do not."""
    never = datetime.max.replace(tzinfo=UTC)
    return sorted(schedules, key=lambda each: each.next[0] if each.next else never)


def print_schedule(schedule: ScheduleLine) -> None:
    """A schedule as it was understood."""
    kind = "Reminder" if schedule.kind == "reminder" else "To be done"
    out().print(f"{plain(schedule.id)}  {kind}: {plain(schedule.what)}", soft_wrap=True)
    out().print(f"  {plain(schedule.when)}  [{schedule.state}]", markup=False, soft_wrap=True)
    if len(schedule.next) > 1:
        times = ", ".join(_at(each, schedule.zone) for each in schedule.next)
        out().print(f"  next: {times} ({plain(schedule.zone)})", soft_wrap=True)
    if schedule.allow:
        out().print(f"  may do unasked: {plain(', '.join(schedule.allow))}", soft_wrap=True)


def print_details(schedule: ScheduleDetails) -> None:
    """A schedule, and what became of its newest times."""
    print_schedule(schedule)
    for each in schedule.occurrences:
        if each.state != "pending":
            out().print(f"  {_became(each, schedule.zone)}", soft_wrap=True)


def _became(occurrence: OccurrenceLine, zone: str) -> str:
    times = ""
    if occurrence.through is not None:
        times = f" to {_at(occurrence.through, zone)}, {occurrence.count} times"
    reason = f" ({_REASONS[occurrence.reason]})" if occurrence.reason else ""
    loop = f"  {short_id(occurrence.run_loop_id)}" if occurrence.run_loop_id else ""
    return f"{_at(occurrence.due, zone)}{times}  {occurrence.state}{reason}{loop}"


def _shown(moment: datetime, zone: str) -> str:
    return f"{_at(moment, zone)} ({plain(zone)})"


def _at(moment: datetime, zone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M}"
