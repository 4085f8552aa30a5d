"""How well the moment of a piece fits what a question says about time.

A preference, never a condition: what was said in May may be written in June.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from service.memory.memory_tuning import LATEST_FIT, TIME_FIT_LEAST_SPAN
from service.memory.search.time.time_expressions import asks_for_latest, times


class Timeliness:
    """The time expressions of one question."""

    def __init__(self, query: str, now: datetime) -> None:
        """Read the question, asked at `now`."""
        ranges = times(query, now)
        self._ranges = [
            (max(since.astimezone(UTC).timestamp(), 0.0), until.astimezone(UTC).timestamp())
            for since, until in ranges
        ]
        self._latest = not ranges and asks_for_latest(query)

    def fits(self, moments: Iterable[float]) -> list[float]:
        """How well each moment fits, 0 to 1.

        Within a stretch that is named it is 1, and falls to 0 over a distance of the stretch's own
        length: "last week" says little of the week before, "in 2022" much of January 2023. Where
        the latest is asked for, it is the place between the oldest and the newest of them, at most
        `LATEST_FIT`.

        Args:
            moments: seconds since 1970.
        """
        moments = list(moments)
        if self._latest:
            return _places(moments)
        return [max((_nearness(at, *each) for each in self._ranges), default=0.0) for at in moments]


def _nearness(at: float, since: float, until: float) -> float:
    away = max(since - at, at - until, 0.0)
    return max(0.0, 1.0 - away / max(until - since, TIME_FIT_LEAST_SPAN))


def _places(moments: list[float]) -> list[float]:
    """By rank and not by age: a minute and a year between two of them tell newer apart alike."""
    ordered = {at: place for place, at in enumerate(sorted(set(moments)))}
    last = max(len(ordered) - 1, 1)
    return [LATEST_FIT * ordered[at] / last if len(ordered) > 1 else 0.0 for at in moments]
