"""`rondo memory reindex`: build the vector index anew, and look on."""

from __future__ import annotations

import click

from service.cli.daemon.daemon_connection import connect, json_option

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

    with connect() as daemon:
        with advice_when_lost("If nothing was begun yet, run the same command again."):
            answer = daemon.post("/v1/memory/reindex", {"force": force})
        if not as_json and answer.get("notice"):
            aside().print(plain(str(answer["notice"])), style="yellow")
        try:
            with advice_when_lost(_WHEN_LOST):
                stats = look_on(daemon)
        except DaemonNotRunningError as error:
            advice = f"{error.advice} {_WHEN_LOST}"
            raise DaemonNotRunningError(error.detail, advice=advice) from error
    if as_json:
        print_json({**answer, "index": stats.get("index"), "problem": stats.get("problem")})
    elif answer.get("started"):
        index = stats.get("index")
        count = index.get("indexed") if isinstance(index, dict) else 0
        aside().print(f"The new index is in use; it holds {count} segments.", style="green")
    if stats.get("problem"):
        if not as_json:
            aside().print(plain(str(stats["problem"])), style="red")
        raise SystemExit(1)
