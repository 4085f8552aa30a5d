"""The person's clock: the moment, in a time zone that knows when the clocks are changed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo


def local_now() -> datetime:
    """The present moment in the system's time zone, or the one that ``TZ`` names.

    Where neither can be read, in the present distance from UTC.
    """
    zone = _zone(os.environ.get("TZ", ""))
    return datetime.now(zone) if zone else datetime.now(UTC).astimezone()


@lru_cache(maxsize=4)
def _zone(named: str) -> tzinfo | None:
    try:
        if named:
            return ZoneInfo(named.removeprefix(":"))
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, KeyError):  # a zone that is not known is a KeyError
        return None
