"""`rondo config`: the settings that are in effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option

if TYPE_CHECKING:
    from pydantic import JsonValue
    from tomlkit.container import Container

    from service.cli.daemon.stream_items import Json
    from service.config import Settings


@click.command()
@click.option("--here", is_flag=True, help="What a daemon that starts here would work with.")
@json_option
def config(here: bool, as_json: bool) -> None:
    """Print the effective settings as TOML (or JSON), with secrets hidden.

    Those of the daemon, while it runs: it keeps what it was started with. Else those that the files
    and variables here give.
    """
    from service.cli.daemon.daemon_settings import daemon_settings
    from service.cli.terminal.output import print_json
    from service.config import config_file, load_settings

    settings = load_settings()
    effective = None if here else daemon_settings(settings)
    file = config_file()
    shown = settings.shown() if effective is None else effective.settings
    if as_json:
        read = str(file.resolve()) if file else None
        print_json({"file": read, "of": "daemon" if effective else "here", "settings": shown})
        return
    if effective is None:
        where = f"{file.resolve()} was read" if file else "no rondo.toml was found"
        print(f"# {where}; RONDO_* variables come before it, flags before these.")
    else:
        for line in _about_the_daemon(settings, shown):
            print(f"# {line}")
    print(_as_toml(shown), end="")


def _about_the_daemon(settings: Settings, shown: Json) -> list[str]:
    """Whose settings these are, and how those here differ."""
    from service.cli.daemon.daemon_requests import base_url
    from service.cli.daemon.daemon_settings import differing

    lines = [f"What the daemon at {base_url(settings)} was started with."]
    if others := differing(settings.shown(), shown):
        lines.append(f"Started from here it would have other {', '.join(others)}")
        lines.append("(`rondo config --here` shows them).")
    return lines


def _as_toml(settings: Mapping[str, JsonValue]) -> str:
    import tomlkit

    def fill(table: Container | tomlkit.items.Table, values: Mapping[str, JsonValue]) -> None:
        # What follows the head of a table belongs to it: the tables within come last.
        for name, value in sorted(values.items(), key=lambda each: isinstance(each[1], dict)):
            if isinstance(value, dict):
                fill(inner := tomlkit.table(), value)
                table.add(name, inner)
            elif value is None:  # TOML has no word for it
                table.add(tomlkit.comment(f"{name} is not set"))
            else:
                table.add(name, value)

    fill(document := tomlkit.document(), settings)
    return tomlkit.dumps(document)
