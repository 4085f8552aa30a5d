"""`rondo schedules`: reminders, and tasks that wait or recur."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from service.cli.commands.command_options import json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import read_as

if TYPE_CHECKING:
    from service.cli.daemon.daemon_client import Daemon
    from service.cli.daemon.stream_items import Json

_PATH = "/v1/schedules"
_ID = click.argument("schedule", metavar="ID")


@click.group(invoke_without_command=True)
@click.pass_context
def schedules(ctx: click.Context) -> None:
    """Reminders, and tasks that wait or recur. Without a command, lists them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_schedules)


@schedules.command("list")
@click.option("--all", "also_ended", is_flag=True, help="Include those that have ended.")
@json_option
def list_schedules(also_ended: bool = False, as_json: bool = False) -> None:
    """List schedules by their next time; tasks are marked with an arrow."""
    from service.cli.terminal.output import aside, out, print_json
    from service.cli.views.schedule_views import by_next_time, schedules_table
    from service.wire.schedule_bodies import ScheduleList

    with connect() as daemon:
        listed = read_as(ScheduleList, daemon.get(_PATH)).schedules
    shown = [each for each in listed if also_ended or each.state != "ended"]
    if as_json:
        print_json([each.model_dump(mode="json") for each in shown])
    elif not shown:
        aside().print('None. Add one: rondo schedules add "call mum" "tomorrow at 9"', style="dim")
    else:
        out().print(schedules_table(by_next_time(shown)), crop=False)


@schedules.command()
@click.argument("what")
@click.argument("when")
@click.option("--do", "is_task", is_flag=True, help="Run a task instead of sending a reminder.")
@click.option(
    "--allow",
    "grants",
    multiple=True,
    metavar="TOOL",
    help="With --do: a tool it may use without asking; repeatable.",
)
@click.option(
    "--zone",
    metavar="NAME",
    help="Time zone, such as Europe/Berlin; default: that of this machine.",
)
@json_option
def add(
    what: str, when: str, is_task: bool, grants: tuple[str, ...], zone: str | None, as_json: bool
) -> None:
    """Schedule WHAT for WHEN: a reminder, or a task with --do; once or recurring.

    WHEN is “in 20 minutes”, “tomorrow at 9”, “every weekday at 8”, “every first of the month at
    10”, 明天早上九点, 每周一早上九点, or a date and time of ISO 8601.
    """
    from service.cli.terminal.output import print_json
    from service.cli.views.schedule_views import print_schedule
    from service.storage.clock import local_zone_name
    from service.wire.schedule_bodies import ScheduleLine

    if grants and not is_task:
        raise click.UsageError("--allow goes with --do.")
    body: Json = {
        "what": what,
        "when": when,
        "kind": "task" if is_task else "reminder",
        "zone": zone or local_zone_name(),
        "allow": list(grants),
    }
    with connect() as daemon:
        added = daemon.post(_PATH, body)
    if as_json:
        print_json(added)
    else:
        print_schedule(read_as(ScheduleLine, added))


@schedules.command()
@_ID
@json_option
def show(schedule: str, as_json: bool) -> None:
    """Show a schedule and its recent runs."""
    from service.cli.terminal.output import print_json
    from service.cli.views.schedule_views import print_details
    from service.wire.schedule_bodies import ScheduleDetails

    with connect() as daemon:
        details = daemon.get(_path(daemon, schedule))
    if as_json:
        print_json(details)
    else:
        print_details(read_as(ScheduleDetails, details))


@schedules.command()
@_ID
@json_option
def pause(schedule: str, as_json: bool) -> None:
    """Pause it until it is resumed."""
    _act(schedule, "pause", as_json)


@schedules.command()
@_ID
@json_option
def resume(schedule: str, as_json: bool) -> None:
    """Resume it; what came due meanwhile is skipped."""
    _act(schedule, "resume", as_json)


@schedules.command()
@_ID
@json_option
def run(schedule: str, as_json: bool) -> None:
    """Run it now; its next time stays as it is."""
    from service.cli.terminal.output import aside, out, print_json
    from service.wire.schedule_bodies import RanSchedule

    with connect() as daemon:
        ran = daemon.post(f"{_path(daemon, schedule)}/run")
    if as_json:
        print_json(ran)
        return
    run_loop_id = read_as(RanSchedule, ran).run_loop_id
    out().print(run_loop_id)
    aside().print(f"Look at it: rondo loops show {run_loop_id}", style="dim")


@schedules.command()
@_ID
@json_option
def remove(schedule: str, as_json: bool) -> None:
    """Remove it; the run loops that it opened stay."""
    from service.cli.terminal.output import one_line, out, print_json
    from service.wire.schedule_bodies import ScheduleLine

    with connect() as daemon:
        removed = daemon.delete(_path(daemon, schedule))
    if as_json:
        print_json(removed)
    else:
        gone = read_as(ScheduleLine, removed)
        out().print(f"removed  {gone.id}  {one_line(gone.what, 60)}", soft_wrap=True)


def _act(schedule: str, action: str, as_json: bool) -> None:
    from service.cli.terminal.output import print_json
    from service.cli.views.schedule_views import print_schedule
    from service.wire.schedule_bodies import ScheduleLine

    with connect() as daemon:
        now = daemon.post(f"{_path(daemon, schedule)}/{action}")
    if as_json:
        print_json(now)
    else:
        print_schedule(read_as(ScheduleLine, now))


def _path(daemon: Daemon, beginning: str) -> str:
    """The address of the schedule whose id begins so.

    Raises:
        NotFoundError: none does.
        InvalidInputError: several do.
    """
    from service.domain.errors import InvalidInputError, NotFoundError
    from service.wire.schedule_bodies import ScheduleList

    listed = read_as(ScheduleList, daemon.get(_PATH)).schedules
    ids = [each.id for each in listed if each.id.startswith(beginning)]
    if beginning in ids:
        ids = [beginning]
    if not ids:
        raise NotFoundError(
            f"no schedule has an id that begins with {beginning!r}",
            advice="`rondo schedules list --all` lists them.",
        )
    if len(ids) > 1:
        raise InvalidInputError(
            f"{beginning!r} is the beginning of {len(ids)} schedules: {', '.join(ids[:5])}",
            advice="Give more of it.",
        )
    return f"{_PATH}/{quote(ids[0], safe='')}"
