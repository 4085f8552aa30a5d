"""What the commands of `rondo bench` have in common: their options, and how they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Accepted everywhere; a benchmark always prints JSON."
)
data_option = click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder of a set, or of several.",
)
sets_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME",
    help="Only this set; a pattern does; may be given several times.",
)


def tell(words: str) -> None:
    """Say what goes on, beside the report."""
    click.echo(words, err=True)


def print_json(report: dict[str, Any]) -> None:
    """Print a report."""
    click.echo(json.dumps(report, indent=2, ensure_ascii=False))
