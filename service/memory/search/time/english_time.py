"""English time expressions: patterns, and what each means on a calendar. Holidays stand apart."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from service.memory.search.time.calendar_spans import (
    Calendar,
    Match,
    Rule,
    TimeRange,
    day_or_part,
)
from service.memory.search.time.english_words import (
    BOUNDS,
    COUNT,
    COUNTED,
    DAY,
    END,
    FULL_WEEKDAY,
    MONTH,
    MONTH_NAMES,
    NOT_LAST_WEEK,
    ORDINALS,
    PART,
    PARTS,
    SEASON,
    UNIT,
    WEEKDAY,
    WEEKDAY_NAMES,
    WHEN,
    YEAR,
    YEAR_OR_LAST,
    count_of,
    is_past,
    month_of,
    rule,
    weekday_of,
    year_of,
)

_FEWEST_AND_MOST = {"few": (2, 5), "a few": (2, 5), "several": (3, 7)}


def _in_part(match: Match, day: TimeRange, calendar: Calendar) -> Sequence[TimeRange]:
    return day_or_part(match, day, calendar, PARTS)


def _today(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    word = match["word"].lower()
    back = 0 if word in ("today", "this", "tonight") else 1 if word == "yesterday" else 2
    day = calendar.days(calendar.today - timedelta(days=back))
    return [calendar.part(day, "night")] if word == "tonight" else _in_part(match, day, calendar)


def _ago(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    unit = match["unit"].lower()
    about = _FEWEST_AND_MOST.get(" ".join(match["count"].lower().split()))
    return [calendar.some_ago(*about, unit) if about else calendar.ago(count_of(match), unit)]


def _named_ago(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """two weekends ago, three Tuesdays ago, two summers ago."""
    return [_last_of(match, calendar, count_of(match) - 1)]


def _before_last(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """the week before last, the Tuesday before last, the summer before last."""
    what = (match["what"] or "").lower()
    return [calendar.ago(2, what) if what else _last_of(match, calendar, 1)]


def _last_of(match: Match, calendar: Calendar, back: int) -> TimeRange:
    """The last weekend, weekday or season, or that so many before."""
    if match["season"]:
        season = calendar.latest_season(match["season"].lower(), or_present=False)
        return calendar.season(match["season"].lower(), season.since.year - back)
    if match["weekday"]:
        return calendar.latest_weekday(weekday_of(match), or_today=False, weeks=back)
    return calendar.weekends_ago(1 + back)


def _relative(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """last week, this month, past year, last weekend."""
    offset = 0 if match["which"].lower() in ("this", "current") else -1
    match match["what"].lower():
        case "week":
            return [calendar.week(offset)]
        case "weekend":
            return [calendar.weekends_ago(1) if offset else calendar.latest_weekend()]
        case "month":
            return [calendar.month_from_now(offset)]
        case "quarter":
            quarter = calendar.today.year * 4 + (calendar.today.month - 1) // 3 + offset
            return [calendar.month(quarter // 4, quarter % 4 * 3 + 1, 3)]
        case _:
            return [calendar.year(calendar.today.year + offset)]


def _earlier(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    (whole,) = _relative(match, calendar)
    return [TimeRange(whole.since, calendar.now)]


def _named_weekday(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    day = calendar.latest_weekday(weekday_of(match), or_today=not is_past(match))
    return _in_part(match, day, calendar)


def _named_month(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return [calendar.latest_month(month_of(match), or_present=not is_past(match))]


def _month_of_year(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    year = year_of(match, calendar)
    return [calendar.month(year, month_of(match))] if year is not None else []


def _season(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    name, year = match["season"].lower(), year_of(match, calendar)
    if year is not None:
        return [calendar.season(name, year)]
    return [calendar.latest_season(name, or_present=not is_past(match))]


def _day_of_month(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    month, day, year = month_of(match), int(match["day"]), year_of(match, calendar)
    if year is not None:
        return [calendar.days(date(year, month, day))]
    return [calendar.latest_day(month, day)]


def _days_of_month(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """3 to 9 May 2024."""
    (last,) = _day_of_month(match, calendar)
    first = last.since.date().replace(day=int(match["first"]))
    return [TimeRange(calendar.days(first).since, last.until)] if first < last.since.date() else []


def _day_alone(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """the 8th, the 8th of last month."""
    day, which = int(match["day"]), (match.groupdict().get("which") or "").lower()
    if not which:
        return [calendar.latest_day_of_month(day)]
    month = calendar.month_from_now(-1 if which == "last" else 0)
    return [calendar.days(month.since.date().replace(day=day))]


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
    quarter = int(number) if number.isdigit() else ORDINALS[number]
    return [calendar.month(int(match["year"]), quarter * 3 - 2, 3)]


def _half(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    year = year_of(match, calendar)
    if year is None:
        return []
    return [calendar.month(year, 1 if match["half"].lower() == "first" else 7, 6)]


def _year(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return [calendar.year(int(match["year"]))]


_LAST = r"(?P<which>last|past|previous|this|current)"
_LAST_OR_THIS = r"(?P<which>last|this)"
_UNIT_OR_NAMED = rf"(?:(?P<what>week|month|year)|weekend|{SEASON}|{FULL_WEEKDAY})"
_WEEKENDS = rf"(?:weekend|{SEASON}|(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day))s?"
_NO_SPRING_ROLL = (  # nor the fall of Rome, nor what is called after a season
    r"(?!-|\s+(?:rolls?|boot|onions?|water|mattress|sale|coats?|boots?|tires?|tyres?|olympics|"
    rf"in\s+love|asleep|of\s+(?!{YEAR})))"
)
_TO = r"\s*(?:-|–|to|until|till|through)\s*(?:the\s+)?"
_WITH_WEEKDAY = rf"(?:(?:last\s+)?{WEEKDAY_NAMES}\.?,?\s+(?:the\s+)?)?"
_AND_WEEKDAY = rf"(?:,?\s*\(?\b{WEEKDAY_NAMES}\b\)?)?"
_THIS_DAY = (  # a day of any month, and not the 8th floor
    r"(?P<day>[0-3]?\d)(?P<ordinal>st|nd|rd|th)"
    r"(?=\s*(?:[?.!,;:)]|$)|\s+(?:about|at|in|with|when|and|or|to|until|till|for|from|by|after|"
    r"before|that|we|i|you|he|she|they|it|of\s+(?:the|this)\s+month|did|was|were|had|morning|"
    r"afternoon|evening)\b)"
)

_DATES: tuple[str, ...] = (
    rf"{DAY}[\s-]+(?:of\s+)?{MONTH},?[\s-]+(?:of\s+)?{YEAR_OR_LAST}",
    rf"{MONTH}[\s-]+(?:the\s+)?{DAY},?[\s-]+(?:of\s+)?{YEAR_OR_LAST}",
    rf"{YEAR},?\s+{MONTH}\s+{DAY}",
    rf"(?:the\s+)?{DAY}\s+(?:of\s+)?{MONTH}",
    r"(?:(?=(?!may|mar)\w)|(?<=\bon\s)|(?=\w+\s+(?:the\s+)?\d+(?:st|nd|rd|th)\b))"
    rf"{MONTH}\s+(?:the\s+)?{DAY}",
    rf"{MONTH}\s+{DAY}{END}",
)

ENGLISH: tuple[Rule, ...] = (
    rule(r"(?P<word>today|tonight|yesterday)(?!\w)", _today),
    rule(rf"(?P<word>yesterday)\s+{PART}\b", _today),
    rule(r"(?:the\s+)?(?P<word>day)\s+before\s+yesterday\b", _today),
    rule(rf"(?P<word>this)\s+{PART}\b", _today),
    rule(r"earlier\s+(?P<word>today)\b", _today),
    rule(r"last\s+night\b", lambda match, calendar: [calendar.last_night()]),
    rule(rf"{COUNT}\s+{UNIT}\s+ago\b", _ago),
    rule(rf"{COUNT}\s+{_WEEKENDS}\s+ago\b", _named_ago),
    rule(r"half\s+an?\s+hour\s+ago\b", lambda match, calendar: [calendar.ago(30, "minute")]),
    rule(r"half\s+a\s+year\s+ago\b", lambda match, calendar: [calendar.ago(6, "month")]),
    rule(r"a\s+fortnight\s+ago\b", lambda match, calendar: [calendar.ago(2, "week")]),
    rule(r"the\s+other\s+day\b", lambda match, calendar: [calendar.before_today(14)]),
    rule(
        r"(?:around\s+|about\s+)?this\s+time\s+last\s+(?P<unit>week|month|year)\b",
        lambda match, calendar: [calendar.this_time(match["unit"].lower())],
    ),
    rule(
        rf"(?:last|past|previous)\s+{COUNT}\s+{UNIT}\b",
        lambda match, calendar: [calendar.past(count_of(match), match["unit"].lower())],
    ),
    rule(rf"{_LAST}\s+(?P<what>week|weekend|month|quarter|year)\b", _relative),
    rule(r"earlier\s+(?P<which>this)\s+(?P<what>week|month|quarter|year)\b", _earlier),
    rule(rf"(?:the\s+)?{_UNIT_OR_NAMED}\s+before\s+last{NOT_LAST_WEEK}", _before_last),
    rule(
        r"(?:at|on|over|during)\s+the\s+weekend\b",
        lambda match, calendar: [calendar.latest_weekend()],
    ),
    rule(rf"(?P<which>last|past|this)\s+{WEEKDAY}(?:\s+{PART}\b)?", _named_weekday),
    rule(
        rf"(?<=\b[oO]n\s){WEEKDAY}(?:\s+{PART}\b)?(?!\s+(?:best|nights|league)\b)", _named_weekday
    ),
    rule(rf"{BOUNDS}\s+(?P<core>{FULL_WEEKDAY})", _named_weekday),
    rule(rf"{FULL_WEEKDAY}\s+{PART}\b(?!\s+(?:lights|live))", _named_weekday),
    rule(rf"{FULL_WEEKDAY}{END}", _named_weekday),
    rule(rf"(?<=\b[iI]n\s){MONTH}(?!['’]|\s+\d)", _named_month),
    rule(rf"(?<=\b[oO]f\s){MONTH}(?=\s*[?.!,]|\s*$)", _named_month),
    rule(rf"(?:{BOUNDS}|during)[\s-]+(?P<core>{MONTH}){END}", _named_month),
    rule(
        rf"(?:(?:early|late|mid)[\s-]+|(?:beginning|start|middle|end)\s+of\s+)(?P<core>{MONTH})"
        r"(?!['’]|\s+\d)",
        _named_month,
    ),
    rule(
        rf"(?:between|from)\s+(?:early\s+|late\s+|mid[\s-])?{MONTH_NAMES}(?:\s+of)?(?:\s+\d{{4}})?"
        rf"\s+(?:and|to|until|till|through)\s+(?:early\s+|late\s+|mid[\s-])?(?P<core>{MONTH})"
        r"(?!['’]|\s+\d)",
        _named_month,
    ),
    rule(rf"(?P<which>last|past|this)\s+{MONTH}(?!['’])", _named_month),
    rule(rf"{MONTH},?[\s-]+(?:of\s+)?{YEAR_OR_LAST}", _month_of_year),
    rule(rf"(?P<year_back>last|this)\s+year,?\s+in\s+{MONTH}", _month_of_year),
    *(rule(_WITH_WEEKDAY + pattern + _AND_WEEKDAY, _day_of_month) for pattern in _DATES),
    rule(rf"{WEEKDAY_NAMES}\.?,?\s+{MONTH}\s+(?:the\s+)?{DAY}", _day_of_month),
    rule(
        rf"(?P<first>[0-3]?\d)(?:st|nd|rd|th)?{_TO}{DAY}\s+(?:of\s+)?{MONTH}"
        rf"(?:,?\s+(?:of\s+)?{YEAR_OR_LAST})?",
        _days_of_month,
    ),
    rule(
        rf"{MONTH}\s+(?:the\s+)?(?P<first>[0-3]?\d)(?:st|nd|rd|th)?{_TO}{DAY}"
        rf"(?:,?\s+(?:of\s+)?{YEAR_OR_LAST})?",
        _days_of_month,
    ),
    rule(
        rf"(?:on|since|by|until|till|before|after|from|to)\s+(?P<core>the\s+{_THIS_DAY})",
        _day_alone,
    ),
    rule(
        rf"(?:the\s+)?(?P<day>[0-3]?\d)(?:st|nd|rd|th)\s+of\s+{_LAST_OR_THIS}\s+month\b", _day_alone
    ),
    rule(rf"(?P<which>last|past|previous|this)\s+{SEASON}\b", _season),
    rule(
        rf"(?:in|over|during|since|before|after|until|till|by)\s+(?P<core>(?:the\s+)?{SEASON}\b)"
        rf"{_NO_SPRING_ROLL}",
        _season,
    ),
    rule(rf"(?:early|mid|late)\s+(?P<core>{SEASON}\b){_NO_SPRING_ROLL}", _season),
    rule(rf"{SEASON}(?:\s+(?:of\s+)?|,\s+){YEAR_OR_LAST}", _season),
    rule(rf"(?P<year_back>last|this)\s+year,?\s+in\s+(?:the\s+)?{SEASON}\b", _season),
    rule(rf"(?:the\s+)?(?P<half>first|second|last)\s+half\s+of\s+{YEAR_OR_LAST}", _half),
    rule(rf"{WHEN}\s+(?:the\s+year\s+)?(?P<core>{YEAR}){COUNTED}", _year),
    rule(rf"(?:early|mid|late)[\s-]+(?:in\s+)?(?P<core>{YEAR}){COUNTED}", _year),
    rule(rf"\A\s*(?P<core>{YEAR})\s*\Z", _year),
    rule(rf"q(?P<number>[1-4])\s+{YEAR}", _quarter),
    rule(rf"(?P<number>first|second|third|fourth)\s+quarter\s+of\s+{YEAR}", _quarter),
    rule(
        rf"{_WITH_WEEKDAY}(?P<year>(?:19|20)\d\d)(?P<s>[-/.])(?P<m>\d\d?)(?:(?P=s)(?P<day>\d\d?))?"
        rf"(?![\d-]){_AND_WEEKDAY}",
        _iso,
    ),
    rule(
        rf"{_WITH_WEEKDAY}(?P<one>\d\d?)(?P<s>[-/.])(?P<two>\d\d?)(?P=s)(?P<year>(?:19|20)\d\d)"
        rf"(?!\d){_AND_WEEKDAY}",
        _slashes,
    ),
)
