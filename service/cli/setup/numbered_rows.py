"""Numbered lists, in columns as wide as the terminal lets them be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.cli.terminal.output import aside, one_line, wrapped
from service.llm.discovery.providers import OfferedModel

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST = 16
_BESIDE = 34  # cells for what stands beside a name, where there is not enough for both


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a list."""

    name: str
    note: str = ""
    words: str = ""
    """A sentence under it."""


def size_in_words(size: int) -> str:
    """Bytes, as people know them of downloads.

    >>> size_in_words(491_400_064), size_in_words(5_200_000_000)
    ('491 MB', '5.2 GB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def model_rows(models: Iterable[OfferedModel]) -> list[Row]:
    """A row for each model, with what is told of it."""
    rows = []
    for model in models:
        notes = [model.note, size_in_words(model.size) if model.size else ""]
        notes.append("calls no tools" if model.tools is False else "")
        rows.append(Row(model.name, ", ".join(note for note in notes if note)))
    return rows


def show_rows(rows: Sequence[Row], *, first: int, to: Console | None = None) -> None:
    """Write a list, numbered from `first` on; to standard error where nothing else is said."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    console = to or aside()
    width = console.width
    longest = max((cell_len(row.name) for row in rows), default=0)
    beside = min(max((cell_len(row.note) for row in rows), default=0), _BESIDE)
    column = min(longest, max(width - 8 - beside, _NARROWEST))
    for number, row in enumerate(rows, first):
        name = one_line(row.name, column)
        head = Text.assemble((f"{number:>4}  ", "bold"), set_cell_size(name, column))
        if row.note:
            head.append(f"  {one_line(row.note, max(width - column - 8, 1))}", style="dim")
        console.print(head)
        for line in wrapped(row.words, max(width - 7, _NARROWEST)) if row.words else ():
            console.print(Text(f"      {line}", style="dim"))
