"""Looking on while the daemon builds the vector index: a bar with the time that is left."""

from __future__ import annotations

import time

from service.cli.daemon.daemon_client import Daemon, Json
from service.cli.terminal.output import aside

_ASKED_EVERY = 0.5  # seconds


def look_on(daemon: Daemon) -> Json:
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
            stats = daemon.get("/v1/memory/stats")
            progress = stats.get("progress")
            if not isinstance(progress, dict) or stats.get("problem"):
                return stats
            bar.update(
                task,
                description=str(progress["doing"]),
                completed=_number(progress["done"]),
                total=_number(progress["total"]),
            )
            time.sleep(_ASKED_EVERY)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
