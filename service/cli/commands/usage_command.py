"""`rondo usage`: what the language model was used for, in tokens and money."""

from __future__ import annotations

import click

from service.cli.commands.command_options import DateParameter, check_bounds, json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import read_as

GROUPINGS = ("day", "model", "purpose", "run_loop")


@click.command()
@click.option("--since", type=DateParameter(), help="Only calls from then on.")
@click.option("--until", type=DateParameter(), help="Only calls from before then.")
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    default="day",
    show_default=True,
    help="What a line sums up.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=30, show_default=True)
@json_option
def usage(since: str | None, until: str | None, by: str, limit: int, as_json: bool) -> None:
    """Show how many tokens the model calls took, and what they cost where prices are set."""
    from service.cli.terminal.output import print_json
    from service.cli.views.usage_tables import print_usage
    from service.domain.usage import UsageReport

    check_bounds(since, until)
    bounds = {"since": since, "until": until}
    given = {name: value for name, value in bounds.items() if value is not None}
    with connect() as daemon:
        response = daemon.get("/v1/usage", {"by": by, "limit": limit, **given})
    if as_json:
        print_json(response)
    else:
        print_usage(read_as(UsageReport, response))
