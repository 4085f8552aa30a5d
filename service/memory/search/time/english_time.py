"""English time expressions: patterns, and what each means on a calendar.

"May", "march", "second", "fall" and "Sunday best" are words first: a bare name is a time only
after a preposition, beside a number or at an end. Where a pattern has to hold the preposition, the
group ``core`` is the expression itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from service.memory.search.time.calendar_spans import (
    DAY_PARTS,
    Calendar,
    Match,
    Meaning,
    Rule,
    TimeRange,
    day_or_part,
)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "couple of": 2,
    "a couple of": 2,
    "three": 3,
    "few": 3,
    "a few": 3,
    "four": 4,
    "several": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}
_PARTS = {part: part for part in DAY_PARTS}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}

_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?(?!\w)"
)
_WEEKDAY = (
    r"(?P<weekday>mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|"
    r"sat(?:urday)?|sun(?:day)?)(?!\w)"
)
_FULL_WEEKDAY = r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)(?!\w)"
_DAY = r"(?P<day>[0-3]?\d)(?P<ordinal>st|nd|rd|th)?(?!\w)"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\w|[.,]\d)"
_COUNT = (
    r"(?P<count>\d{1,4}|a\s+couple\s+of|couple\s+of|a\s+few|few|several|an?|one|two|three|four|"
    r"five|six|seven|eight|nine|ten|eleven|twelve)"
)
_UNIT = r"(?P<unit>minute|hour|day|week|month|year)s?"
_SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
_PART = r"(?P<part>morning|noon|afternoon|evening|night)"
_BOUNDS = r"(?:since|until|till|before|after|by|from|between|to|and|through)"
_WHEN = rf"(?:{_BOUNDS}|on|in|during|of|around)"
_END = r"(?=['’]s\b|\s*(?:[?.!,;:)]|$|and\b|or\b|in\b|at\b|on\b|to\b|until\b|till\b|-|–))"
_COUNTED = (  # "in 2000 words" names no year
    r"(?!\s*(?:words?|steps?|miles?|km|m|kg|g|ms|s|seconds?|minutes?|hours?|days?|people|pieces?|"
    r"dollars?|euros?|yuan|lines?|tokens?|bytes?|[kmg]b|%|calories|meters?|feet|pages?|items?)\b)"
)


def _rule(pattern: str, meaning: Meaning) -> Rule:
    return re.compile(rf"(?<![\w-]){pattern}", re.IGNORECASE), meaning


def _count(match: Match) -> int:
    word = " ".join(match["count"].lower().split())
    return int(word) if word.isdigit() else _NUMBERS[word]


def _month(match: Match) -> int:
    return _MONTHS.index(match["month"].lower()[:3]) + 1


def _weekday(match: Match) -> int:
    return _WEEKDAYS.index(match["weekday"].lower()[:3])


def _in_part(match: Match, day: TimeRange, calendar: Calendar) -> Sequence[TimeRange]:
    return day_or_part(match, day, calendar, _PARTS)


def _today(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    word = match["word"].lower()
    back = 0 if word in ("today", "this", "tonight") else 1 if word == "yesterday" else 2
    day = calendar.days(calendar.today - timedelta(days=back))
    return [calendar.part(day, "night")] if word == "tonight" else _in_part(match, day, calendar)


def _relative(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """last week, this month, past year, last weekend."""
    offset = 0 if match["which"].lower() in ("this", "current") else -1
    match match["what"].lower():
        case "week":
            return [calendar.week(offset)]
        case "weekend":
            if offset == 0:
                return [calendar.latest_weekend()]
            begun = calendar.today.weekday() >= 5
            return [calendar.weekend(-1) if begun else calendar.latest_weekend()]
        case "month":
            return [calendar.month_from_now(offset)]
        case "quarter":
            quarter = calendar.today.year * 4 + (calendar.today.month - 1) // 3 + offset
            return [calendar.month(quarter // 4, quarter % 4 * 3 + 1, 3)]
        case _:
            return [calendar.year(calendar.today.year + offset)]


def _named_weekday(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    which = (match.groupdict().get("which") or "").lower()
    day = calendar.latest_weekday(_weekday(match), or_today=which not in ("last", "past"))
    return _in_part(match, day, calendar)


def _named_month(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    last = (match.groupdict().get("which") or "").lower() in ("last", "past")
    return [calendar.latest_month(_month(match), or_present=not last)]


def _season(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    last = (match.groupdict().get("which") or "").lower() in ("last", "past", "previous")
    return [calendar.latest_season(match["season"].lower(), or_present=not last)]


def _day_of_month(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    month, day, year = _month(match), int(match["day"]), match.groupdict().get("year")
    if year:
        return [calendar.days(date(int(year), month, day))]
    return [calendar.latest_day(month, day)]


def _slashes(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """5/7/2023 is one day in America and another elsewhere: both."""
    one, two, year = int(match["one"]), int(match["two"]), int(match["year"])
    pairs = dict.fromkeys([(one, two), (two, one)])
    return [
        calendar.days(date(year, month, day))
        for month, day in pairs
        if 1 <= month <= 12 and 1 <= day <= 31
    ]


def _iso(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    year, month, day = int(match["year"]), int(match["m"]), match["day"]
    return [calendar.days(date(year, month, int(day))) if day else calendar.month(year, month)]


def _quarter(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    number = match["number"].lower()
    quarter = int(number) if number.isdigit() else _ORDINALS[number]
    return [calendar.month(int(match["year"]), quarter * 3 - 2, 3)]


_LAST = r"(?P<which>last|past|previous|this|current)"

ENGLISH: tuple[Rule, ...] = (
    _rule(r"(?P<word>today|tonight|yesterday)(?!\w)", _today),
    _rule(rf"(?P<word>yesterday)\s+{_PART}\b", _today),
    _rule(r"(?:the\s+)?(?P<word>day)\s+before\s+yesterday\b", _today),
    _rule(rf"(?P<word>this)\s+{_PART}\b", _today),
    _rule(r"earlier\s+(?P<word>today)\b", _today),
    _rule(r"last\s+night\b", lambda match, calendar: [calendar.last_night()]),
    _rule(rf"{_COUNT}\s+{_UNIT}\s+ago\b", lambda m, c: [c.ago(_count(m), m["unit"].lower())]),
    _rule(r"half\s+an?\s+hour\s+ago\b", lambda m, c: [c.ago(30, "minute")]),
    _rule(r"half\s+a\s+year\s+ago\b", lambda m, c: [c.ago(6, "month")]),
    _rule(
        rf"(?:last|past|previous)\s+{_COUNT}\s+{_UNIT}\b",
        lambda m, c: [c.past(_count(m), m["unit"].lower())],
    ),
    _rule(rf"{_LAST}\s+(?P<what>week|weekend|month|quarter|year)\b", _relative),
    _rule(r"(?:at|on|over|during)\s+the\s+weekend\b", lambda m, c: [c.latest_weekend()]),
    _rule(rf"(?P<which>last|past|this)\s+{_WEEKDAY}(?:\s+{_PART}\b)?", _named_weekday),
    _rule(
        rf"(?<=\b[oO]n\s){_WEEKDAY}(?:\s+{_PART}\b)?(?!\s+(?:best|nights|league)\b)", _named_weekday
    ),
    _rule(rf"{_BOUNDS}\s+(?P<core>{_FULL_WEEKDAY})", _named_weekday),
    _rule(rf"{_FULL_WEEKDAY}\s+{_PART}\b(?!\s+(?:lights|live))", _named_weekday),
    _rule(rf"{_FULL_WEEKDAY}{_END}", _named_weekday),
    _rule(rf"(?<=\b[iI]n\s){_MONTH}(?!['’]|\s+\d)", _named_month),
    _rule(rf"(?<=\b[oO]f\s){_MONTH}(?=\s*[?.!,]|\s*$)", _named_month),
    _rule(
        rf"(?:{_BOUNDS}|during|early|late|mid)[\s-]+(?P<core>{_MONTH}){_END}",
        _named_month,
    ),
    _rule(rf"(?P<which>last|past|this)\s+{_MONTH}(?!['’])", _named_month),
    _rule(rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}", lambda m, c: [c.month(int(m["year"]), _month(m))]),
    _rule(rf"{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}", _day_of_month),
    _rule(rf"{_MONTH}\s+(?:the\s+)?{_DAY},?\s+{_YEAR}", _day_of_month),
    _rule(rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}", _day_of_month),
    _rule(
        r"(?:(?=(?!may|mar)\w)|(?<=\bon\s)|(?=\w+\s+(?:the\s+)?\d+(?:st|nd|rd|th)\b))"
        rf"{_MONTH}\s+(?:the\s+)?{_DAY}",
        _day_of_month,
    ),
    _rule(rf"{_MONTH}\s+{_DAY}{_END}", _day_of_month),
    _rule(rf"(?P<which>last|past|previous|this)\s+{_SEASON}\b", _season),
    _rule(rf"(?:in|over|during)\s+the\s+{_SEASON}\b", _season),
    _rule(
        rf"{_SEASON}\s+(?:of\s+)?{_YEAR}",
        lambda m, c: [c.season(m["season"].lower(), int(m["year"]))],
    ),
    _rule(
        rf"{_WHEN}\s+(?:the\s+year\s+)?(?P<core>{_YEAR}){_COUNTED}",
        lambda m, c: [c.year(int(m["year"]))],
    ),
    _rule(rf"q(?P<number>[1-4])\s+{_YEAR}", _quarter),
    _rule(rf"(?P<number>first|second|third|fourth)\s+quarter\s+of\s+{_YEAR}", _quarter),
    _rule(
        r"(?P<year>(?:19|20)\d\d)(?P<s>[-/.])(?P<m>\d\d?)(?:(?P=s)(?P<day>\d\d?))?(?![\d-])", _iso
    ),
    _rule(r"(?P<one>\d\d?)[/.](?P<two>\d\d?)[/.](?P<year>(?:19|20)\d\d)(?!\d)", _slashes),
)
