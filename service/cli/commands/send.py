"""`rondo send`: one message and its answer."""

from __future__ import annotations

import sys

import click

from service.cli.connect import connect, json_option, patiently


@click.command()
@click.argument("text")
@click.option("--loop", "loop", metavar="ID", help="The run loop it belongs to (or a new one).")
@json_option
def send(text: str, loop: str | None, as_json: bool) -> None:
    """Send TEXT (`-` reads standard input), and print the answer as it comes.

    The answer goes to standard output, all else to standard error. Exit codes: 0 answered, 1
    failed, 3 a person must answer first.
    """
    from service.cli.conversation import Conversation

    if text == "-":
        text = _standard_input()
    with connect() as daemon:
        conversation = Conversation(daemon, quiet=as_json, on_break=patiently())
        try:
            turn = conversation.send(text, run_loop=loop)
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
