"""`rondo chat`: talking with the assistant in a terminal."""

from __future__ import annotations

import click

from service.cli.daemon.daemon_connection import connect


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
