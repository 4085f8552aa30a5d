"""The vector index in a terminal."""

from __future__ import annotations

from service.cli.daemon.daemon_client import Json
from service.cli.terminal.output import aside, one_line, out, plain


def print_index(stats: Json) -> None:
    """What ``/v1/memory/stats`` tells of the vector index: what is being done, and what is odd."""
    progress, index = stats.get("progress"), stats.get("index")
    if isinstance(progress, dict):
        out().print(progress_in_words(progress))
    if not isinstance(index, dict):
        return
    if index.get("place") not in (None, "embedded"):
        out().print(f"index: {plain(str(index['place']))}", style="dim")
    if index.get("notice"):
        aside().print(plain(str(index["notice"])), style="yellow")
    if index.get("scrub_pending"):
        out().print("The index is still to be rid of what was forgotten.", style="yellow")
    damaged = index.get("damaged")
    if isinstance(damaged, list) and damaged:
        names = one_line(", ".join(map(str, damaged)), 200)
        aside().print(
            f"The index was damaged and is built anew; {names} under chroma in the data folder"
            " can be deleted.",
            style="yellow",
        )


def progress_in_words(progress: Json) -> str:
    """How far the index has come: ``embedding: 300 of 1,000 (42 a second, 17 s left)``."""
    done, total, rate, left = (
        value if isinstance(value := progress.get(name), int | float) else 0
        for name in ("done", "total", "rate", "eta_seconds")
    )
    words = f"{plain(str(progress.get('doing')))}: {done:,} of {total:,} segments"
    if not rate:
        return words
    time_left = f"{left / 60:,.0f} min" if left > 90 else f"{left:,.0f} s"
    return f"{words} ({rate:,.0f} a second, {time_left} left)"
