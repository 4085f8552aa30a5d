"""A difference between two texts at the terminal."""

from __future__ import annotations

from service.cli.terminal.output import aside, visible

_STYLES = {"+": "green", "-": "red", "@": "cyan", "[": "yellow"}


def show_difference(difference: str) -> None:
    """Write a unified difference, with what could deceive written out: a person judges by it."""
    for at, line in enumerate(difference.split("\n")):
        style = "bold" if at < 2 else _STYLES.get(line[:1], "")
        aside().print(f"    {visible(line)}", style=style, soft_wrap=True)
