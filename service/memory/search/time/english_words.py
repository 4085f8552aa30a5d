"""What English time expressions are made of: names, numbers, and pieces of patterns.

"May", "march", "second", "fall" and "Sunday best" are words first: a bare name is a time only
after a preposition, beside a number or at an end. Where a pattern has to hold the preposition, the
group ``core`` is the expression itself.
"""

from __future__ import annotations

import re

from service.memory.search.time.calendar_spans import DAY_PARTS, Calendar, Match, Meaning, Rule

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NUMBERS = {
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
    "twenty": 20,
    "thirty": 30,
}
PARTS = {part: part for part in DAY_PARTS}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}

MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?(?!\w)"
)
WEEKDAY = (
    r"(?P<weekday>mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|"
    r"sat(?:urday)?|sun(?:day)?)(?!\w)"
)
FULL_WEEKDAY = r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)(?!\w)"
MONTH_NAMES = MONTH.replace("?P<month>", "?:")
WEEKDAY_NAMES = WEEKDAY.replace("?P<weekday>", "?:")
"""The same, for where the group is another one's."""
DAY = r"(?P<day>[0-3]?\d)(?P<ordinal>st|nd|rd|th)?(?!\w)"
YEAR = r"(?P<year>(?:19|20)\d\d)(?!\w|[.,]\d)"
COUNT = (
    r"(?P<count>\d{1,4}|a\s+couple\s+of|couple\s+of|a\s+few|few|several|an?|one|two|three|four|"
    r"five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty)(?!\w)"
)
UNIT = r"(?P<unit>minute|hour|day|week|month|year)s?"
SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
PART = r"(?P<part>morning|noon|afternoon|evening|night)"
BOUNDS = r"(?:since|until|till|before|after|by|from|between|to|and|through)"
WHEN = rf"(?:{BOUNDS}|on|in|during|of|around)"
END = r"(?=['’]s\b|\s*(?:[?.!,;:)]|$|and\b|or\b|in\b|at\b|on\b|to\b|until\b|till\b|-|–))"
COUNTED = (  # "in 2000 words" names no year
    r"(?!\s*(?:words?|steps?|miles?|km|m|kg|g|ms|s|seconds?|minutes?|hours?|days?|people|pieces?|"
    r"dollars?|euros?|yuan|lines?|tokens?|bytes?|[kmg]b|%|calories|meters?|feet|pages?|items?)\b)"
)
NOT_LAST_WEEK = (
    rf"(?!\s+(?:night|week|month|quarter|year|spring|summer|autumn|fall|winter|christmas|easter|"
    rf"{MONTH_NAMES}|{WEEKDAY_NAMES}))"
)
"""Behind a "last" that is itself what is meant: "the week before last"."""
YEAR_OR_LAST = rf"(?:{YEAR}|(?P<year_back>last|this)\s+year(?!\w))"
"""A year, as it stands behind what is in it: "May 2023", "in May of last year"."""


def rule(pattern: str, meaning: Meaning) -> Rule:
    """A pattern as this language needs it: at the beginning of a word, in either case."""
    return re.compile(rf"(?<![\w-]){pattern}", re.IGNORECASE), meaning


def count_of(match: Match) -> int:
    """How many the group ``count`` says."""
    word = " ".join(match["count"].lower().split())
    return int(word) if word.isdigit() else NUMBERS[word]


def month_of(match: Match) -> int:
    """The month that the group ``month`` names, 1 to 12."""
    return MONTHS.index(match["month"].lower()[:3]) + 1


def weekday_of(match: Match) -> int:
    """The day that the group ``weekday`` names; Monday is 0."""
    return WEEKDAYS.index(match["weekday"].lower()[:3])


def year_of(match: Match, calendar: Calendar) -> int | None:
    """What `YEAR_OR_LAST` found; None where it stands nowhere."""
    groups = match.groupdict()
    if groups.get("year"):
        return int(match["year"])
    if groups.get("year_back"):
        return calendar.today.year - (match["year_back"].lower() == "last")
    return None


def is_past(match: Match) -> bool:
    """Whether the group ``which`` leaves out what still goes on: "last", "past", "previous"."""
    return (match.groupdict().get("which") or "").lower() in ("last", "past", "previous")
