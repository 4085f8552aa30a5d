"""`rondo audit`: what tools have done, by whose leave, and what came of it."""

from __future__ import annotations

import shlex

import click

from service.cli.commands.command_options import DateParameter, check_bounds, json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import read_as

_LIMIT = 20


@click.command()
@click.option("--since", type=DateParameter(), help="Only calls from then on.")
@click.option("--until", type=DateParameter(), help="Only calls from before then.")
@click.option("--tool", metavar="NAME", help="Only calls of this tool.")
@click.option("--loop", "run_loop", metavar="ID", help="Only calls in this run loop.")
@click.option("--all", "read_only", is_flag=True, help="Also of tools that only read.")
@click.option("--before", metavar="PLACE", help="Go on where the page before has ended.")
@click.option("--limit", type=click.IntRange(1, 200), default=_LIMIT, show_default=True)
@json_option
def audit(
    since: str | None,
    until: str | None,
    tool: str | None,
    run_loop: str | None,
    read_only: bool,
    before: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show what tools have done, newest first: what ran, by whose leave, what came of it."""
    from service.cli.terminal.output import print_json
    from service.cli.views.audit_views import print_audit
    from service.cli.views.run_loop_ids import resolve
    from service.domain.audit import AuditPage

    check_bounds(since, until)
    asked = {"since": since, "until": until, "tool": tool, "before": before}
    given: dict[str, str | int] = {name: each for name, each in asked.items() if each is not None}
    with connect() as daemon:
        if run_loop is not None:
            given["run_loop_id"] = resolve(daemon, run_loop)
        if read_only:
            given["read_only"] = "true"
        response = daemon.get("/v1/audit", {**given, "limit": limit})
    if as_json:
        print_json(response)
    else:
        options = {"--since": since, "--until": until, "--tool": tool, "--loop": run_loop}
        words = [word for name, value in options.items() if value for word in (name, value)]
        words += ["--all"] if read_only else []
        words += ["--limit", str(limit)] if limit != _LIMIT else []
        print_audit(read_as(AuditPage, response), options=shlex.join(words))
