"""`rondo enhance`: whether the model looks over its answers once more."""

from __future__ import annotations

import click

from service.cli.daemon.daemon_connection import connect
from service.cli.terminal.date_parameter import json_option


@click.command()
@click.argument("switch", type=click.Choice(("on", "off")), required=False)
@json_option
def enhance(switch: str | None, as_json: bool) -> None:
    """Have the model look over each answer to you once more, or not; alone: tell which it is.

    Holds until the daemon ends; `agent.auto_enhance` is what it begins with.
    """
    from service.cli.chat.enhance_switch import enhance_in_words, switched
    from service.cli.terminal.output import out, print_json

    with connect() as daemon:
        now = switched(daemon, switch)
    if as_json:
        print_json({"enabled": now})
    else:
        out().print(enhance_in_words(now), highlight=False)
