"""Looking on while the daemon builds the vector index: a bar with the time that is left."""

from __future__ import annotations

import time

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.stream_items import read_as
from service.cli.terminal.output import aside
from service.wire.memory_bodies import Stats

_ASKED_EVERY = 0.5  # seconds


def look_on(daemon: Daemon) -> Stats:
    """Show how far the index has come until it is done, or cannot go on.

    Returns:
        What ``/v1/memory/stats`` says in the end.

    Raises:
        DaemonError: see `service.cli.daemon.daemon_errors`.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(*columns, console=aside(), transient=True) as bar:
        task = bar.add_task("beginning", total=None)
        while True:
            stats = read_as(Stats, daemon.get("/v1/memory/stats"))
            now = stats.progress
            if now is None or stats.problem:
                return stats
            bar.update(task, description=now.doing, completed=now.done, total=now.total)
            time.sleep(_ASKED_EVERY)
