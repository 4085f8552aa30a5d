"""`rondo memory`: looking into long-term memory."""

from __future__ import annotations

import click

from service.cli.commands.memory.exchange_command import export_command, import_command
from service.cli.commands.memory.expand_command import expand
from service.cli.commands.memory.forget_command import forget
from service.cli.commands.memory.notes_command import notes
from service.cli.commands.memory.reindex_command import reindex
from service.cli.commands.memory.search_command import search
from service.cli.daemon.daemon_connection import connect
from service.cli.daemon.stream_items import read_as
from service.cli.terminal.date_parameter import json_option


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
    from service.cli.terminal.output import print_json
    from service.cli.views.index_views import print_index
    from service.cli.views.memory_views import print_stats
    from service.wire.memory_bodies import Stats

    with connect() as daemon:
        response = daemon.get("/v1/memory/stats")
    if as_json:
        print_json(response)
    else:
        stats_now = read_as(Stats, response)
        print_stats(stats_now)
        print_index(stats_now)
