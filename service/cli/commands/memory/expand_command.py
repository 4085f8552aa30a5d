"""`rondo memory expand`: reading around what was found."""

from __future__ import annotations

import click

from service.cli.daemon.daemon_connection import connect
from service.cli.daemon.stream_items import body_of, read_as
from service.cli.terminal.date_parameter import json_option


@click.command()
@click.argument("anchors", metavar="ANCHOR...", nargs=-1, required=True)
@click.option("--before", type=click.IntRange(0, 1000), default=3, show_default=True)
@click.option("--after", type=click.IntRange(0, 1000), default=3, show_default=True)
@click.option(
    "--unit",
    type=click.Choice(("segments", "iterations")),
    default="segments",
    show_default=True,
    help="What --before and --after count.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    help="At most so much, all anchors together; the farthest falls first.",
)
@json_option
def expand(
    anchors: tuple[str, ...],
    before: int,
    after: int,
    unit: str,
    max_tokens: int | None,
    as_json: bool,
) -> None:
    """Read what stands at ANCHOR (copied from a search), and around it.

    Of several anchors, those that stand near each other are shown together.
    """
    from service.cli.terminal.output import print_json
    from service.cli.views.window_views import print_context, print_window
    from service.domain.anchors import ExpandedContext
    from service.wire.memory_bodies import ExpandedWindows, ExpandRequest

    body = body_of(
        ExpandRequest,
        **({"anchor": anchors[0]} if len(anchors) == 1 else {"anchors": list(anchors)}),
        before=before,
        after=after,
        unit=unit,
        max_tokens=max_tokens,
    )
    with connect() as daemon:
        expanded = daemon.post("/v1/memory/expand", body)
    if as_json:
        print_json(expanded)
    elif len(anchors) == 1:
        print_context(read_as(ExpandedContext, expanded))
    else:
        for window in read_as(ExpandedWindows, expanded).windows:
            print_window(window)
