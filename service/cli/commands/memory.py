"""`rondo memory`: looking into long-term memory."""

from __future__ import annotations

from datetime import datetime

import click

from service.cli.connect import connect, json_option

TYPES = ("user_message", "reasoning", "tool_call", "tool_result", "response")


class Moment(click.ParamType[str]):
    """A day or a moment, in local time where no zone is named; given on as ISO 8601."""

    name = "date"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Read it, or fail with words."""
        try:
            at = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no date. Write 2026-03-31 or 2026-03-31T17:00.", param, ctx)
        return at.astimezone().isoformat()


@click.group()
def memory() -> None:
    """Search what is remembered, and read around what was found."""


@memory.command()
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=8, show_default=True)
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES), help="Only these.")
@click.option("--since", type=Moment(), help="Only from then on.")
@click.option("--until", type=Moment(), help="Only from before then.")
@click.option("--loop", metavar="ID", help="Only from this run loop.")
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@json_option
def search(
    query: str,
    limit: int,
    types: tuple[str, ...],
    since: str | None,
    until: str | None,
    loop: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Find what was said, thought and done, by words and by meaning, best first."""
    from service.cli.client import Json
    from service.cli.memory_views import print_hits
    from service.cli.output import print_json
    from service.cli.run_loop_ids import resolve
    from service.domain.anchors import SearchResult

    body: Json = {"query": query, "limit": limit, "explain": explain}
    with connect() as daemon:
        if types:
            body["types"] = list(types)
        for name, value in (("since", since), ("until", until)):
            if value is not None:
                body[name] = value
        if loop is not None:
            body["run_loop_id"] = resolve(daemon, loop)
        found = daemon.post("/v1/memory/search", body)
    if as_json:
        print_json(found)
    else:
        print_hits(SearchResult.model_validate(found))


@memory.command()
@click.argument("anchor")
@click.option("--before", type=click.IntRange(0, 1000), default=3, show_default=True)
@click.option("--after", type=click.IntRange(0, 1000), default=3, show_default=True)
@json_option
def expand(anchor: str, before: int, after: int, as_json: bool) -> None:
    """Read what stands at ANCHOR (copied from a search), and so many segments around it."""
    from service.cli.memory_views import print_context
    from service.cli.output import print_json
    from service.domain.anchors import ExpandedContext

    with connect() as daemon:
        found = daemon.post(
            "/v1/memory/expand", {"anchor": anchor, "before": before, "after": after}
        )
    if as_json:
        print_json(found)
    else:
        print_context(ExpandedContext.model_validate(found))


@memory.command()
@json_option
def stats(as_json: bool) -> None:
    """Show how much is remembered, and how much of it waits to be embedded."""
    from service.cli.memory_views import print_stats
    from service.cli.output import print_json

    with connect() as daemon:
        found = daemon.get("/v1/memory/stats")
    if as_json:
        print_json(found)
    else:
        print_stats(found)
