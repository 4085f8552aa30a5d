"""Stretches of the calendar as seen from a moment: days, weeks, months, seasons, parts of a day.

Days are reckoned on the wall clock of the moment's own zone, so that a day of 23 or 25 hours is
one day. Weeks begin on Monday; seasons are those of the northern half (spring: March to May);
winter belongs to the year in which it begins. What is ambiguous is taken as past.

People mean stretches where they count roughly, too: "a few days ago" is two to five days ago, "the
other day" one of the last fourteen, "this time last year" a month around the day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, NamedTuple


class TimeRange(NamedTuple):
    """From `since` up to, and without, `until`; both know their time zone."""

    since: datetime
    until: datetime


DAY_PARTS = {
    "morning": (5, 12),
    "noon": (11, 14),
    "afternoon": (12, 18),
    "evening": (17, 24),
    "night": (18, 30),
    "small hours": (0, 6),
}
"""Hours from the day's midnight; past 24: in the next day."""

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month in which each begins; it has three."""

Portion = Literal["early", "mid", "late", "beginning", "end"]

_MONTHS_OF_YEAR: dict[Portion, tuple[int, int]] = {
    "early": (0, 4),
    "mid": (4, 4),
    "late": (8, 4),
    "beginning": (0, 2),
    "end": (10, 2),
}
_PLACES: dict[Portion, int] = {"early": 0, "beginning": 0, "mid": 1, "late": 2, "end": 2}
_DAYS_OF_WEEK = ((0, 2), (2, 2), (4, 3))
_AROUND_THIS_TIME = {"week": 1, "month": 3, "year": 15}
_DAY = timedelta(days=1)


class Calendar:
    """The calendar around a moment.

    Raises:
        ValueError: a date that does not exist was asked for.
        OverflowError: one so far away that no date can tell it.
    """

    def __init__(self, now: datetime) -> None:
        """Stand at `now`, which has a time zone."""
        self.now = now
        self.today = now.date()

    def days(self, first: date, count: int = 1) -> TimeRange:
        """So many days from `first` on."""
        return TimeRange(self._midnight(first), self._midnight(first + count * _DAY))

    def ago(self, count: int, unit: str) -> TimeRange:
        """The hour, day, week, month or year that was so many of them ago."""
        match unit:
            case "minute" | "hour":
                seconds = count * (60 if unit == "minute" else 3600)
                # Over UTC: adding to a wall clock goes wrong where the clocks are changed.
                at = (self.now.astimezone(UTC) - timedelta(seconds=seconds)).astimezone(
                    self.now.tzinfo
                )
                around = timedelta(minutes=30 if unit == "hour" else 5)
                return TimeRange(at - around, at + around)
            case "day":
                return self.days(self.today - count * _DAY)
            case "week":
                return self.week(-count)
            case "month":
                return self.month_from_now(-count)
            case _:
                return self.year(self.today.year - count)

    def some_ago(self, fewest: int, most: int, unit: str) -> TimeRange:
        """From the hour, day, week, month or year so many of them ago to that fewer ago."""
        return TimeRange(self.ago(most, unit).since, self.ago(fewest, unit).until)

    def before_today(self, count: int) -> TimeRange:
        """The last so many days, without today."""
        return self.days(self.today - count * _DAY, count)

    def this_time(self, unit: str) -> TimeRange:
        """What is about as far in the last week, month or year as today is in the present one."""
        last = (
            self.today - 7 * _DAY
            if unit == "week"
            else _months_later(self.today, -12 if unit == "year" else -1)
        )
        around = _AROUND_THIS_TIME[unit]
        return self.days(last - around * _DAY, 2 * around + 1)

    def past(self, count: int, unit: str) -> TimeRange:
        """The last so many hours, days, weeks, months or years, up to now."""
        until = self.now + timedelta(minutes=1)
        if unit in ("minute", "hour"):
            return TimeRange(self.ago(count, unit).since, until)
        if unit in ("day", "week"):
            first = self.today - count * (7 if unit == "week" else 1) * _DAY
            return TimeRange(self._midnight(first), until)
        months = count * (12 if unit == "year" else 1)
        return TimeRange(self._midnight(_months_later(self.today, -months)), until)

    def week(self, offset: int) -> TimeRange:
        """A whole week: 0 is the present one."""
        return self.days(self._monday() + 7 * offset * _DAY, 7)

    def weekend(self, offset: int) -> TimeRange:
        """Saturday and Sunday of a week: 0 is the present one."""
        return self.days(self._monday() + (7 * offset + 5) * _DAY, 2)

    def latest_weekend(self) -> TimeRange:
        """The weekend that has begun last."""
        return self.weekend(0 if self.today.weekday() >= 5 else -1)

    def weekends_ago(self, count: int) -> TimeRange:
        """1 is the last weekend before the present one, or before this week."""
        return self.weekend(-count)

    def weekday(self, weekday: int, week: int) -> TimeRange:
        """A day of a week: Monday is 0; the present week is 0."""
        return self.days(self._monday() + (7 * week + weekday) * _DAY)

    def latest_weekday(self, weekday: int, *, or_today: bool, weeks: int = 0) -> TimeRange:
        """The last such day before today, or today; or that so many weeks before."""
        back = (self.today.weekday() - weekday) % 7
        return self.days(self.today - ((back or (0 if or_today else 7)) + 7 * weeks) * _DAY)

    def month(self, year: int, month: int, count: int = 1) -> TimeRange:
        """So many months from one on."""
        return self._months(date(year, month, 1), count)

    def month_from_now(self, offset: int) -> TimeRange:
        """A whole month: 0 is the present one."""
        first = _months_later(self.today.replace(day=1), offset)
        return self.month(first.year, first.month)

    def latest_month(self, month: int, *, or_present: bool = True) -> TimeRange:
        """The last such month, or the present one."""
        past = month < self.today.month or (or_present and month == self.today.month)
        return self.month(self.today.year - (0 if past else 1), month)

    def latest_day_of_month(self, day: int) -> TimeRange:
        """The last day of that number, or today: the 31st may be two months ago.

        Raises:
            ValueError: no month has such a day.
        """
        for back in range(3):
            first = _months_later(self.today.replace(day=1), -back)
            last = (_months_later(first, 1) - _DAY).day
            if 1 <= day <= last and first.replace(day=day) <= self.today:
                return self.days(first.replace(day=day))
        raise ValueError(f"no month has a day {day}")

    def latest_day(self, month: int, day: int) -> TimeRange:
        """The last such date, or today: 29 February may be years ago.

        Raises:
            ValueError: no month has such a day.
        """
        for year in range(self.today.year, self.today.year - 9, -1):
            try:
                latest = date(year, month, day)
            except ValueError:
                continue
            if latest <= self.today:
                return self.days(latest)
        raise ValueError(f"there is no {month}-{day}")

    def year(self, year: int) -> TimeRange:
        """A whole year."""
        return self.month(year, 1, 12)

    def season(self, name: str, year: int) -> TimeRange:
        """A season; winter is that which begins in this year."""
        return self.month(year, SEASONS[name], 3)

    def latest_season(self, name: str, *, or_present: bool) -> TimeRange:
        """The last such season that is over, or the present one."""
        latest = self.season(name, self.today.year)
        while (latest.since if or_present else latest.until) > self.now:
            latest = self.season(name, latest.since.year - 1)
        return latest

    def part(self, days: TimeRange, part: str) -> TimeRange:
        """A part of the first day of a stretch."""
        first, last = DAY_PARTS[part]
        return TimeRange(self._hour(days.since.date(), first), self._hour(days.since.date(), last))

    def portion(self, stretch: TimeRange, which: Portion) -> TimeRange:
        """The early, middle or late part of a year, season, quarter, month or week.

        Of a year they are four months each, but its beginning and its end two; of a month ten days,
        as in Chinese. A stretch of another length is given as it is.
        """
        first = stretch.since.date()
        length = (stretch.until.date() - first).days
        place = _PLACES[which]
        match length:
            case 365 | 366:
                months, count = _MONTHS_OF_YEAR[which]
                return self._months(_months_later(first, months), count)
            case 89 | 90 | 91 | 92:
                return self._months(_months_later(first, place), 1)
            case 28 | 29 | 30 | 31:
                third = first + 10 * place * _DAY
                return TimeRange(
                    self._midnight(third),
                    stretch.until if place == 2 else self._midnight(third + 10 * _DAY),
                )
            case 7:
                days, count = _DAYS_OF_WEEK[place]
                return self.days(first + days * _DAY, count)
            case _:
                return stretch

    def a_year_before(self, stretch: TimeRange) -> TimeRange:
        """The same dates a year earlier; of 29 February, the 28th."""
        return TimeRange(*(self._midnight(_months_later(each.date(), -12)) for each in stretch))

    def last_night(self) -> TimeRange:
        """From yesterday's evening to this morning."""
        yesterday = self.today - _DAY
        return TimeRange(self._hour(yesterday, 18), self._hour(self.today, 6))

    def _months(self, first: date, count: int) -> TimeRange:
        return TimeRange(self._midnight(first), self._midnight(_months_later(first, count)))

    def _monday(self) -> date:
        return self.today - self.today.weekday() * _DAY

    def _midnight(self, day: date) -> datetime:
        return self._hour(day, 0)

    def _hour(self, day: date, hour: int) -> datetime:
        day += hour // 24 * _DAY
        return datetime.combine(day, time(hour % 24), tzinfo=self.now.tzinfo)


Match = re.Match[str]
Meaning = Callable[[Match, Calendar], Sequence[TimeRange]]
"""What a time expression may mean; raises as `Calendar` does."""
Rule = tuple[re.Pattern[str], Meaning]
"""How a language says something of the calendar."""


def day_or_part(
    match: Match, day: TimeRange, calendar: Calendar, parts: Mapping[str, str]
) -> Sequence[TimeRange]:
    """A day, or the part of it that the group ``part`` names; `parts` has those of `DAY_PARTS`."""
    part = match.groupdict().get("part")
    return [calendar.part(day, parts[part.lower()]) if part else day]


def _months_later(day: date, months: int) -> date:
    """The same day of another month, or that month's last."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    following = date(year + (month == 11), (month + 1) % 12 + 1, 1)
    last = (following - _DAY).day
    return date(year, month + 1, min(day.day, last))
