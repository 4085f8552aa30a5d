"""From what a clock on the wall shows to the moment, also where clocks are changed.

A time that a change leaves out means the first moment after it; one that comes twice means the
first of both (as RFC 5545, 3.3.5, has it for the latter). So a later time on the wall is never an
earlier moment.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from service.domain.errors import InvalidInputError

_SECOND = timedelta(seconds=1)


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name.

    Raises:
        InvalidInputError: no zone is called so.
    """
    if name not in available_timezones():
        raise InvalidInputError(
            f"no time zone is called {name[:80]!r}",
            advice="Give an IANA name such as Europe/Berlin or Asia/Shanghai.",
        )
    return ZoneInfo(name)


def moment_at(wall: datetime, zone: ZoneInfo) -> datetime:
    """The moment (UTC) at which clocks in a zone show a time, which has no zone of its own.

    >>> moment_at(datetime(2026, 3, 29, 2, 30), ZoneInfo("Europe/Berlin")).isoformat()
    '2026-03-29T01:00:00+00:00'
    >>> moment_at(datetime(2026, 10, 25, 2, 30), ZoneInfo("Europe/Berlin")).isoformat()
    '2026-10-25T00:30:00+00:00'
    """
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if shown_at(moment, zone) == wall:
        return moment
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change_between(before, moment, zone)


def shown_at(moment: datetime, zone: ZoneInfo) -> datetime:
    """What clocks in a zone show at a moment, without the zone."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _change_between(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The first moment of another offset from UTC, between two that differ in it."""
    old = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + ((after - before) / 2 // _SECOND) * _SECOND
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after
