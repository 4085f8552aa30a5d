"""`rondo memory export` and `import`: all that is remembered as a file, and back."""

from __future__ import annotations

import click

from service.cli.commands.command_options import DateParameter, json_option
from service.cli.daemon.daemon_client import connect


@click.command("export")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    default="-",
    help="Where to, readable by you alone; - is the standard output.  [default: -]",
)
@click.option("--since", type=DateParameter(), help="Only run loops opened then or later.")
@click.option("--until", type=DateParameter(), help="Only run loops opened before then.")
@click.option("--loop", metavar="ID", help="Only this run loop.")
def export_command(output: str, since: str | None, until: str | None, loop: str | None) -> None:
    """Write all run loops as JSON Lines, one a line, oldest first.

    A file appears under its name only once it is whole.
    """
    from service.cli.daemon.stream_items import Json
    from service.cli.memory_exchange import export_to_file, export_to_stdout
    from service.cli.views.run_loop_ids import resolve

    with connect() as daemon:
        params: Json = {"since": since, "until": until}
        if loop is not None:
            params["run_loop_id"] = resolve(daemon, loop)
        filters = {name: str(value) for name, value in params.items() if value is not None}
        unreadable = (
            export_to_stdout(daemon, filters)
            if output == "-"
            else export_to_file(daemon, filters, output)
        )
    if unreadable:
        raise click.exceptions.Exit(1)


@click.command("import")
@click.argument("file", metavar="FILE|-")
@click.option(
    "--format",
    "source_format",
    type=click.Choice(("auto", "rondo", "chatgpt", "claude")),
    default="auto",
    show_default=True,
    help="What the file is.",
)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@json_option
def import_command(file: str, source_format: str, dry_run: bool, as_json: bool) -> None:
    """Bring in run loops from FILE: an export, or an archive of ChatGPT or Claude.

    An archive can be its ZIP, its conversations.json, or the folder it was unpacked into. Importing
    the same twice changes nothing; an import that was broken off is begun again.
    """
    from service.cli.memory_exchange import import_archive
    from service.cli.terminal.output import print_json

    with connect() as daemon:
        outcome = import_archive(daemon, file, source_format, dry_run=dry_run)
    if as_json:
        print_json(outcome.as_json())
    else:
        outcome.tell()
    if outcome.report.failures:
        raise click.exceptions.Exit(1)
