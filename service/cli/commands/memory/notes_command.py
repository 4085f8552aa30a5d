"""`rondo memory notes`: what consolidation has written."""

from __future__ import annotations

import click

from service.cli.daemon.daemon_connection import connect, json_option


@click.command()
@click.option("--remove", metavar="ID", help="Delete this note; the words stay.")
@json_option
def notes(remove: str | None, as_json: bool) -> None:
    """Show the notes on persons, projects and topics, with what each sentence rests on."""
    from pydantic import TypeAdapter

    from service.cli.terminal.output import aside, out, plain, print_json
    from service.cli.views.note_views import print_consolidation, print_notes
    from service.domain.anchors import MemoryNote

    with connect() as daemon:
        if remove is not None:
            found = daemon.delete(f"/v1/memory/notes/{_segment(remove)}")
        else:
            found = daemon.get("/v1/memory/notes")
    if as_json:
        print_json(found)
    elif remove is not None:
        out().print(f"removed  {plain(str(found['subject']))}", soft_wrap=True)
    else:
        written = TypeAdapter(list[MemoryNote]).validate_python(found["notes"])
        print_notes(written, with_ids=True)
        if not written:
            aside().print("There are no notes.", style="dim")
        told = found["consolidation"]
        print_consolidation(told if isinstance(told, dict) else {})


def _segment(text: str) -> str:
    """Any text as one segment of a path."""
    from urllib.parse import quote

    return quote(text, safe="")
