"""`rondo tools`: what the assistant can do, and a tool run by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option
from service.cli.commands.tool_server_commands import review, secret

if TYPE_CHECKING:
    from service.wire.daemon_bodies import Tools


@click.group(invoke_without_command=True)
@click.pass_context
def tools(ctx: click.Context) -> None:
    """List the tools, show one, run one by hand. Without a command, lists them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tools)


tools.add_command(review)
tools.add_command(secret)


@tools.command("list")
@json_option
def list_tools(as_json: bool = False) -> None:
    """List the tools, and why others are not offered."""
    from service.cli.terminal.output import print_json
    from service.cli.views.tool_views import print_tools

    listing = _listing()
    if as_json:
        print_json(listing.model_dump(mode="json"))
    else:
        print_tools(listing)


@tools.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show what the model is told of the tool NAME, and what it may do."""
    from service.cli.terminal.output import print_json
    from service.cli.views.tool_views import print_tool

    listing = _listing()
    for tool in listing.tools:
        if tool.name == name:
            if as_json:
                print_json(tool.model_dump(mode="json"))
            else:
                print_tool(tool)
            return
    _no_such_tool(name, listing)


@tools.command()
@click.argument("name")
@click.argument("arguments", default="{}")
@click.option("--yes", is_flag=True, help="Do not ask where the tool needs a yes.")
def run(name: str, arguments: str, yes: bool) -> None:
    """Run the tool NAME once, here, with ARGUMENTS as JSON, such as '{"city": "Lisbon"}'.

    Nothing of it is remembered. Exits with 1 where the tool fails.
    """
    import anyio

    from service.agent.agent_factory import agent_from_settings
    from service.agent.tool_listing import listed_tools
    from service.cli.terminal.output import aside, out, plain
    from service.cli.views.difference_view import show_difference
    from service.domain.conversation.messages import ToolCall
    from service.domain.conversation.tool_definitions import QUOTING_TOOLS, REMEMBER, ToolContext
    from service.domain.ids import new_id
    from service.tools.approval import asked_about
    from service.tools.builtins.schedule_tools import NAMES as SCHEDULE_TOOLS

    if name in QUOTING_TOOLS | {REMEMBER}:
        raise click.UsageError(f"{name} works within a run loop only; see rondo memory --help")
    if name in SCHEDULE_TOOLS:
        raise click.UsageError(f"{name} works within a run loop only; see rondo schedules --help")
    agent = agent_from_settings()
    tool = agent.tools.get(name)
    if tool is None or agent.tools.asking(name) is not None:
        _no_such_tool(name, listed_tools(agent))
        return
    call = ToolCall(id=new_id(), name=name, arguments=arguments)
    approved: frozenset[str] | None = None
    if not yes and agent.options.approval.needs_approval(call, agent.tools):
        about = asked_about((call,), agent.tools)
        if call.id in about.failures:
            raise click.ClickException(about.failures[call.id])
        preview = about.previews.get(call.id)
        if preview is not None:
            show_difference(preview)
            approved = frozenset(filter(None, about.scopes.values()))
        shown = f"{name} {plain(arguments)}\n" if preview is None else ""
        click.confirm(f"{shown}Run it?", abort=True, err=True)
    context = ToolContext(owner="me", run_loop_id="", idempotency_key=call.id, approved=approved)
    result = anyio.run(agent.tools.execute, call, context)
    if result.is_error:
        aside().print(plain(result.content), style="red", soft_wrap=True)
        raise SystemExit(1)
    out().print(plain(agent.tools.shown(result, name)), soft_wrap=True)


def _listing() -> Tools:
    from service.agent.agent_factory import agent_from_settings
    from service.agent.tool_listing import listed_tools
    from service.cli.daemon.daemon_client import connect
    from service.cli.daemon.daemon_errors import DaemonNotRunningError
    from service.cli.daemon.stream_items import read_as
    from service.cli.terminal.output import aside
    from service.wire.daemon_bodies import Tools

    try:
        with connect() as daemon:
            return read_as(Tools, daemon.get("/v1/tools"))
    except DaemonNotRunningError:
        aside().print("No daemon is running; as the settings here say:", style="dim")
        return listed_tools(agent_from_settings())


def _no_such_tool(name: str, listing: Tools) -> None:
    from service.config import load_settings

    server, separator, _ = name.partition("__")
    if separator and server in load_settings().tools.mcp:
        raise click.ClickException(
            f"{name} is a tool of the MCP server {server}. The model calls those, through the"
            " daemon; they cannot be run by hand."
        )
    for each in listing.not_offered:
        if each.name == name:
            raise click.ClickException(f"{name} is not offered. {each.reason}")
    names = ", ".join(each.name for each in listing.tools)
    raise click.UsageError(f"there is no tool {name!r}. The tools are: {names}")
