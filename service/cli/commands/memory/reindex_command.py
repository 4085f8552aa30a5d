"""`rondo memory reindex`: build the vector index anew, and look on."""

from __future__ import annotations

import click

from service.cli.daemon.daemon_connection import connect
from service.cli.daemon.stream_items import body_of, read_as
from service.cli.terminal.date_parameter import json_option

_WHEN_LOST = "The building of the index goes on by itself when the daemon starts again."


@click.command()
@click.option("--force", is_flag=True, help="Even when the same embedder built the index.")
@json_option
def reindex(force: bool, as_json: bool) -> None:
    """Build the index of the configured embedder beside the old one, then swap them.

    The daemon does it in the background: interrupting this command stops nothing.
    """
    from service.cli.daemon.daemon_errors import DaemonNotRunningError, advice_when_lost
    from service.cli.terminal.output import aside, plain, print_json
    from service.cli.transfer.reindex_progress import look_on
    from service.wire.memory_bodies import ReindexRequest, ReindexStarted

    with connect() as daemon:
        with advice_when_lost("If nothing was begun yet, run the same command again."):
            request = body_of(ReindexRequest, force=force)
            begun = read_as(ReindexStarted, daemon.post("/v1/memory/reindex", request))
        if not as_json and begun.notice:
            aside().print(plain(begun.notice), style="yellow")
        try:
            with advice_when_lost(_WHEN_LOST):
                stats = look_on(daemon)
        except DaemonNotRunningError as error:
            advice = f"{error.advice} {_WHEN_LOST}"
            raise DaemonNotRunningError(error.detail, advice=advice) from error
    if as_json:
        now = stats.model_dump(mode="json", include={"index", "problem"})
        print_json({**begun.model_dump(), **now})
    elif begun.started:
        count = stats.index.indexed if stats.index else 0
        aside().print(f"The new index is in use; it holds {count} segments.", style="green")
    if stats.problem:
        if not as_json:
            aside().print(plain(stats.problem), style="red")
        raise SystemExit(1)
