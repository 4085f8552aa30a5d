"""What the commands that talk to the daemon have in common."""

from __future__ import annotations

import time

from service.cli.daemon.daemon_client import Broken, Daemon, OnBreak
from service.cli.terminal.output import aside
from service.config import Settings, load_settings


def connect(settings: Settings | None = None) -> Daemon:
    """The daemon of the effective settings. Makes no request yet.

    Raises:
        ConfigurationError: the settings cannot be read.
    """
    return Daemon(settings or load_settings())


def patiently(*, attempts: int | None = 6) -> OnBreak:
    """What to do when a stream breaks: say so, wait a little longer each time, and try again.

    Args:
        attempts: breaks one after another that are borne; None: any number.
    """

    def on_break(error: Broken, breaks: int) -> None:
        if attempts is not None and breaks > attempts:
            raise error
        delay = min(0.5 * 2 ** min(breaks - 1, 4), 5.0)
        aside().print(f"{error.title}; trying again in {delay:g} s.", style="yellow")
        time.sleep(delay)

    return on_break
