"""The vector index in a terminal."""

from __future__ import annotations

from service.cli.terminal.output import aside, one_line, out, plain
from service.wire.memory_bodies import IndexProgress, Stats


def print_index(stats: Stats) -> None:
    """What ``/v1/memory/stats`` tells of the vector index: what is being done, and what is odd."""
    index = stats.index
    if stats.progress is not None:
        out().print(_in_words(stats.progress))
    if index is None:
        return
    if index.place != "embedded":
        out().print(f"index: {plain(index.place)}", style="dim")
    if index.notice:
        aside().print(plain(index.notice), style="yellow")
    if index.scrub_pending:
        out().print("The index is still to be rid of what was forgotten.", style="yellow")
    if index.damaged:
        names = one_line(", ".join(index.damaged), 200)
        aside().print(
            f"The index was damaged and is built anew; {names} under chroma in the data folder"
            " can be deleted.",
            style="yellow",
        )


def _in_words(progress: IndexProgress) -> str:
    """How far the index has come: ``embedding: 300 of 1,000 (42 a second, 17 s left)``."""
    words = f"{progress.doing}: {progress.done:,} of {progress.total:,} segments"
    if not progress.rate:
        return words
    left = progress.eta_seconds or 0.0
    time_left = f"{left / 60:,.0f} min" if left > 90 else f"{left:,.0f} s"
    return f"{words} ({progress.rate:,.0f} a second, {time_left} left)"
