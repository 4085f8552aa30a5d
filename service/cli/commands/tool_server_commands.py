"""`rondo tools review` and `rondo tools secret`: what MCP servers say, and what they know us by."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option

if TYPE_CHECKING:
    from service.storage.secret_store import SecretStore


@click.command()
@click.argument("server")
@click.option("--yes", is_flag=True, help="Accept what is shown without being asked.")
@json_option
def review(server: str, yes: bool, as_json: bool) -> None:
    """Look at what the tools of SERVER say that is new, and accept it or not.

    Until then the model is not offered these tools. With --json nothing is asked: they are accepted
    with --yes only.
    """
    from service.cli.daemon.daemon_client import connect
    from service.cli.daemon.stream_items import read_as
    from service.cli.terminal.output import aside, print_json
    from service.cli.views.phrases import counted
    from service.cli.views.tool_change_views import print_changes
    from service.tool_server_settings import SERVER_NAME
    from service.wire.daemon_bodies import AcceptedChanges, ToolServerChanges

    if not re.fullmatch(SERVER_NAME, server):
        raise click.UsageError(f"{server!r} is no name of a tool server; see rondo tools")
    with connect() as daemon:
        path = f"/v1/tools/servers/{server}"
        waiting = read_as(ToolServerChanges, daemon.get(f"{path}/changes"))
        if as_json:
            print_json(waiting.model_dump(mode="json"))
        else:
            print_changes(waiting)
        if not waiting.changes or (as_json and not yes):
            return
        if not yes:
            click.confirm("Accept this, and offer these tools?", abort=True, err=True)
        accepted = read_as(
            AcceptedChanges, daemon.post(f"{path}/accept", {"digest": waiting.digest})
        )
        if not as_json:
            offered = f"{counted(accepted.accepted, 'tool')} of {server}"
            are = "is" if accepted.accepted == 1 else "are"
            aside().print(f"Accepted: {offered} {are} offered now.")


@click.group()
def secret() -> None:
    """Secrets that settings name as secret:NAME, encrypted in the data folder.

    The key lies beside them, in a file that only you may read: what runs as you can read them, and
    so can who has a copy of the whole folder.
    """


@secret.command("set")
@click.argument("name")
def set_secret(name: str) -> None:
    """Keep a secret as NAME. It is asked for, or read from standard input."""
    from service.cli.terminal.output import aside

    if sys.stdin.isatty():
        value = click.prompt(f"{name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read().strip()
    _store().set(name, value)
    aside().print(f"Kept. Settings name it secret:{name}")


@secret.command("list")
@json_option
def list_secrets(as_json: bool) -> None:
    """List the names of what is kept, and which of it cannot be read."""
    from service.cli.terminal.output import aside, out, print_json

    store = _store()
    names, unreadable = store.names(), store.unreadable()
    if as_json:
        print_json({"secrets": [*names], "unreadable": [*unreadable]})
        return
    for name in names:
        out().print(name)
    for name in unreadable:
        aside().print(
            f"{name} cannot be read with the key that is there. Bring back the key of before, or"
            f" keep it anew: rondo tools secret set {name}",
            style="yellow",
        )


@secret.command("remove")
@click.argument("name")
def remove_secret(name: str) -> None:
    """Keep the secret NAME no longer."""
    from service.cli.terminal.output import aside

    if not _store().remove(name):
        raise click.UsageError(f"no secret {name!r} is kept; see rondo tools secret list")
    aside().print("Removed. A server that has it keeps it until it is started again.")


def _store() -> SecretStore:
    from service.config import load_settings
    from service.storage.secret_store import SecretStore

    return SecretStore(load_settings().data_dir)
