"""`rondo config`: the settings that are in effect."""

from __future__ import annotations

import click

from service.cli.connect import json_option


@click.command()
@json_option
def config(as_json: bool) -> None:
    """Print the effective settings as TOML (or JSON), with secrets hidden."""
    from service.cli.output import print_json
    from service.cli.toml import dump
    from service.config import config_file, load_settings

    settings = load_settings().shown()
    file = config_file()
    if as_json:
        print_json({"file": str(file.resolve()) if file else None, "settings": settings})
        return
    where = f"{file.resolve()} was read" if file else "no rondo.toml was found"
    print(f"# {where}; RONDO_* variables come before it, flags before these.")
    print(dump(settings), end="")
