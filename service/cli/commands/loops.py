"""`rondo loops`: the run loops."""

from __future__ import annotations

import click

from service.cli.connect import connect, json_option, patiently

STATUSES = (
    "active",
    "running",
    "waiting_for_human_input",
    "idle",
    "completed",
    "failed",
    "cancelled",
)


@click.group(invoke_without_command=True)
@click.pass_context
def loops(ctx: click.Context) -> None:
    """List, watch and steer run loops. Without a command, lists them.

    An ID may be shortened to its beginning, as long as only one run loop's begins so.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_loops)


@loops.command("list")
@click.option("--status", multiple=True, type=click.Choice(STATUSES), help="Only these.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@json_option
def list_loops(status: tuple[str, ...] = (), limit: int = 20, as_json: bool = False) -> None:
    """List the run loops, newest first."""
    from service.cli.output import aside, out, print_json
    from service.cli.run_loop_ids import run_loops

    with connect() as daemon:
        found = list(run_loops(daemon, statuses=status, limit=limit))
    if as_json:
        print_json([loop.model_dump(mode="json") for loop in found])
        return
    from service.cli.loop_tables import loops_table

    if not found:
        aside().print("No run loops. Open one: rondo send TEXT", style="dim")
        return
    out().print(loops_table(found), crop=False)
    if len(found) == limit:
        aside().print(f"The newest {limit}; --limit shows more.", style="dim")


@loops.command()
@click.argument("run_loop", metavar="ID")
@json_option
def show(run_loop: str, as_json: bool) -> None:
    """Show a run loop word for word."""
    from service.cli.asking import how_to_answer, show_request
    from service.cli.client import loop_path
    from service.cli.loop_tables import loop_text
    from service.cli.output import aside, out, print_json
    from service.cli.run_loop_ids import resolve
    from service.domain.events import InputRequired
    from service.domain.run_loops import RunLoop

    with connect() as daemon:
        run_loop_id = resolve(daemon, run_loop)
        details = daemon.get(loop_path(run_loop_id))
    if as_json:
        print_json(details)
        return
    out().print(loop_text(RunLoop.model_validate(details)), end="")
    if details.get("problem"):
        from service.domain.errors import Problem

        aside().print(Problem.model_validate(details["problem"]).in_words(), style="red")
    if details.get("input_required"):
        request = InputRequired.model_validate(details["input_required"])
        show_request(request)
        aside().print(f"Answer with\n{how_to_answer(run_loop_id, request)}", style="yellow")


@loops.command()
@click.argument("run_loop", metavar="[ID]", required=False)
@json_option
def watch(run_loop: str | None, as_json: bool) -> None:
    """Follow the events of a run loop from its beginning, or of all from now on, until Ctrl-C."""
    from service.cli.loop_tables import event_line
    from service.cli.output import aside, out, print_json_line
    from service.cli.run_loop_ids import resolve

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
    """Stop a run loop; returns once its work has really ended."""
    _end(run_loop, "cancel", as_json)


@loops.command()
@click.argument("run_loop", metavar="ID")
@json_option
def complete(run_loop: str, as_json: bool) -> None:
    """Declare a run loop done, so that it goes to long-term memory."""
    _end(run_loop, "complete", as_json)


@loops.command()
@click.argument("run_loop", metavar="ID")
@click.option("--yes/--no", "approved", default=None, help="Whether the calls may run.")
@click.option("--text", help="The answer in words; for a no, its reason.")
@json_option
def answer(run_loop: str, approved: bool | None, text: str | None, as_json: bool) -> None:
    """Answer a run loop that waits for a person."""
    from service.cli.asking import answer as send_answer
    from service.cli.output import aside, print_json
    from service.cli.run_loop_ids import resolve

    if approved is None and text is None:
        raise click.UsageError("Give --yes, --no or --text.")
    with connect() as daemon:
        run_loop_id = resolve(daemon, run_loop)
        now = send_answer(daemon, run_loop_id, {"approved": approved, "text": text})
    if as_json:
        print_json(now)
    else:
        aside().print(f"{run_loop_id} goes on: rondo loops watch {run_loop_id}", style="dim")


def _end(run_loop: str, how: str, as_json: bool) -> None:
    from service.cli.client import loop_path
    from service.cli.loop_tables import STYLES, status_in_words
    from service.cli.output import one_line, out, plain, print_json
    from service.cli.run_loop_ids import resolve
    from service.domain.run_loops import RunLoop

    with connect() as daemon:
        ended = daemon.post(f"{loop_path(resolve(daemon, run_loop))}/{how}")
    if as_json:
        print_json(ended)
        return
    from rich.text import Text

    loop = RunLoop.model_validate(ended)
    out().print(
        Text.assemble(
            (status_in_words(loop.status), STYLES[loop.status]),
            f"  {plain(loop.id)}  {one_line(loop.goal, 60)}",
        )
    )
