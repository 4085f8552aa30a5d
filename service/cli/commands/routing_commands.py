"""`rondo loops reroute` and `rondo loops calibrate`: correcting a route, and learning from that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import body_of, read_as

if TYPE_CHECKING:
    from service.cli.daemon.stream_items import Json
    from service.domain.routes import CalibrationReport


@click.command()
@click.option("--reset", is_flag=True, help="Go by the trained model alone again.")
@json_option
def calibrate(reset: bool, as_json: bool) -> None:
    """Let the router learn how sure it may be, from the messages that you have moved.

    Nothing changes where there is too little to learn from, or where it would not get better.
    """
    from service.cli.terminal.output import print_json
    from service.domain.routes import CalibrationReport
    from service.wire.daemon_bodies import CalibrateRequest

    with connect() as daemon:
        report = daemon.post("/v1/routing/calibrate", body_of(CalibrateRequest, reset=reset))
    if as_json:
        print_json(report)
        return
    _show_calibration(read_as(CalibrationReport, report))


def _show_calibration(report: CalibrationReport) -> None:
    from service.cli.terminal.output import aside, out

    did = "changed" if report.changed else "unchanged"
    out().print(f"{did}: {report.reason}", soft_wrap=True)
    if report.before is not None and report.after is not None:
        for name, measured in (("before", report.before), ("after", report.after)):
            out().print(
                f"  {name:<7} log loss {measured.log_loss:.3f}, right {measured.accuracy:.1%}"
            )
    now = report.in_use
    if now.fitted_at is None:
        aside().print("The trained model's own probabilities count.", style="dim")
    else:
        aside().print(
            f"In use: temperature {now.temperature:g}, offset of new topics {now.new_offset:+g};"
            f" of {now.fitted_at:%Y-%m-%d}. `--reset` goes back.",
            style="dim",
        )


@click.command()
@click.argument("run_loop", metavar="LOOP")
@click.option(
    "--message", "message_id", metavar="ID", help="Which message; without it, the newest one."
)
@click.option("--to", metavar="LOOP", help="The run loop where it belongs.")
@click.option("--new", is_flag=True, help="Open a new run loop for it.")
@click.option("--undo", is_flag=True, help="Take its last move back.")
@json_option
def reroute(
    run_loop: str, message_id: str | None, to: str | None, new: bool, undo: bool, as_json: bool
) -> None:
    """Move a message, and what followed from it, to the run loop where it belongs.

    The answer goes with it and is not made again; what was going on goes on there. The ids of
    messages are in `show`. With --undo, LOOP is the one that it was moved out of, or into.
    """
    from service.cli.daemon.daemon_requests import loop_path
    from service.cli.terminal.output import aside, one_line, out, plain, print_json, short_id
    from service.cli.views.run_loop_ids import resolve
    from service.wire.run_loop_bodies import Rerouted, RunLoopDetails

    if new + undo + (to is not None) != 1:
        raise click.UsageError("Give either --to LOOP or --new or --undo.")
    with connect() as daemon:
        path = loop_path(resolve(daemon, run_loop))
        target = None if to is None else resolve(daemon, to)
        if message_id is None and not undo:
            # Named, so that a request that is made again does not move the next message.
            routes = read_as(RunLoopDetails, daemon.get(path)).routes
            here = [each.message_id for each in routes if each.is_here]
            message_id = here[-1] if here else None
        how: Json = {"undo": True} if undo else {"to": target}
        answer = daemon.post(f"{path}/reroute", {"message_id": message_id, **how})
    if as_json:
        print_json(answer)
        return
    rerouted = read_as(Rerouted, answer)
    loop, count = rerouted.run_loop, len(rerouted.moved)
    what = "it" if count == 1 else f"{count} messages that were seen together"
    name = short_id(loop.id)
    out().print(
        f"moved {what} {'back ' if undo else ''}to {plain(loop.id)}  {one_line(loop.goal, 40)}",
        soft_wrap=True,
    )
    goes_on = "It goes on there" if loop.status == "running" else "Look at it"
    command = "watch" if loop.status == "running" else "show"
    aside().print(f"{goes_on}: rondo loops {command} {name}", style="dim")
