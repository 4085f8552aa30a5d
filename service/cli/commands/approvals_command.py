"""`rondo approvals`: what may run without asking, because a person once said so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import Json, read_as

if TYPE_CHECKING:
    from service.wire.daemon_bodies import Approval


@click.group(invoke_without_command=True)
@click.pass_context
def approvals(ctx: click.Context) -> None:
    """List, narrow and revoke what runs without asking. Without a command, lists it."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_approvals)


@approvals.command("list")
@json_option
def list_approvals(as_json: bool = False) -> None:
    """List what you have allowed for good, newest first."""
    from service.cli.terminal.output import aside, print_json
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
        _print(each)
    aside().print(
        "`rondo approvals revoke SCOPE` has it asked for again; `rondo approvals narrow SCOPE`"
        " lets it cover less. An id stands for a scope.",
        style="dim",
    )


@approvals.command()
@click.argument("scope", nargs=-1, required=True)
@json_option
def revoke(scope: tuple[str, ...], as_json: bool) -> None:
    """Take back what SCOPE names, as it is listed, or an id: from now on it is asked for again."""
    from service.cli.terminal.output import out, plain, print_json
    from service.wire.daemon_bodies import Approval

    with connect() as daemon:
        revoked = daemon.delete("/v1/approvals", {"scope": " ".join(scope)})
    if as_json:
        print_json(revoked)
    else:
        out().print(f"revoked  {plain(read_as(Approval, revoked).scope)}", soft_wrap=True)


@approvals.command()
@click.argument("scope", nargs=-1, required=True)
@click.option("--arguments", is_flag=True, help="To the arguments of the call you said yes to.")
@click.option("--until", metavar="TIME", help="To a time: 18:00, 1h, 24h, “tomorrow at 9”.")
@json_option
def narrow(scope: tuple[str, ...], arguments: bool, until: str | None, as_json: bool) -> None:
    """Let the yes that SCOPE names, as it is listed, or an id, cover less. It never covers more."""
    from service.cli.chat.yes_limits import read_until
    from service.cli.terminal.output import print_json
    from service.wire.daemon_bodies import Approvals

    if not arguments and until is None:
        raise click.UsageError("Give --arguments, --until, or both.")
    limits: Json = {"arguments": arguments}
    if until is not None:
        limits["until"] = read_until(until).isoformat()
    with connect() as daemon:
        body: Json = {"scope": " ".join(scope), "narrow": limits}
        narrower = read_as(Approvals, daemon.post("/v1/approvals/narrow", body)).approvals
    if as_json:
        print_json([each.model_dump(mode="json") for each in narrower])
        return
    for each in narrower:
        _print(each)


def _print(approval: Approval) -> None:
    from service.cli.terminal.output import out, plain, short_id

    given = f"{approval.granted_at:%Y-%m-%d} in {short_id(approval.run_loop_id)}"
    # A scope in one piece, however long it is: it is to be copied.
    out().print(f"{plain(approval.scope)}  ({given}, id {approval.id})", soft_wrap=True)
    if approval.arguments is not None or approval.until is not None:
        out().print(f"  only {plain(approval.rule)}", soft_wrap=True)
