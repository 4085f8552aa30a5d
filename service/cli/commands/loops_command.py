"""`rondo loops`: the run loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option
from service.cli.commands.routing_commands import calibrate, reroute
from service.cli.daemon.daemon_client import connect, patiently
from service.cli.daemon.stream_items import read_as

if TYPE_CHECKING:
    from service.cli.daemon.daemon_client import Daemon
    from service.cli.daemon.stream_items import Json

STATUSES = (
    "active",
    "running",
    "waiting_for_human_input",
    "idle",
    "completed",
    "failed",
    "cancelled",
)
SEQ = click.IntRange(1, 2**63 - 1)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def loops(ctx: click.Context, as_json: bool) -> None:
    """List, watch and steer run loops. Without a command, lists them.

    An ID may be shortened to its beginning, as long as only one run loop's begins so.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_loops, as_json=as_json)


@loops.command("list")
@click.option("--status", multiple=True, type=click.Choice(STATUSES), help="Only these.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@json_option
def list_loops(status: tuple[str, ...] = (), limit: int = 20, as_json: bool = False) -> None:
    """List the run loops, newest first."""
    from service.cli.terminal.output import aside, out, print_json
    from service.cli.views.run_loop_ids import run_loops

    with connect() as daemon:
        loops = list(run_loops(daemon, statuses=status, limit=limit, why=True))
    if as_json:
        print_json([loop.model_dump(mode="json") for loop in loops])
        return
    from service.cli.views.loop_tables import loops_table

    if not loops:
        aside().print("No run loops. Open one: rondo send TEXT", style="dim")
        return
    out().print(loops_table(loops), crop=False)
    if len(loops) == limit:
        aside().print(f"The newest {limit}; `rondo loops list --limit N` shows more.", style="dim")


@loops.command()
@click.argument("run_loop", metavar="ID")
@click.option("--at", type=SEQ, metavar="SEQ", help="As it was after this event.")
@json_option
def show(run_loop: str, at: int | None, as_json: bool) -> None:
    """Show a run loop word for word; `watch` shows the numbers of its events."""
    from service.cli.chat.human_questions import how_to_answer, show_request
    from service.cli.daemon.daemon_requests import loop_path
    from service.cli.terminal.output import aside, out, print_json
    from service.cli.views.loop_tables import loop_text
    from service.cli.views.run_loop_ids import resolve
    from service.cli.views.usage_tables import print_used
    from service.wire.run_loop_bodies import RunLoopDetails

    with connect() as daemon:
        run_loop_id = resolve(daemon, run_loop)
        details = daemon.get(loop_path(run_loop_id), {} if at is None else {"at": at})
    if as_json:
        print_json(details)
        return
    loop = read_as(RunLoopDetails, details)
    out().print(
        loop_text(
            loop,
            forked_from=loop.forked_from,
            whys=loop.routes,
            width=out().width if out().is_terminal else 500,
        ),
        end="",
        soft_wrap=not out().is_terminal,
    )
    print_used(loop.usage)
    if at is not None:
        aside().print(f"So it was after event {loop.last_seq}.", style="dim")
    if loop.problem is not None:
        aside().print(loop.problem.in_words(), style="red")
    if loop.input_required is not None:
        show_request(loop.input_required)
        if at is None:
            how = how_to_answer(run_loop_id, loop.input_required)
            aside().print(f"Answer with\n{how}", style="yellow")


@loops.command()
@click.argument("run_loop", metavar="[ID]", required=False)
@json_option
def watch(run_loop: str | None, as_json: bool) -> None:
    """Follow the events of a run loop from its beginning, or of all from now on, until Ctrl-C.

    The number before each event is what --at of `show` and `fork` takes.
    """
    from service.cli.terminal.output import aside, out, print_json_line
    from service.cli.views.loop_tables import event_line
    from service.cli.views.run_loop_ids import resolve

    with connect() as daemon:
        run_loop_id = None if run_loop is None else resolve(daemon, run_loop)
        if not as_json and run_loop_id is None:
            aside().print("Watching all run loops. Ctrl-C ends it.", style="dim")
        try:
            for event in daemon.events(run_loop_id, on_break=patiently(attempts=None)):
                if as_json:
                    print_json_line(event.wire)
                elif (line := event_line(event)) is not None:
                    out().print(line, no_wrap=True, overflow="ellipsis", soft_wrap=False)
        except KeyboardInterrupt:
            raise SystemExit(130) from None


@loops.command()
@click.argument("run_loop", metavar="ID")
@json_option
def cancel(run_loop: str, as_json: bool) -> None:
    """Stop a run loop; returns once its work has really ended. `resume` takes it up again."""
    with connect() as daemon:
        _act(daemon, run_loop, "cancel", as_json)


@loops.command()
@click.argument("run_loop", metavar="ID")
@json_option
def complete(run_loop: str, as_json: bool) -> None:
    """Declare a run loop done, so that it goes to long-term memory."""
    with connect() as daemon:
        _act(daemon, run_loop, "complete", as_json)


@loops.command()
@click.argument("run_loop", metavar="ID")
@json_option
def resume(run_loop: str, as_json: bool) -> None:
    """Take up a run loop that was cancelled or has failed, where it ended."""
    with connect() as daemon:
        _act(daemon, run_loop, "resume", as_json)


@loops.command()
@click.argument("run_loop", metavar="ID")
@json_option
def compact(run_loop: str, as_json: bool) -> None:
    """Summarise the old rounds of a run loop now; one at work does it before its next step."""
    from service.cli.daemon.daemon_requests import loop_path
    from service.cli.terminal.output import aside, out, print_json
    from service.cli.views.phrases import compaction_in_words
    from service.cli.views.run_loop_ids import resolve
    from service.domain.history.events import CompactionFinished

    with connect() as daemon:
        run_loop_id = resolve(daemon, run_loop)
        if not as_json:
            aside().print("Summarising; a model may take a minute.", style="dim")
        done = daemon.post(f"{loop_path(run_loop_id)}/compact", takes_long=True)
    if as_json:
        print_json(done)
    else:
        out().print(compaction_in_words(read_as(CompactionFinished, done)))


@loops.command()
@click.argument("run_loop", metavar="ID")
@click.option("--at", type=SEQ, metavar="SEQ", help="The last event that both have in common.")
@json_option
def fork(run_loop: str, at: int | None, as_json: bool) -> None:
    """Open a run loop with the same history, which goes on by itself.

    Without --at it has all of the history; of one that has ended, all but the end. The first run
    loop is left as it is.
    """
    with connect() as daemon:
        _act(daemon, run_loop, "fork", as_json, {} if at is None else {"at": at})


@loops.command()
@click.argument("run_loop", metavar="ID")
@click.option("--yes/--no", "approved", default=None, help="Whether the calls may run.")
@click.option("--text", help="The answer in words; for a no, its reason.")
@click.option("--choose", "choices", multiple=True, metavar="OPTION", help="Its words, or number.")
@click.option("--edit", metavar="JSON", help="With --yes: what to run the one call with.")
@click.option(
    "--remember", type=click.Choice(("loop", "always")), help="With --yes: how long it holds."
)
@click.option(
    "--only-these-arguments", "exact", is_flag=True, help="With --remember: to these alone."
)
@click.option("--until", metavar="TIME", help="With --remember: 18:00, 1h, “tomorrow at 9”.")
@json_option
def answer(
    run_loop: str,
    approved: bool | None,
    text: str | None,
    choices: tuple[str, ...],
    edit: str | None,
    remember: str | None,
    exact: bool,
    until: str | None,
    as_json: bool,
) -> None:
    """Answer a run loop that waits for a person; `show` shows what it asks."""
    from service.cli.chat.human_questions import how_to_answer, show_request, written_answer
    from service.cli.chat.yes_limits import read_until
    from service.cli.daemon.daemon_requests import loop_path
    from service.cli.terminal.output import aside, plain, print_json
    from service.cli.views.run_loop_ids import resolve
    from service.domain.history.approval_rules import Narrowing
    from service.domain.run_loops import RunLoop
    from service.wire.run_loop_bodies import RunLoopDetails, YesRules

    if approved is None and text is None and not choices:
        raise click.UsageError("Give --yes, --no, --text or --choose.")
    if approved is not True and (edit is not None or remember is not None):
        raise click.UsageError("--edit and --remember go with --yes.")
    if remember is None and (exact or until is not None):
        raise click.UsageError("--only-these-arguments and --until go with --remember.")
    with connect() as daemon:
        path = loop_path(resolve(daemon, run_loop))
        value = written_answer(
            read_as(RunLoopDetails, daemon.get(path)).input_required,
            approved=approved,
            text=text,
            choices=choices,
            edit=edit,
            remember=remember,
            narrow=Narrowing(arguments=exact, until=None if until is None else read_until(until)),
        )
        if remember is not None and not as_json:
            for each in read_as(YesRules, daemon.post(f"{path}/input/rules", value)).rules:
                aside().print(f"Your yes covers {plain(each.rule)}.", style="dim")
        reply = daemon.post(f"{path}/input", value)
        now, asked = read_as(RunLoop, reply), None
        if not as_json and now.status == "waiting_for_human_input":
            asked = read_as(RunLoopDetails, daemon.get(loop_path(now.id))).input_required
    if as_json:
        print_json(reply)
    elif asked is None:
        aside().print(f"{now.id} goes on: rondo loops watch {now.id}", style="dim")
    else:
        aside().print(f"{now.id} waits for an answer of yours first:", style="yellow")
        show_request(asked)
        aside().print(f"Answer with\n{how_to_answer(now.id, asked)}", style="yellow")


loops.add_command(calibrate)
loops.add_command(reroute)


def _act(
    daemon: Daemon, run_loop: str, action: str, as_json: bool, body: Json | None = None
) -> None:
    """Have something done with a run loop, and show what has become of it."""
    from service.cli.daemon.daemon_requests import loop_path
    from service.cli.terminal.output import aside, one_line, out, plain, print_json
    from service.cli.views.loop_tables import STYLES, status_in_words
    from service.cli.views.run_loop_ids import resolve
    from service.domain.run_loops import RunLoop

    now = daemon.post(f"{loop_path(resolve(daemon, run_loop))}/{action}", body)
    if as_json:
        print_json(now)
        return
    from rich.text import Text

    loop = read_as(RunLoop, now)
    out().print(
        Text.assemble(
            (status_in_words(loop.status), STYLES[loop.status]),
            f"  {plain(loop.id)}  {one_line(loop.goal, 60)}",
        )
    )
    if loop.status == "running":
        aside().print(f"It goes on: rondo loops watch {plain(loop.id)}", style="dim")
