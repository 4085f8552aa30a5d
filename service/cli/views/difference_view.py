"""A difference between two texts at the terminal."""

from __future__ import annotations

from service.cli.terminal.output import aside, visible

_STYLES = {"+": "green", "-": "red", "@": "cyan", "[": "yellow"}


def show_difference(difference: str, *, most_lines: int | None = None) -> None:
    """Write a unified difference, with what could deceive written out: a person judges by it.

    Args:
        difference: the whole.
        most_lines: of it that are written, where nobody judges by it any more; None: all.
    """
    lines = difference.split("\n")
    for at, line in enumerate(lines[:most_lines]):
        style = "bold" if at < 2 else _STYLES.get(line[:1], "")
        aside().print(f"    {visible(line)}", style=style, soft_wrap=True)
    if most_lines is not None and len(lines) > most_lines:
        aside().print(f"    … and {len(lines) - most_lines:,} lines more", style="dim")
