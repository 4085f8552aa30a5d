"""`rondo files`: what the assistant has changed in your files, and taking it back."""

from __future__ import annotations

import click

from service.cli.commands.command_options import json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import read_as

_STATES = {
    "written": "",
    "undone": "  (as it was before)",
    "changed": "  (changed since, or gone)",
    "out_of_reach": "  (where nothing may be written any more)",
}


@click.group(invoke_without_command=True)
@click.pass_context
def files(ctx: click.Context) -> None:
    """List what was changed in your files, show it, take it back. Without a command, lists it."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_changes)


@files.command("list")
@json_option
def list_changes(as_json: bool = False) -> None:
    """List the changes that are kept, newest first."""
    from service.cli.terminal.output import aside, out, plain, print_json, short_id
    from service.wire.file_bodies import ChangedFiles

    with connect() as daemon:
        changes = read_as(ChangedFiles, daemon.get("/v1/files/changes")).changes
    if as_json:
        print_json([each.model_dump(mode="json") for each in changes])
        return
    if not changes:
        aside().print("Nothing: no change of a file is kept.", style="dim")
        return
    for each in changes:
        at = f"{each.at.astimezone():%Y-%m-%d %H:%M}"
        new = "new  " if each.is_new else ""
        where = f"  in {short_id(each.run_loop_id)}" if each.run_loop_id else ""
        out().print(
            f"{each.id}  {at}  {new}{plain(each.path)}{where}{_STATES[each.state]}", soft_wrap=True
        )
    aside().print("`rondo files undo ID` takes one back.", style="dim")


@files.command()
@click.argument("change_id", metavar="ID")
@json_option
def show(change_id: str, as_json: bool) -> None:
    """Show what taking the change ID back would do."""
    from service.cli.terminal.output import print_json
    from service.cli.views.difference_view import show_difference
    from service.wire.file_bodies import ChangedFileDetails

    with connect() as daemon:
        answer = daemon.get(f"/v1/files/changes/{_path_part(change_id)}")
    if as_json:
        print_json(answer)
    else:
        show_difference(read_as(ChangedFileDetails, answer).difference)


@files.command()
@click.argument("change_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def undo(change_id: str, yes: bool, as_json: bool) -> None:
    """Take the change ID back: the file holds again what it held before.

    Shows the difference and asks first. Refused where the file was changed since.
    """
    from service.cli.chat.human_questions import can_ask, confirmed
    from service.cli.terminal.output import out, plain, print_json
    from service.cli.views.difference_view import show_difference
    from service.wire.file_bodies import ChangedFileDetails, UndoneChange

    path = f"/v1/files/changes/{_path_part(change_id)}"
    with connect() as daemon:
        if not yes:
            if not can_ask():
                raise click.UsageError("there is nobody to ask here; --yes takes it back")
            show_difference(read_as(ChangedFileDetails, daemon.get(path)).difference)
            if not confirmed("Take it back?"):
                return
        answer = daemon.post(f"{path}/undo", {})
    if as_json:
        print_json(answer)
        return
    undone = read_as(UndoneChange, answer)
    done = "deleted, as it was new" if undone.deleted else "as it was before"
    out().print(f"{plain(undone.path)} is {done}", soft_wrap=True)


def _path_part(change_id: str) -> str:
    if not (change_id.isascii() and change_id.isalnum()):
        raise click.UsageError(f"{change_id!r} is no id of a change; `rondo files` lists them")
    return change_id
