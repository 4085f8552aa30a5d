"""When holidays are: fixed days, computed ones, and those of the Chinese calendar.

A holiday is meant with its days: "at Christmas" is Christmas Eve to the 26th, 春节 the eve to the
seventh day. Countries differ: Thanksgiving and Labor Day are those of the United States, 国庆 and
五一 those of China, and Mother's and Father's Day those of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from service.memory.search.time.calendar_spans import Calendar, TimeRange
from service.memory.search.time.lunar_festivals import festivals

_SUNDAY, _MONDAY, _THURSDAY = 6, 0, 3


class Holiday(NamedTuple):
    """A day of each year, and the days around it that are meant as well."""

    day: Callable[[int], date]
    """Of a year; raises ValueError where that is not known."""
    before: int = 0
    after: int = 0
    break_before: int = 2
    """Where its break is named: a weekend may lie on either side."""
    break_after: int = 2


def easter(year: int) -> date:
    """Easter Sunday of the western churches, by the anonymous algorithm of 1876 (Meeus,
    "Astronomical Algorithms", chapter 8).

    >>> [easter(year).isoformat() for year in (1961, 2000, 2026)]
    ['1961-04-02', '2000-04-23', '2026-04-05']
    """
    a, (b, c) = year % 19, divmod(year, 100)
    (d, e), g = divmod(b, 4), (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    weekday = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 19 * weekday) // 433
    month = (h + weekday - 7 * m + 90) // 25
    return date(year, month, (h + weekday - 7 * m + 33 * month + 19) % 32)


def qingming(year: int) -> date:
    """The solar term 清明, by the usual formula for 1900 to 2099 (as lunar_python 1.4.8 for 1970 to
    2080).

    Raises:
        ValueError: a year that the formula is not for.
    """
    if not 1900 <= year < 2100:
        raise ValueError(f"no formula for {year}")
    in_century = year % 100
    constant = 4.81 if year >= 2000 else 5.59
    return date(year, 4, int(in_century * 0.2422 + constant) - in_century // 4)


def _fixed(month: int, day: int) -> Callable[[int], date]:
    return lambda year: date(year, month, day)


def _nth(month: int, weekday: int, number: int) -> Callable[[int], date]:
    """The first such day of a month, or the second…"""

    def of_year(year: int) -> date:
        first = date(year, month, 1)
        return first + timedelta((weekday - first.weekday()) % 7 + 7 * (number - 1))

    return of_year


def _from_easter(days: int) -> Callable[[int], date]:
    return lambda year: easter(year) + timedelta(days)


def _from_lunar_new_year(days: int) -> Callable[[int], date]:
    return lambda year: festivals(year).new_year + timedelta(days)


HOLIDAYS: Mapping[str, Holiday] = {
    "new year": Holiday(_fixed(1, 1), before=1),
    "new year's day": Holiday(_fixed(1, 1)),
    "valentine": Holiday(_fixed(2, 14)),
    "women's day": Holiday(_fixed(3, 8)),
    "st patrick": Holiday(_fixed(3, 17)),
    "april fools": Holiday(_fixed(4, 1)),
    "good friday": Holiday(_from_easter(-2)),
    "easter": Holiday(easter, before=2, after=1),
    "easter sunday": Holiday(easter),
    "easter monday": Holiday(_from_easter(1)),
    "pentecost": Holiday(_from_easter(49), after=1),
    "labour day": Holiday(_fixed(5, 1), break_before=0, break_after=4),
    "labor day": Holiday(_nth(9, _MONDAY, 1)),
    "mother's day": Holiday(_nth(5, _SUNDAY, 2)),
    "children's day": Holiday(_fixed(6, 1)),
    "father's day": Holiday(_nth(6, _SUNDAY, 3)),
    "teachers' day": Holiday(_fixed(9, 10)),
    "national day": Holiday(_fixed(10, 1), break_before=0, after=6, break_after=6),
    "halloween": Holiday(_fixed(10, 31)),
    "singles' day": Holiday(_fixed(11, 11)),
    "thanksgiving": Holiday(_nth(11, _THURSDAY, 4), break_before=1, break_after=3),
    "christmas": Holiday(_fixed(12, 25), before=1, after=1, break_before=2, break_after=7),
    "christmas eve": Holiday(_fixed(12, 24)),
    "christmas day": Holiday(_fixed(12, 25)),
    "boxing day": Holiday(_fixed(12, 26)),
    "new year's eve": Holiday(_fixed(12, 31)),
    "lunar new year's eve": Holiday(_from_lunar_new_year(-1)),
    "lunar new year": Holiday(
        _from_lunar_new_year(0), before=1, after=6, break_before=1, break_after=6
    ),
    "lantern festival": Holiday(_from_lunar_new_year(14)),
    "qingming": Holiday(qingming),
    "dragon boat": Holiday(lambda year: festivals(year).dragon_boat),
    "seventh evening": Holiday(lambda year: festivals(year).seventh_evening),
    "mid-autumn": Holiday(lambda year: festivals(year).mid_autumn),
    "double ninth": Holiday(lambda year: festivals(year).double_ninth),
}
"""By the names that the languages share."""


def holiday_in(
    calendar: Calendar, name: str, year: int, *, whole_break: bool = False, day_alone: bool = False
) -> TimeRange:
    """A holiday of one year.

    Args:
        calendar: to reckon with.
        name: see `HOLIDAYS`.
        year: in which it is; that of New Year's Eve is the one that ends.
        whole_break: with the free days around it.
        day_alone: the day itself, whatever is usually meant with it.

    Raises:
        ValueError: it is not known when it was in that year.
    """
    holiday = HOLIDAYS[name]
    before, after = holiday.before, holiday.after
    if whole_break:
        before, after = holiday.break_before, holiday.break_after
    if day_alone:
        before = after = 0
    first = holiday.day(year) - timedelta(before)
    return calendar.days(first, before + 1 + after)


def latest_holiday(
    calendar: Calendar,
    name: str,
    *,
    over: bool = False,
    back: int = 0,
    whole_break: bool = False,
    day_alone: bool = False,
) -> TimeRange:
    """The last one that has begun.

    Args:
        calendar: to reckon with.
        name: see `HOLIDAYS`.
        over: the last one that has ended.
        back: or that so many years before.
        whole_break: see `holiday_in`.
        day_alone: see `holiday_in`.

    Raises:
        ValueError: it is not known when it was.
    """
    year = calendar.today.year
    if name.startswith("new year"):
        year += 1  # what is around it begins in December
    while True:
        latest = holiday_in(calendar, name, year, whole_break=whole_break, day_alone=day_alone)
        if (latest.until if over else latest.since) <= calendar.now:
            break
        year -= 1
    return holiday_in(calendar, name, year - back, whole_break=whole_break, day_alone=day_alone)
