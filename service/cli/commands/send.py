"""`rondo send`: one message and its answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from service.cli.connect import connect, json_option, patiently

if TYPE_CHECKING:
    from service.domain.run_loops import SendMode


@click.command()
@click.argument("text")
@click.option("--loop", "loop", metavar="ID", help="The run loop it belongs to.")
@click.option(
    "--mode",
    type=click.Choice(("steer", "followup", "interrupt")),
    default="steer",
    show_default=True,
    help="How it joins a loop at work: seen at the next step, after the answer, or at once.",
)
@json_option
def send(text: str, loop: str | None, mode: SendMode, as_json: bool) -> None:
    """Send TEXT (`-` reads standard input), and print the answer as it comes.

    A run loop that was cancelled or has failed goes on with it; one that is completed is taken up
    by a new one. With --mode interrupt a loop stops what it does, and takes TEXT instead. The
    answer goes to standard output, all else to standard error. Exit codes: 0 answered, 1
    failed, 3 a person must answer first.
    """
    from service.cli.conversation import Conversation
    from service.cli.run_loop_ids import resolve

    if text == "-":
        text = _standard_input()
    with connect() as daemon:
        conversation = Conversation(daemon, quiet=as_json, on_break=patiently())
        try:
            run_loop_id = None if loop is None else resolve(daemon, loop)
            turn = conversation.send(text, run_loop_id=run_loop_id, mode=mode)
        except KeyboardInterrupt:
            raise SystemExit(conversation.leave()) from None
    if as_json:
        from service.cli.output import print_json

        print_json(turn.as_json())
    raise SystemExit(turn.exit_code)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise click.UsageError("This text is not UTF-8 (standard input).") from error
