"""`rondo approvals`: what may run without asking, because a person once said so."""

from __future__ import annotations

import click

from service.cli.commands.command_options import json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import read_as


@click.group(invoke_without_command=True)
@click.pass_context
def approvals(ctx: click.Context) -> None:
    """List and revoke what runs without asking. Without a command, lists it."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_approvals)


@approvals.command("list")
@json_option
def list_approvals(as_json: bool = False) -> None:
    """List what you have allowed for good, newest first."""
    from service.cli.terminal.output import aside, out, plain, print_json, short_id
    from service.wire.daemon_bodies import Approvals

    with connect() as daemon:
        approvals = read_as(Approvals, daemon.get("/v1/approvals")).approvals
    if as_json:
        print_json([each.model_dump(mode="json") for each in approvals])
        return
    if not approvals:
        aside().print("Nothing: each call that needs a yes is asked for.", style="dim")
        return
    for each in approvals:
        given = f"{each.granted_at:%Y-%m-%d} in {short_id(each.run_loop_id)}"
        # A scope in one piece, however long it is: it is to be copied.
        out().print(f"{plain(each.scope)}  ({given})", soft_wrap=True)
    aside().print("`rondo approvals revoke SCOPE` has it asked for again.", style="dim")


@approvals.command()
@click.argument("scope", nargs=-1, required=True)
@json_option
def revoke(scope: tuple[str, ...], as_json: bool) -> None:
    """Take back what SCOPE names, as it is listed: from now on it is asked for again."""
    from service.cli.terminal.output import out, plain, print_json
    from service.wire.daemon_bodies import Approval

    with connect() as daemon:
        revoked = daemon.delete("/v1/approvals", {"scope": " ".join(scope)})
    if as_json:
        print_json(revoked)
    else:
        out().print(f"revoked  {plain(read_as(Approval, revoked).scope)}", soft_wrap=True)
