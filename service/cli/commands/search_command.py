"""`rondo memory search` and `expand`: what was said, thought and done, and what is around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import (
    DateParameter,
    NameAndValue,
    check_bounds,
    json_option,
)
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import body_of, read_as

if TYPE_CHECKING:
    from pydantic import JsonValue

TYPES = ("user_message", "reasoning", "tool_call", "tool_result", "response")


@click.command()
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=8, show_default=True)
@click.option("--max-tokens", type=click.IntRange(1), help="Bound of all hits together.")
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES), help="Only these.")
@click.option("--since", type=DateParameter(), help="Only from then on.")
@click.option("--until", type=DateParameter(), help="Only from before then.")
@click.option("--loop", metavar="ID", help="Only from this run loop.")
@click.option("--without-loop", metavar="ID", help="From all run loops but this one.")
@click.option(
    "--meta",
    multiple=True,
    type=NameAndValue(),
    help="Only what was sent with this, such as project=lisbon. Again for more.",
)
@click.option("--rerank", is_flag=True, help="Give the configured reranker the last word.")
@click.option("--all-duplicates", is_flag=True, help="Show each repetition as a hit of its own.")
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@json_option
def search(
    query: str,
    limit: int,
    max_tokens: int | None,
    types: Sequence[str],
    since: str | None,
    until: str | None,
    loop: str | None,
    without_loop: str | None,
    meta: Sequence[tuple[str, JsonValue]],
    rerank: bool,
    all_duplicates: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Find what was said, thought and done, by words and by meaning, best first."""
    from service.cli.terminal.output import print_json
    from service.cli.views.memory_views import print_hits
    from service.cli.views.run_loop_ids import resolve
    from service.domain.anchors import SearchResult
    from service.wire.memory_bodies import SearchRequest

    check_bounds(since, until)
    with connect() as daemon:
        body = body_of(
            SearchRequest,
            query=query,
            limit=limit,
            max_tokens=max_tokens,
            types=list(types) or None,
            since=since,
            until=until,
            run_loop_id=loop and resolve(daemon, loop),
            without_run_loop_id=without_loop and resolve(daemon, without_loop),
            metadata=dict(meta),
            explain=explain,
            rerank=rerank,
            fold=not all_duplicates,
        )
        response = daemon.post("/v1/memory/search", body)
    if as_json:
        print_json(response)
    else:
        print_hits(read_as(SearchResult, response))


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
    from service.cli.views.memory_views import print_context, print_window
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
