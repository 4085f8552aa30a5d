"""Holidays as English names them, and what each name means on a calendar.

A name is a time after a preposition, with a year or at an end: not in "Easter eggs", nor in a wish.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from service.memory.search.time.calendar_spans import Calendar, Match, Rule, TimeRange
from service.memory.search.time.english_words import (
    BOUNDS,
    COUNT,
    END,
    NOT_LAST_WEEK,
    YEAR_OR_LAST,
    count_of,
    is_past,
    rule,
    year_of,
)
from service.memory.search.time.holidays import holiday_in, latest_holiday

_LUNAR = r"(?:chinese|lunar)\s+new\s+year"
_NAMES = {
    rf"{_LUNAR}['’]?s\s+eve": "lunar new year's eve",
    rf"{_LUNAR}(?:['’]?s)?(?:\s+day)?": "lunar new year",
    r"spring\s+festival": "lunar new year",
    r"new\s+year['’]?s?\s+eve": "new year's eve",
    r"new\s+year['’]?s?\s+day": "new year's day",
    r"new\s+year(?:['’]?s)?": "new year",
    r"valentine['’]?s?(?:\s+day)?": "valentine",
    r"(?:international\s+)?women['’]?s['’]?\s+day": "women's day",
    r"(?:st|saint)\.?\s+patrick['’]?s?\s+day": "st patrick",
    r"april\s+fool['’]?s?['’]?(?:\s+day)?": "april fools",
    r"good\s+friday": "good friday",
    r"easter\s+sunday": "easter sunday",
    r"easter\s+monday": "easter monday",
    r"easter": "easter",
    r"(?:pentecost|whitsun(?:day)?)": "pentecost",
    r"(?:labour\s+day|may\s+day)": "labour day",
    r"labor\s+day": "labor day",
    r"mother['’]?s['’]?\s+day": "mother's day",
    r"children['’]?s['’]?\s+day": "children's day",
    r"father['’]?s['’]?\s+day": "father's day",
    r"hallowe['’]?en": "halloween",
    r"singles['’]?\s+day": "singles' day",
    r"thanksgiving(?:\s+day)?": "thanksgiving",
    r"(?:christmas|xmas)\s+eve": "christmas eve",
    r"(?:christmas|xmas)\s+day": "christmas day",
    r"(?:christmas|xmas)": "christmas",
    r"boxing\s+day": "boxing day",
    r"lantern\s+festival": "lantern festival",
    r"(?:qing\s?ming(?:\s+festival)?|tomb[\s-]sweeping\s+day)": "qingming",
    r"dragon\s+boat\s+festival": "dragon boat",
    r"(?:qixi(?:\s+festival)?)": "seventh evening",
    r"(?:mid[\s-]autumn(?:\s+festival)?|moon\s+festival)": "mid-autumn",
    r"(?:double\s+ninth(?:\s+festival)?|chongyang)": "double ninth",
}
_READ = {re.compile(pattern, re.IGNORECASE): name for pattern, name in _NAMES.items()}
_HOLIDAY = (
    rf"(?P<holiday>{'|'.join(_NAMES)})(?!\w)"
    r"(?P<break>\s+(?:holidays?|breaks?|vacations?|season|week)(?!\w))?"
)
_THINGS = (
    r"(?!-\w|(?:['’]s)?\s*(?:trees?|presents?|gifts?|cards?|eggs?|bunny|bunnies|island|costumes?|cookies?|"
    r"songs?|carols?|music|movies?|films?|lights|decorations?|sweaters?|jumpers?|resolutions?|"
    r"recipes?|turkey|stockings?|wishes|mooncakes?)(?!\w))"
)


def _holiday(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    whole_break, year = bool(match["break"]), year_of(match, calendar)
    if year is not None:
        return [holiday_in(calendar, _name(match), year, whole_break=whole_break)]
    return [latest_holiday(calendar, _name(match), over=is_past(match), whole_break=whole_break)]


def _before_last(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """the Christmas before last."""
    return [latest_holiday(calendar, _name(match), over=True, back=1)]


def _years_ago(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """two Christmases ago."""
    return [latest_holiday(calendar, _name(match), over=True, back=count_of(match) - 1)]


def _name(match: Match) -> str:
    return next(name for pattern, name in _READ.items() if pattern.fullmatch(match["holiday"]))


ENGLISH_HOLIDAYS: tuple[Rule, ...] = (
    rule(rf"{_HOLIDAY}{_THINGS}{END}", _holiday),
    rule(rf"{_HOLIDAY},?\s+(?:of\s+|in\s+)?{YEAR_OR_LAST}", _holiday),
    rule(
        rf"(?P<year_back>last|this)\s+year(?:['’]s|,?\s+(?:at|on|for|over|during))\s+{_HOLIDAY}"
        rf"{_THINGS}",
        _holiday,
    ),
    rule(
        rf"(?:{BOUNDS}|at|on|in|over|during|around|for)\s+(?:the\s+)?(?P<core>{_HOLIDAY}){_THINGS}",
        _holiday,
    ),
    rule(rf"(?P<which>last|past|this)\s+{_HOLIDAY}{_THINGS}", _holiday),
    rule(rf"(?:the\s+)?{_HOLIDAY}\s+before\s+last{NOT_LAST_WEEK}", _before_last),
    rule(rf"{COUNT}\s+(?P<holiday>{'|'.join(_NAMES)})(?:e?s)?\s+ago\b", _years_ago),
)
