"""`rondo memory notes`: what consolidation has written."""

from __future__ import annotations

import click

from service.cli.daemon.daemon_connection import connect
from service.cli.daemon.stream_items import read_as
from service.cli.terminal.date_parameter import json_option


@click.command()
@click.option("--remove", metavar="ID", help="Delete this note; the words stay.")
@json_option
def notes(remove: str | None, as_json: bool) -> None:
    """Show the notes on persons, projects and topics, with what each sentence rests on."""
    from service.cli.terminal.output import aside, out, plain, print_json
    from service.cli.views.note_views import print_consolidation, print_notes
    from service.domain.anchors import MemoryNote
    from service.wire.memory_bodies import NoteList

    with connect() as daemon:
        if remove is not None:
            response = daemon.delete(f"/v1/memory/notes/{_segment(remove)}")
        else:
            response = daemon.get("/v1/memory/notes")
    if as_json:
        print_json(response)
    elif remove is not None:
        removed = read_as(MemoryNote, response)
        out().print(f"removed  {plain(removed.subject)}", soft_wrap=True)
    else:
        listing = read_as(NoteList, response)
        print_notes(listing.notes, with_ids=True)
        if not listing.notes:
            aside().print("There are no notes.", style="dim")
        print_consolidation(listing.consolidation)


def _segment(text: str) -> str:
    """Any text as one segment of a path."""
    from urllib.parse import quote

    return quote(text, safe="")
