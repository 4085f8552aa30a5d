"""English phrases for a time to come."""

from __future__ import annotations

import re
from datetime import timedelta

from service.domain.errors import InvalidInputError
from service.schedules.phrases.phrase_parts import (
    Clock,
    PartOfDay,
    Parts,
    Rule,
    Side,
    Take,
    calendar_day,
    whole_number,
)
from service.schedules.recurrence import LAST, WEEKEND, WORKDAYS, Unit

_NUMBERS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
    "twenty",
)
_VALUES = {word: number for number, word in enumerate(_NUMBERS, 1)} | {
    "a": 1, "an": 1, "other": 2, "thirty": 30, "forty": 40, "forty-five": 45, "ninety": 90,
}  # fmt: skip
_ORDINALS = {
    word: number for number, word in enumerate(("first", "second", "third", "fourth", "fifth"), 1)
} | {"last": LAST}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PARTS: dict[str, PartOfDay] = {
    "am": "am", "pm": "pm", "morning": "morning", "afternoon": "afternoon", "evening": "evening",
    "night": "night", "tonight": "evening",
}  # fmt: skip
_ADVERBS: dict[str, Unit] = {
    "hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year",
    "annually": "year",
}  # fmt: skip

_WORD = "|".join(sorted(_VALUES.keys() - {"a", "an", "other"}, key=len, reverse=True))
_COUNT = rf"(?P<count>\d+|an?|{_WORD})"
_UNIT = r"(?P<unit>minute|min|hour|hr|day|week|month|year)s?"
_WEEKDAY = (
    r"(?P<weekday>mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|"
    r"sat(?:urday)?|sun(?:day)?)(?P<plural>s?)"
)
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_NTH = rf"(?P<nth>{'|'.join(_ORDINALS)}|\d{{1,2}}(?:st|nd|rd|th))"
_OF_MONTH = r"(?:\s+of\s+(?P<of>the|every|each|a)\s+month)"
_HALF_DAY = r"(?P<half>am|pm)"
_YEAR = r"(?:,?\s+(?P<year>20\d\d))?"


def _unit(written: str) -> Unit:
    units: dict[str, Unit] = {"min": "minute", "hr": "hour"}
    plain: dict[str, Unit] = {
        "minute": "minute", "hour": "hour", "day": "day", "week": "week", "month": "month",
        "year": "year",
    }  # fmt: skip
    return {**units, **plain}[written]


def _number(written: str) -> int:
    return whole_number(written) if written.isdigit() else _VALUES[written]


def _offset(match: re.Match[str], parts: Parts) -> None:
    count = _number(match["count"])
    match _unit(match["unit"]):
        case "minute":
            parts.offset = timedelta(minutes=count)
        case "hour":
            more = match["more"]
            minutes = 0 if not more else 30 if more == "a half" else _number(more)
            parts.offset = timedelta(hours=count, minutes=minutes)
        case "day":
            parts.day_offset = count
            parts.at_this_time = True
        case "week":
            parts.day_offset = 7 * count
            parts.at_this_time = True
        case "month":
            parts.month_offset = count
            parts.at_this_time = True
        case "year":
            parts.month_offset = 12 * count
            parts.at_this_time = True


def _half_hour(match: re.Match[str], parts: Parts) -> None:
    parts.offset = timedelta(minutes=30)


def _every(match: re.Match[str], parts: Parts) -> None:
    parts.repeats = True
    parts.every = _number(match["count"]) if match["count"] else 1
    parts.unit = _unit(match["unit"])


def _adverb(match: re.Match[str], parts: Parts) -> None:
    parts.repeats, parts.unit = True, _ADVERBS[match[0]]


def _repeats(match: re.Match[str], parts: Parts) -> None:
    parts.repeats = True


def _these_days(days: tuple[int, ...]) -> Take:
    def take(match: re.Match[str], parts: Parts) -> None:
        parts.repeats = True
        parts.weekdays += days

    return take


def _nth(written: str) -> int:
    return _ORDINALS[written] if written in _ORDINALS else int(written[:-2])


def _nth_weekday(match: re.Match[str], parts: Parts) -> None:
    parts.nth, parts.unit = _nth(match["nth"]), "month"
    parts.repeats = parts.repeats or match["of"] in ("every", "each")
    _weekday(match, parts)


def _month_day(match: re.Match[str], parts: Parts) -> None:
    parts.month_days.append(_nth(match["nth"]))
    parts.repeats = parts.repeats or match["of"] in ("every", "each")


def _last_day(match: re.Match[str], parts: Parts) -> None:
    parts.month_days.append(LAST)
    parts.repeats = parts.repeats or match["of"] in ("every", "each")


def _date(match: re.Match[str], parts: Parts) -> None:
    month, day = _MONTHS.index(match["month"][:3]) + 1, int(match["day"])
    if match["year"]:
        parts.day = calendar_day(int(match["year"]), month, day)
        return
    parts.months.append(month)
    parts.month_days.append(day)


def _iso_date(match: re.Match[str], parts: Parts) -> None:
    parts.day = calendar_day(*(int(each) for each in match[0].split("-")))


def _weekday(match: re.Match[str], parts: Parts) -> None:
    parts.weekdays.append(_DAYS.index(match["weekday"][:3]))
    parts.repeats = parts.repeats or bool(match["plural"])
    parts.places.append((match.start(), "day"))


def _week(side: Side) -> Take:
    def take(match: re.Match[str], parts: Parts) -> None:
        parts.week = side

    return take


def _day_offset(days: int) -> Take:
    def take(match: re.Match[str], parts: Parts) -> None:
        parts.day_offset = days
        if match[0] == "tonight":
            parts.part = "evening"

    return take


def _clock(match: re.Match[str], parts: Parts) -> None:
    groups = match.groupdict()
    hour, minute = _number(match["hour"]), int(groups.get("minute") or 0)
    part = _PARTS[match["half"].replace(".", "")] if groups.get("half") else None
    exact = bool(groups.get("minute")) and len(match["hour"]) == 2
    parts.clocks.append(Clock(hour, minute, part, exact))
    parts.places.append((match.start(), "time"))


def _clocks(match: re.Match[str], parts: Parts) -> None:
    for each in re.findall(rf"\d{{1,2}}|{_WORD}", match["hours"]):
        parts.clocks.append(Clock(_number(each)))
    parts.places.append((match.start(), "time"))


def _half_past(match: re.Match[str], parts: Parts) -> None:
    parts.clocks.append(Clock(_number(match["hour"]), 30))
    parts.places.append((match.start(), "time"))


def _noon(match: re.Match[str], parts: Parts) -> None:
    parts.midnight = match[0] == "midnight"
    parts.clocks.append(Clock(0 if parts.midnight else 12, exact=True))
    parts.places.append((match.start(), "time"))


def _part(match: re.Match[str], parts: Parts) -> None:
    parts.part = _PARTS[match["part"]]


def _every_part(match: re.Match[str], parts: Parts) -> None:
    parts.repeats, parts.unit = True, "day"
    _part(match, parts)


def _this_part(match: re.Match[str], parts: Parts) -> None:
    parts.day_offset = 0
    _part(match, parts)


def _seconds(match: re.Match[str], parts: Parts) -> None:
    raise InvalidInputError(
        "nothing is done more often, or told more exactly, than by the minute",
        advice="Say it in minutes, such as “every 5 minutes” or “in 2 minutes”.",
    )


def _of_what(match: re.Match[str], parts: Parts) -> None:
    number = match["number"]
    raise InvalidInputError(
        f"every {number[:20]} of what is not said",
        advice="Say “every 2 hours”, or “every 31st at 9” for a day of the month.",
    )


def _slashes(match: re.Match[str], parts: Parts) -> None:
    raise InvalidInputError(
        f"which number of {match[0]} is the month is not clear",
        advice="Say it as “24 December at 9” or “2030-12-24 09:00”.",
    )


def _part_of_hours(match: re.Match[str], parts: Parts) -> None:
    parts.offset = timedelta(minutes=round(60 * float(match["hours"])))


def _rule(pattern: str, take: Take) -> Rule:
    return re.compile(rf"(?<![\w:-])(?:{pattern})(?![\w:-])"), take


_HOUR = rf"(?P<hour>\d{{1,2}}|{_WORD})"
ENGLISH: tuple[Rule, ...] = (
    _rule(r"(?:in|every)\s+(?:\d+|an?|" + _WORD + r")?\s*(?:seconds?|secs?)", _seconds),
    _rule(r"\d{1,2}/\d{1,2}(?:/\d{2,4})?", _slashes),
    _rule(r"in\s+half\s+an\s+hour", _half_hour),
    _rule(r"in\s+(?P<hours>\d{1,3}\.\d{1,2})\s+(?:hours?|hrs?)", _part_of_hours),
    _rule(
        rf"in\s+(?:about\s+)?{_COUNT}\s+{_UNIT}"
        rf"(?:\s+and\s+(?P<more>a\s+half|\d{{1,2}}|{_WORD})(?:\s+min(?:ute)?s?)?)?",
        _offset,
    ),
    _rule(rf"{_COUNT}\s+{_UNIT}\s+from\s+now(?P<more>)", _offset),
    _rule(r"20\d\d-\d\d?-\d\d?", _iso_date),
    _rule(rf"(?:at\s+)?(?P<hour>\d{{1,2}})[:.](?P<minute>[0-5]\d)(?:\s*{_HALF_DAY})?", _clock),
    _rule(rf"(?:at\s+)?(?P<hour>\d{{1,2}})\s*{_HALF_DAY}", _clock),
    _rule(rf"(?:at\s+)?half\s+past\s+{_HOUR}", _half_past),
    _rule(r"(?:at\s+)?(?:noon|midday)", _noon),
    _rule(r"midnight", _noon),
    _rule(
        rf"at\s+(?P<hours>(?:\d{{1,2}}|{_WORD})(?:(?:\s*,\s*|\s+and\s+)(?:\d{{1,2}}|{_WORD}))*)"
        r"(?:\s*o['’]?clock)?(?!\s*(?:st|nd|rd|th|of|" + "|".join(_MONTHS) + r"))",
        _clocks,
    ),
    _rule(rf"{_HOUR}\s+o['’]?clock", _clock),
    _rule(rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH}\.?{_YEAR}", _date),
    _rule(rf"{_MONTH}\.?\s+(?:the\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_YEAR}", _date),
    _rule(rf"(?:last\s+day){_OF_MONTH}", _last_day),
    _rule(rf"{_NTH}\s+{_WEEKDAY}{_OF_MONTH}", _nth_weekday),
    _rule(rf"{_NTH}(?:\s+day)?{_OF_MONTH}", _month_day),
    _rule(r"(?:every|each)\s+(?P<part>morning|afternoon|evening|night)", _every_part),
    _rule(rf"(?:every|each)\s+(?P<count>other|\d+|{_WORD})?\s*{_UNIT}", _every),
    _rule("|".join(_ADVERBS), _adverb),
    _rule(r"(?:every|each)\s+(?:weekday|workday|working\s+day)", _these_days(WORKDAYS)),
    _rule(r"(?:on\s+)?(?:weekdays|workdays|working\s+days)", _these_days(WORKDAYS)),
    _rule(r"(?:every|each)\s+weekend|(?:on\s+)?weekends", _these_days(WEEKEND)),
    _rule(r"(?:every|each)\s+(?P<number>\d+)(?!\s*[\d:.])", _of_what),
    _rule(r"every|each", _repeats),
    _rule(r"(?P<nth>\d{1,2}(?:st|nd|rd|th))(?P<of>)", _month_day),
    _rule(r"next\s+week", _week("next")),
    _rule(rf"next(?=\s+{_WEEKDAY})", _week("next")),
    _rule(rf"(?:this|coming)(?=\s+{_WEEKDAY})", _week("this")),
    _rule(_WEEKDAY, _weekday),
    _rule(r"(?:the\s+)?day\s+after\s+tomorrow", _day_offset(2)),
    _rule(r"tomorrow", _day_offset(1)),
    _rule(r"today|tonight", _day_offset(0)),
    _rule(r"this\s+(?P<part>morning|afternoon|evening)", _this_part),
    _rule(r"(?:in\s+the\s+|at\s+)?(?P<part>morning|afternoon|evening|night)", _part),
)
FILLERS = re.compile(r"(?<!\w)(?:on|and|at|the|o['’]?clock|sharp|of|please|in)(?!\w)|[,.;!]")
