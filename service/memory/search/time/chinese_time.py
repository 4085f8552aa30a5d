"""Chinese time expressions: patterns, and what each means on a calendar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from service.memory.search.time.calendar_spans import (
    Calendar,
    Match,
    Meaning,
    Rule,
    TimeRange,
    day_or_part,
)

_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "兩": 2,
    "几": 3,
    "幾": 3,
    "数": 3,
}
_WEEKDAYS = {character: day for day, character in enumerate("一二三四五六日")} | {"天": 6}
_DAYS_BACK = {"今": 0, "昨": 1, "前": 2, "大前": 3}
_YEARS_BACK = {"今": 0, "去": 1, "昨": 1, "前": 2, "大前": 3}
_PARTS = {
    "早上": "morning",
    "早晨": "morning",
    "清晨": "morning",
    "上午": "morning",
    "早": "morning",
    "晨": "morning",
    "中午": "noon",
    "下午": "afternoon",
    "傍晚": "evening",
    "晚上": "night",
    "夜里": "night",
    "深夜": "night",
    "晚": "night",
    "夜": "night",
    "凌晨": "small hours",
}
_SEASONS = {"春": "spring", "夏": "summer", "秋": "autumn", "冬": "winter"}
_UNITS = {
    "分钟": "minute",
    "小时": "hour",
    "钟头": "hour",
    "天": "day",
    "日": "day",
    "周": "week",
    "星期": "week",
    "礼拜": "week",
    "月": "month",
    "年": "year",
}

_NUMBER = r"(?:\d{1,4}|[零〇一二两兩三四五六七八九十百几幾数]{1,4})"
_SMALL = r"(?:\d{1,2}|[一二三四五六七八九十]{1,3})"
_NO_DIGIT_BEFORE = r"(?<![\d一二两兩三四五六七八九十百千几幾数每第半.])"
_YEAR = r"(?P<year>(?:19|20)\d\d|[一二][零〇一二三四五六七八九]{3})年"
_MONTH = rf"(?P<month>{_SMALL})月(?:份)?"
_DAY = rf"(?P<day>{_SMALL})[日号號]"
_PART = r"(?P<part>早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|深夜|凌晨|早|晨|晚|夜)"
_WEEK = r"(?:周|週|个?星期|個?星期|个?礼拜|個?禮拜)"
_WEEK_UNITS = r"(?:天|日|周|个?星期|个?礼拜|个?月|年|个?小时|个?钟头|分钟)"
_NO_TIMES = r"(?![次个個回遍场場])"
_NOT_AHEAD = r"(?![端后後台沿途往面景提言缀锋线排辈任夫妻女男])"
_NOT_A_MONTH = r"(?![薪租票费供球亮饼光经經刊度怀嫂历])"


def _rule(pattern: str, meaning: Meaning) -> Rule:
    return re.compile(pattern), meaning


def _number(text: str) -> int:
    """A number as people write it up to some thousands: 12, 十二, 二十, 一百, 两, 二〇二三.

    Raises:
        ValueError: it is none.
    """
    if text.isdigit() and text.isascii():
        return int(text)
    if "百" in text or "十" in text:
        hundreds, _, rest = text.rpartition("百")
        tens, ten, ones = rest.rpartition("十")
        total = _number(hundreds) * 100 if hundreds else (100 if "百" in text else 0)
        total += (_number(tens) if tens else 1) * 10 if ten else 0
        return total + (_number(ones) if ones else 0)
    value = 0
    for character in text:
        if character not in _DIGITS:
            raise ValueError(f"{text!r} is no number")
        value = value * 10 + _DIGITS[character]
    return value


def _part(match: Match, day: TimeRange, calendar: Calendar) -> Sequence[TimeRange]:
    return day_or_part(match, day, calendar, _PARTS)


def _day_back(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    back = timedelta(days=_DAYS_BACK[match["back"]])
    return _part(match, calendar.days(calendar.today - back), calendar)


def _ago(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return [calendar.ago(_number(match["count"]), _unit(match))]


def _past(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return [calendar.past(_number(match["count"]), _unit(match))]


def _unit(match: Match) -> str:
    return _UNITS[match["unit"].lstrip("个個")]


def _week_offset(match: Match) -> int:
    return -match["which"].count("上")


def _week(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return [calendar.week(_week_offset(match))]


def _week_day(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    day = calendar.weekday(_WEEKDAYS[match["weekday"]], _week_offset(match))
    return _part(match, day, calendar)


def _weekend(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    offset = _week_offset(match)
    return [calendar.weekend(offset) if offset else calendar.latest_weekend()]


def _bare_week_day(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    day = calendar.latest_weekday(_WEEKDAYS[match["weekday"]], or_today=True)
    return _part(match, day, calendar)


def _month_back(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    month = calendar.month_from_now(_week_offset(match))
    if match["day"]:
        return [calendar.days(month.since.date().replace(day=_number(match["day"])))]
    return [_of_a_month(match, month, calendar)]


def _of_a_month(match: Match, month: TimeRange, calendar: Calendar) -> TimeRange:
    third = match.groupdict().get("third")
    first = month.since.date()
    if third is None:
        return month
    if third in ("初", "上旬"):
        return calendar.days(first, 10)
    if third == "中旬":
        return calendar.days(first + timedelta(days=10), 10)
    return TimeRange(calendar.days(first + timedelta(days=20)).since, month.until)


def _year_back(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return _within_year(match, calendar.today.year - _YEARS_BACK[match["back"]], calendar)


def _year(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return _within_year(match, _number(match["year"]), calendar)


def _within_year(match: Match, year: int, calendar: Calendar) -> Sequence[TimeRange]:
    """The year, or its season, month, day, beginning or end."""
    if match["season"]:
        return [calendar.season(_SEASONS[match["season"][0]], year)]
    if match["month"] and match["day"]:
        day = calendar.days(date(year, _number(match["month"]), _number(match["day"])))
        return _part(match, day, calendar)
    if match["month"]:
        return [_of_a_month(match, calendar.month(year, _number(match["month"])), calendar)]
    if match["edge"]:
        early = match["edge"][-1] == "初"
        return [calendar.month(year, 1 if early else 11, 2)]
    return [calendar.year(year)]


def _date(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    month = _number(match["month"])
    if match["day"]:
        return _part(match, calendar.latest_day(month, _number(match["day"])), calendar)
    return [_of_a_month(match, calendar.latest_month(month), calendar)]


_THIRD = r"(?:(?P<third>初|底|末|上旬|中旬|下旬))?"
_IN_YEAR = (
    rf"(?:的?(?:(?P<season>[春夏秋冬](?:天|季)?)|{_MONTH}(?:{_DAY}(?:的?{_PART})?|{_THIRD})"
    r"|(?P<edge>年?[初底末])))?"
)
_WHICH = r"(?P<which>上+|本|这|這)"

CHINESE: tuple[Rule, ...] = (
    _rule(rf"(?P<back>大前|今|昨|前)[天日](?:的?{_PART})?", _day_back),
    _rule(r"(?P<back>今|昨|前)(?P<part>早|晨|晚|夜)上?", _day_back),
    _rule(rf"(?P<count>{_NUMBER})多?(?P<unit>{_WEEK_UNITS})(?:之|以)?前{_NOT_AHEAD}", _ago),
    _rule(r"半年(?:之|以)?前", lambda match, calendar: [calendar.ago(6, "month")]),
    _rule(r"半个?月(?:之|以)?前", lambda match, calendar: [calendar.ago(2, "week")]),
    _rule(r"半个?小时(?:之|以)?前", lambda match, calendar: [calendar.ago(30, "minute")]),
    _rule(
        rf"(?:最近|过去|過去|近|这|這)(?:的)?(?P<count>{_NUMBER})(?P<unit>{_WEEK_UNITS})(?!前)",
        _past,
    ),
    _rule(rf"{_WHICH}{_WEEK}(?!末)", _week),
    _rule(rf"{_WHICH}{_WEEK}(?P<weekday>[一二三四五六日天]){_NO_TIMES}(?:的?{_PART})?", _week_day),
    _rule(rf"{_WHICH}个?(?:周|週)末", _weekend),
    _rule(r"(?<![每个個上本这這下])(?P<which>)(?:周|週)末", _weekend),
    _rule(
        r"(?<![每上下本这這一二两兩三四五六七八九十几幾半\d个個])(?:周|週|星期|礼拜|禮拜)"
        rf"(?P<weekday>[一二三四五六日天]){_NO_TIMES}(?:的?{_PART})?",
        _bare_week_day,
    ),
    _rule(rf"{_WHICH}个?個?月份?(?:{_DAY}|{_THIRD})", _month_back),
    _rule(rf"(?P<back>大前|今|去|昨|前)年{_IN_YEAR}", _year_back),
    _rule(rf"(?<!\d){_YEAR}{_IN_YEAR}", _year),
    _rule(rf"{_NO_DIGIT_BEFORE}{_MONTH}{_DAY}(?P<third>)?(?:的?{_PART})?", _date),
    _rule(
        rf"{_NO_DIGIT_BEFORE}{_MONTH}(?!天){_NOT_A_MONTH}{_THIRD}(?P<day>)?",
        _date,
    ),
)
