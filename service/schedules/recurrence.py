"""How something recurs, and when it is due: on a calendar in a time zone, or each so many minutes.

A `Recurrence` is a part of what RFC 5545 (3.3.10) calls a recurrence rule: dates of a calendar with
times of day, or a number of minutes or hours from a beginning on. Dates are those of
`dateutil.rrule`, moments those of `service.schedules.wall_clock`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Literal, Self

from dateutil import rrule
from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.domain.errors import InvalidInputError
from service.schedules.wall_clock import moment_at, shown_at, zone_of

Unit = Literal["minute", "hour", "day", "week", "month", "year"]

WORKDAYS = (0, 1, 2, 3, 4)
WEEKEND = (5, 6)
LAST = -1
"""Of days of a month, or of weekdays in it."""
_ELAPSED: dict[Unit, timedelta] = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_FREQUENCY = {
    "day": rrule.DAILY,
    "week": rrule.WEEKLY,
    "month": rrule.MONTHLY,
    "year": rrule.YEARLY,
}
_WEEKDAYS = (rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA, rrule.SU)
_DAY = timedelta(days=1)
_LOOK_AHEAD = timedelta(days=366 * 9)
"""How far the next time can be off: 29 February is left out in 1900 and 2100."""
MOST_TIMES_A_DAY = 24


class Recurrence(BaseModel):
    """Which days of a calendar, and at which times; or each so many minutes or hours."""

    model_config = ConfigDict(frozen=True)

    every: int = Field(default=1, ge=1, le=10_000)
    """Each how many-th minute, hour, day, week, month or year."""
    unit: Unit
    times: tuple[time, ...] = ()
    """Times of day, for what recurs by days and longer."""
    weekdays: tuple[int, ...] = ()
    """0 for Monday; by weeks, or, with `nth`, by months."""
    nth: int | None = Field(default=None, ge=LAST, le=5)
    """Of a month: its how many-th such weekday; -1 for its last."""
    month_days: tuple[int, ...] = ()
    """1 to 31, or -1 for the last; a month that has no such day is left out."""
    months: tuple[int, ...] = ()
    """For what recurs by years."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.unit in _ELAPSED) == bool(self.times):
            raise ValueError("times of day go with days and longer, and these need one")
        if len(self.times) > MOST_TIMES_A_DAY:
            raise ValueError(f"at most {MOST_TIMES_A_DAY} times a day")
        if not all(0 <= each <= 6 for each in self.weekdays):
            raise ValueError("weekdays are 0 to 6")
        if not all(each == LAST or 1 <= each <= 31 for each in self.month_days):
            raise ValueError("days of a month are 1 to 31, or -1")
        if not all(1 <= each <= 12 for each in self.months):
            raise ValueError("months are 1 to 12")
        if not self._names_its_days():
            raise ValueError(f"which days of a {self.unit} is not said")
        return self

    def _names_its_days(self) -> bool:
        match self.unit:
            case "week":
                return bool(self.weekdays) and self.nth is None
            case "month":
                return bool(self.month_days) != (bool(self.weekdays) and self.nth is not None)
            case "year":
                return bool(self.months) and bool(self.month_days)
        return not (self.weekdays or self.month_days)

    @property
    def elapsed(self) -> timedelta | None:
        """The time between two, where that is the same whatever clocks show."""
        step = _ELAPSED.get(self.unit)
        return None if step is None else self.every * step


@dataclass(frozen=True, slots=True)
class Passed:
    """What has come due in a stretch of time."""

    newest: tuple[datetime, ...]
    """In their order; no more than were asked for."""
    older: tuple[datetime, datetime, int] | None
    """Of those before these the first, the last, and how many they are."""


class Timing(BaseModel):
    """When something is due: once, or again and again."""

    model_config = ConfigDict(frozen=True)

    start: datetime
    """The first time that it is due."""
    zone: str
    """The IANA name of the time zone in whose times it was said."""
    recurrence: Recurrence | None = None
    """None: once."""

    @classmethod
    def recurring(cls, recurrence: Recurrence, *, zone: str, now: datetime) -> Self:
        """What recurs, from its first time after now.

        Raises:
            InvalidInputError: there is no such day on any calendar.
        """
        if (step := recurrence.elapsed) is not None:
            start = (now + step).replace(second=0, microsecond=0)
            # Never sooner than was said: what has begun of this minute does not count.
            start = start if start >= now + step else start + timedelta(minutes=1)
            return cls(start=start, zone=zone, recurrence=recurrence)
        # The first is the next such day, also where only each second one counts from there on.
        any_one = recurrence.model_copy(update={"every": 1})
        first = cls(start=now, zone=zone, recurrence=any_one).next_after(now)
        if first is None:
            raise InvalidInputError(
                "no calendar has such a day", advice="Say another one, such as the 28th."
            )
        return cls(start=first, zone=zone, recurrence=recurrence)

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time that it is due after a moment; None: never again."""
        recurrence = self.recurrence
        if recurrence is None:
            return self.start if self.start > moment else None
        if (step := recurrence.elapsed) is not None:
            if self.start > moment:
                return self.start
            return self.start + ((moment - self.start) // step + 1) * step
        calendar = self._calendar(moment, max(moment, self.start) + _LOOK_AHEAD)
        return next((each for each in calendar if each > moment), None)

    def upcoming(self, moment: datetime, count: int) -> list[datetime]:
        """The next times after a moment; fewer where there are no more."""
        times: list[datetime] = []
        while len(times) < count and (due := self.next_after(times[-1] if times else moment)):
            times.append(due)
        return times

    def passed(
        self, first: datetime, until: datetime, *, keep: int, without: Iterable[datetime] = ()
    ) -> Passed:
        """What has come due from one of its times on up to a moment, both included.

        Takes a time in proportion to the days between, and not to what was due on them where it
        recurs by minutes.

        Args:
            first: one of its times.
            until: the moment.
            keep: how many of the newest are told one by one.
            without: times that do not count.
        """
        left_out = frozenset(without)
        if self.recurrence is None:
            return Passed((first,) if first <= until and first not in left_out else (), None)
        if (step := self.recurrence.elapsed) is not None and not left_out:
            count = (until - first) // step + 1 if first <= until else 0
            newest = range(max(0, count - keep), count)
            times = tuple(first + index * step for index in newest)
            older = count - len(times)
            return Passed(times, (first, first + (older - 1) * step, older) if older else None)
        held: deque[datetime] = deque()
        older_ones: tuple[datetime, datetime, int] | None = None
        for due in self._from(first, until):
            if due in left_out:
                continue
            held.append(due)
            if len(held) > keep:
                gone = held.popleft()
                begun = older_ones or (gone, gone, 0)
                older_ones = (begun[0], gone, begun[2] + 1)
        return Passed(tuple(held), older_ones)

    def _from(self, first: datetime, until: datetime) -> Iterator[datetime]:
        """Its times from one of them on, up to a moment."""
        step = self.recurrence.elapsed if self.recurrence else None
        if step is not None:
            while first <= until:
                yield first
                first += step
            return
        for due in self._calendar(first, until + 2 * _DAY):
            if due > until:
                return
            if due >= first:
                yield due

    def _calendar(self, moment: datetime, until: datetime) -> Iterator[datetime]:
        """Its times from about a moment to about another, each once, by the calendar."""
        recurrence, zone = self.recurrence, zone_of(self.zone)
        if recurrence is None:
            return
        around = _midnight(shown_at(moment, zone)) - _DAY
        start = _midnight(shown_at(self.start, zone))
        # Where each one counts, it does not matter from where; else the beginning does.
        begin = max(start, around) if recurrence.every == 1 else start
        newest: datetime | None = None
        for day in _dates(recurrence, begin, shown_at(until, zone)):
            if day < around:
                continue
            for at in sorted(recurrence.times):
                due = moment_at(datetime.combine(day, at), zone)
                # Two times that a change of clocks leaves out are the same moment.
                if (newest is None or due > newest) and due >= self.start:
                    newest = due
                    yield due


def _midnight(wall: datetime) -> datetime:
    return wall.replace(hour=0, minute=0, second=0, microsecond=0)


def _dates(recurrence: Recurrence, begin: datetime, until: datetime) -> Iterator[datetime]:
    weekdays = [_WEEKDAYS[each] for each in recurrence.weekdays]
    if recurrence.nth is not None:
        weekdays = [each(recurrence.nth) for each in weekdays]
    yield from rrule.rrule(
        _FREQUENCY[recurrence.unit],
        dtstart=begin,
        until=until,
        interval=recurrence.every,
        byweekday=weekdays or None,
        bymonthday=recurrence.month_days or None,
        bymonth=recurrence.months or None,
    )
