"""`rondo chat` and `rondo send`: messages to the assistant.

And `rondo enhance`: whether the model looks over its answers once more.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option
from service.cli.daemon.daemon_client import connect, patiently

if TYPE_CHECKING:
    from service.domain.run_loops import SendMode


@click.command()
@click.option("--loop", "loop", metavar="ID", help="Stay in this run loop (or the one after it).")
def chat(loop: str | None) -> None:
    """Talk with the assistant.

    Each message goes to the run loop it belongs to, or opens a new one. Type while an answer comes
    to steer it. Ctrl-C stops the loop that is at work; Ctrl-D (or a second Ctrl-C) leaves. `/help`
    lists what else can be typed.
    """
    from service.cli.chat.chat_session import ChatSession
    from service.cli.setup.first_chat_offer import set_up_first

    if loop is None and set_up_first():
        return
    with connect() as daemon:
        ChatSession(daemon).run(loop)


@click.command()
@click.argument("text", required=False, default="")
@click.option("--loop", "loop", metavar="ID", help="The run loop it belongs to.")
@click.option("--new", is_flag=True, help="It opens a new run loop, whatever it looks like.")
@click.option(
    "--mode",
    type=click.Choice(("steer", "followup", "interrupt")),
    default="steer",
    show_default=True,
    help="How it joins a loop at work: seen at the next step, after the answer, or at once.",
)
@click.option(
    "--image",
    "images",
    metavar="FILE",
    multiple=True,
    help="A PNG, JPEG, GIF or WebP image that goes with it; may be given several times.",
)
@click.option(
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="A file that goes with it, for the assistant to read; may be given several times.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Who answers it, and what follows in its run loop: `default`, or one of the setting"
    " models.",
)
@json_option
def send(
    text: str,
    loop: str | None,
    new: bool,
    mode: SendMode,
    images: tuple[str, ...],
    files: tuple[str, ...],
    model: str | None,
    as_json: bool,
) -> None:
    """Send TEXT (`-` reads standard input), and print the answer as it comes.

    A run loop that was cancelled or has failed goes on with it; one that is completed is taken up
    by a new one. With --mode interrupt a loop stops what it does, and takes TEXT instead. The
    answer goes to standard output, all else to standard error. Exit codes: 0 answered, 1
    failed, 3 a person must answer first.
    """
    from service.agent.message_check import image_from_file
    from service.cli.chat.conversation import Conversation
    from service.cli.daemon.attached_files import file_content
    from service.cli.views.run_loop_ids import resolve
    from service.cli.views.schedule_views import tell_what_came_due
    from service.domain.history.human_input import NEW_RUN_LOOP

    if new and loop is not None:
        raise click.UsageError("Give either --loop ID or --new.")
    if text == "-":
        text = _standard_input()
    if not text and not images and not files:
        raise click.UsageError("Missing argument 'TEXT'.")
    shown = [image_from_file(each) for each in images]
    given = [file_content(each) for each in files]
    with connect() as daemon:
        conversation = Conversation(daemon, quiet=as_json, on_break=patiently())
        try:
            run_loop_id = NEW_RUN_LOOP if new else None
            if loop is not None:
                run_loop_id = resolve(daemon, loop)
            turn = conversation.send(
                text,
                run_loop_id=run_loop_id,
                mode=mode,
                images=shown,
                files=given,
                model=model,
            )
        except KeyboardInterrupt:
            raise SystemExit(conversation.leave()) from None
        if not as_json:
            tell_what_came_due(daemon)
    if as_json:
        from service.cli.terminal.output import print_json

        print_json(turn.as_json())
    raise SystemExit(turn.exit_code)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise click.UsageError("This text is not UTF-8 (standard input).") from error


@click.command()
@click.argument("switch", type=click.Choice(("on", "off")), required=False)
@json_option
def enhance(switch: str | None, as_json: bool) -> None:
    """Have the model look over each answer to you once more, or not; alone: tell which it is.

    Holds until the daemon ends; `agent.auto_enhance` is what it begins with.
    """
    from service.cli.daemon.daemon_settings import enhance_in_words, switched
    from service.cli.terminal.output import out, print_json

    with connect() as daemon:
        now = switched(daemon, switch)
    if as_json:
        print_json({"enabled": now})
    else:
        out().print(enhance_in_words(now), highlight=False)
