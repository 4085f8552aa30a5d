"""`rondo loops calibrate`: the router, calibrated by what you have corrected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.daemon.daemon_connection import connect
from service.cli.daemon.stream_items import body_of, read_as
from service.cli.terminal.date_parameter import json_option

if TYPE_CHECKING:
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
    _show(read_as(CalibrationReport, report))


def _show(report: CalibrationReport) -> None:
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
