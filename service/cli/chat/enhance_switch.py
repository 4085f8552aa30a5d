"""Switching whether the model looks over its answers, for the command and for the chat."""

from __future__ import annotations

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.stream_items import body_of, read_as
from service.domain.errors import InvalidInputError
from service.wire.daemon_bodies import AutoEnhanceSwitch


def switched(daemon: Daemon, switch: str | None) -> bool:
    """Switch it ``on`` or ``off``, or neither; whether it is on now.

    Raises:
        InvalidInputError: the word is another one.
        DaemonError: the daemon refuses, or is not there.
    """
    if not switch:
        return read_as(AutoEnhanceSwitch, daemon.get("/v1/auto-enhance")).enabled
    if switch not in ("on", "off"):
        raise InvalidInputError(f"{switch!r} is neither on nor off", advice="Write on, or off.")
    request = body_of(AutoEnhanceSwitch, enabled=switch == "on")
    return read_as(AutoEnhanceSwitch, daemon.post("/v1/auto-enhance", request)).enabled


def enhance_in_words(enabled: bool) -> str:
    """Whether answers are looked over, as a line."""
    return "Each answer is looked over once more." if enabled else "Answers stand as they are."
