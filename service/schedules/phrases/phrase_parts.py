"""The parts of a phrase that tells a time to come, and how they are found in it.

Each pattern takes its words out of the phrase; a phrase of which words are left over was not
understood, and is refused rather than read in part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Literal

from service.domain.errors import InvalidInputError
from service.schedules.recurrence import Unit

PartOfDay = Literal["am", "pm", "early", "morning", "noon", "afternoon", "evening", "night"]
Side = Literal["", "this", "next"]
EXAMPLES = (
    "Say it such as “tomorrow at 9”, “in 20 minutes”, “every weekday at 8”, “every first of the"
    " month at 10”, 明天早上九点 or 每周一早上九点."
)


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day as it was said."""

    hour: int
    minute: int = 0
    part: PartOfDay | None = None
    exact: bool = False
    """Whether it counts from 0 to 24, as 03:30 does, and 3:30 does not."""


@dataclass(slots=True)
class Parts:
    """What was found in a phrase so far."""

    moment: datetime | None = None
    offset: timedelta | None = None
    day_offset: int | None = None
    month_offset: int | None = None
    at_this_time: bool = False
    """Whether the time of day is that of now, where none is said."""
    day: date | None = None
    week: Side = ""
    repeats: bool = False
    every: int = 1
    unit: Unit | None = None
    weekdays: list[int] = field(default_factory=list)
    nth: int | None = None
    month_days: list[int] = field(default_factory=list)
    months: list[int] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    midnight: bool = False
    part: PartOfDay | None = None
    """Of the day, where that was said apart from a time."""
    places: list[tuple[int, str]] = field(default_factory=list)
    """Where weekdays and times stood."""


_LONGEST_NUMBER = 4
"""In digits."""

Take = Callable[[re.Match[str], Parts], object]
Rule = tuple[re.Pattern[str], Take]


def take_apart(phrase: str, rules: Sequence[Rule], fillers: re.Pattern[str]) -> Parts:
    """The parts of a phrase.

    Args:
        phrase: in small letters.
        rules: what takes which words out of it, in this order.
        fillers: words that tell nothing.

    Raises:
        InvalidInputError: words are left over.
    """
    parts = Parts()
    rest = phrase
    for pattern, take in rules:

        def taken(match: re.Match[str], take: Take = take) -> str:
            take(match, parts)
            return "\x00" * len(match[0])  # so that what stands on either side stays apart

        rest = pattern.sub(taken, rest)
    left = " ".join(fillers.sub(" ", rest.replace("\x00", " ")).split())
    if left.isdecimal():
        number = left[:20]
        raise InvalidInputError(
            f"whether {number} is a time is not said",
            advice=f"Say “at {number}”, “{number}am” or “{number}:00” ({number}点).",
        )
    if left:
        raise InvalidInputError(f"of {phrase!r} this was not understood: {left!r}", advice=EXAMPLES)
    _each_day_at_one_time(parts)
    return parts


def whole_number(digits: str) -> int:
    """A number that was written in digits.

    Raises:
        InvalidInputError: it is larger than any that a time is told by.

    >>> whole_number("20")
    20
    """
    if len(digits) > _LONGEST_NUMBER:
        raise InvalidInputError(
            f"{digits[:20]} is too large a number", advice="Say a time within twenty years."
        )
    return int(digits)


def calendar_day(year: int, month: int, day: int) -> date:
    """A day by its numbers.

    Raises:
        InvalidInputError: no calendar has it.
    """
    try:
        return date(year, month, day)
    except ValueError as error:
        raise InvalidInputError(
            f"there is no {year}-{month:02}-{day:02}", advice="Say a day that the calendar has."
        ) from error


def _each_day_at_one_time(parts: Parts) -> None:
    kinds = [kind for _, kind in sorted(parts.places)]
    runs = [kind for index, kind in enumerate(kinds) if index == 0 or kinds[index - 1] != kind]
    if len(runs) > 2:
        raise InvalidInputError(
            "different days have different times",
            advice="Make one of each: “every Monday at 9”, and “every Thursday at 10”.",
        )
