"""The settings of the daemon that runs, beside those of the shell in which a command runs.

One of them can be switched while it runs: whether the model looks over its answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError, RefusedError
from service.cli.daemon.stream_items import Json, body_of, read_as
from service.config import Settings
from service.domain.errors import InvalidInputError
from service.wire.daemon_bodies import AutoEnhanceSwitch, EffectiveSettings


def daemon_settings(settings: Settings) -> EffectiveSettings | None:
    """What ``GET /v1/settings`` of the daemon answers; None where none can be asked."""
    try:
        with Daemon(settings) as daemon:
            return settings_told_by(daemon)
    except DaemonError:
        return None


def settings_told_by(daemon: Daemon) -> EffectiveSettings | None:
    """The same of a daemon that is connected; None where it is of a version that tells none.

    Raises:
        DaemonError: it does not answer.
    """
    try:
        return read_as(EffectiveSettings, daemon.get("/v1/settings"))
    except RefusedError as error:
        if error.status == 404:
            return None
        raise


def section_of(effective: EffectiveSettings | None, name: str) -> Json:
    """A section of the daemon's settings; empty where none can be asked."""
    section: Json = effective.settings.get(name, {}) if effective else {}
    return section


def differing(ours: Mapping[str, JsonValue], theirs: Mapping[str, JsonValue]) -> list[str]:
    """The dotted names of the settings that are not the same. Secrets are hidden, and so not seen.

    >>> differing({"log_level": "info", "llm": {"model": "a"}}, {"log_level": "info", "llm": {}})
    ['llm.model']
    """
    return list(_differing(ours, theirs))


def _differing(ours: Mapping[str, JsonValue], theirs: Mapping[str, JsonValue]) -> Iterator[str]:
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from (f"{name}.{inner}" for inner in _differing(one, other))
        elif one != other:
            yield name


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
