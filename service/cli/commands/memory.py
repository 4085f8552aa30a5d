"""`rondo memory`: looking into long-term memory."""

from __future__ import annotations

import click

from service.cli.commands.memory_exchange import export_command, import_command
from service.cli.commands.memory_expand import expand
from service.cli.commands.memory_forget import forget
from service.cli.commands.memory_index import reindex
from service.cli.commands.memory_notes import notes
from service.cli.commands.memory_search import search
from service.cli.connect import connect, json_option


@click.group()
def memory() -> None:
    """Search what is remembered, and read around what was found."""


memory.add_command(notes)
memory.add_command(expand)
memory.add_command(forget)
memory.add_command(search)
memory.add_command(reindex)
memory.add_command(export_command)
memory.add_command(import_command)


@memory.command()
@json_option
def stats(as_json: bool) -> None:
    """Show how much is remembered, and how much of it waits to be embedded."""
    from service.cli.index_views import print_index
    from service.cli.memory_views import print_stats
    from service.cli.output import print_json

    with connect() as daemon:
        found = daemon.get("/v1/memory/stats")
    if as_json:
        print_json(found)
    else:
        print_stats(found)
        print_index(found)
