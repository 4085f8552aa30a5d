"""The person's clock, whose time zone knows when clocks are changed; moments as stored."""

from __future__ import annotations

import os
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones


def local_now() -> datetime:
    """The present moment in the system's time zone, or the one that ``TZ`` names.

    Where neither can be read, in the present distance from UTC.
    """
    zone = _zone(os.environ.get("TZ", ""))
    return datetime.now(zone) if zone else datetime.now(UTC).astimezone()


def local_zone_name() -> str | None:
    """The IANA name of the system's time zone, or of the one that ``TZ`` names; None where neither
    tells it."""
    known = available_timezones()
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named if named in known else None
    try:
        target = Path("/etc/localtime").resolve(strict=True).as_posix()
        written = target.partition("zoneinfo/")[2]
        if written not in known:
            written = Path("/etc/timezone").read_text("utf-8").strip()
    except (OSError, ValueError):
        written = ""
    if written in known:
        return written
    return "UTC" if not datetime.now().astimezone().utcoffset() else None


def millis_of(at: datetime) -> int:
    """A moment as it is stored: milliseconds since the epoch."""
    return round(at.timestamp() * 1000)


def moment_of(millis: int) -> datetime:
    """A stored moment."""
    return datetime.fromtimestamp(millis // 1000, UTC).replace(microsecond=millis % 1000 * 1000)


@lru_cache(maxsize=4)
def _zone(named: str) -> tzinfo | None:
    try:
        if named:
            return ZoneInfo(named.removeprefix(":"))
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, KeyError):  # a zone that is not known is a KeyError
        return None
