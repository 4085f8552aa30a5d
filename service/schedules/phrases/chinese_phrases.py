"""Chinese phrases for a time to come."""

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

_DIGITS = {each: value for value, each in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_WEEKDAYS = "一二三四五六"
_UNITS: dict[str, Unit] = {
    "分钟": "minute", "小时": "hour", "钟头": "hour", "天": "day", "日": "day", "周": "week",
    "星期": "week", "礼拜": "week", "月": "month", "年": "year",
}  # fmt: skip
_PARTS: dict[str, PartOfDay] = {
    "凌晨": "early", "清晨": "morning", "早上": "morning", "早晨": "morning", "早": "morning",
    "上午": "morning", "中午": "noon", "下午": "afternoon", "傍晚": "evening", "晚上": "evening",
    "晚": "evening", "夜里": "night", "半夜": "early",
}  # fmt: skip
_NEAR = {"今": 0, "明": 1, "后": 2, "大后": 3}

_N = r"(?:\d+|[零〇一二两三四五六七八九十]{1,3})"
_UNIT = rf"(?P<unit>{'|'.join(_UNITS)})"
_WEEK = r"(?:周|星期|礼拜)"
_PART = rf"(?P<part>{'|'.join(_PARTS)})"


def _number(written: str) -> int:
    """A number in digits, or in characters up to ninety-nine.

    >>> [_number(each) for each in ("8", "十", "十二", "二十", "三十五", "两")]
    [8, 10, 12, 20, 35, 2]
    """
    if written.isdigit():
        return whole_number(written)
    tens, ten, ones = written.rpartition("十")
    if not ten:
        return int("".join(str(_DIGITS[each]) for each in written))
    return (_DIGITS[tens] if tens else 1) * 10 + (_DIGITS[ones] if ones else 0)


def _offset(match: re.Match[str], parts: Parts) -> None:
    count, unit = match["count"], _UNITS[match["unit"]]
    if count == "半":
        if unit != "hour":
            raise InvalidInputError(
                f"{match[0]!r} is not clear", advice="请说出具体的时间，例如“20分钟后”。"
            )
        parts.offset = timedelta(minutes=30)
        return
    half = 30 if match["half"] else 0
    number = _number(count)
    match unit:
        case "minute":
            parts.offset = timedelta(minutes=number)
        case "hour":
            parts.offset = timedelta(hours=number, minutes=half)
        case "day":
            parts.day_offset = number
            parts.at_this_time = True
        case "week":
            parts.day_offset = 7 * number
            parts.at_this_time = True
        case "month":
            parts.month_offset = number
            parts.at_this_time = True
        case "year":
            parts.month_offset = 12 * number
            parts.at_this_time = True


def _every(match: re.Match[str], parts: Parts) -> None:
    parts.repeats = True
    parts.unit = _UNITS[match["unit"]]
    parts.every = _number(match["count"]) if match["count"] else 1


def _every_weekdays(match: re.Match[str], parts: Parts) -> None:
    parts.repeats = True
    parts.every = _number(match["count"]) if match["count"] else 1
    _weekdays(match, parts)


def _these_days(days: tuple[int, ...]) -> Take:
    def take(match: re.Match[str], parts: Parts) -> None:
        parts.repeats = True
        parts.weekdays += days

    return take


def _weekdays(match: re.Match[str], parts: Parts) -> None:
    parts.weekdays += [
        6 if each in "日天" else _WEEKDAYS.index(each)
        for each in re.findall(rf"[{_WEEKDAYS}日天]", match["days"])
    ]
    parts.places.append((match.start(), "day"))


def _one_weekday(match: re.Match[str], parts: Parts) -> None:
    sides: dict[str, Side] = {"": "", "这": "this", "本": "this", "下": "next"}
    parts.week = sides[(match["side"] or "").rstrip("个")]
    _weekdays(match, parts)


def _nth_weekday(match: re.Match[str], parts: Parts) -> None:
    parts.repeats, parts.unit = True, "month"
    parts.nth = LAST if match["nth"] == "最后一" else _number(match["nth"][1:])
    _weekdays(match, parts)


def _month_days(match: re.Match[str], parts: Parts) -> None:
    parts.repeats = True
    parts.month_days.append(_number(match["day"]) if match["day"] else LAST)


def _date(match: re.Match[str], parts: Parts) -> None:
    month, day = _number(match["month"]), _number(match["day"])
    parts.repeats = parts.repeats or bool(match["every"])
    if match["year"]:
        parts.day = calendar_day(int(match["year"]), month, day)
        return
    parts.months.append(month)
    parts.month_days.append(day)


def _day_of_month(match: re.Match[str], parts: Parts) -> None:
    parts.month_days.append(_number(match["day"]))


def _near(match: re.Match[str], parts: Parts) -> None:
    parts.day_offset = _NEAR[match["near"]]
    if match["half"]:
        parts.part = "morning" if match["half"] == "早" else "evening"


def _clock(match: re.Match[str], parts: Parts) -> None:
    minutes = match["minute"] or ""
    if minutes.endswith("刻"):
        minute = 15 * _number(minutes[:-1])
    else:
        minute = 30 if minutes == "半" else _number(minutes) if minutes else 0
    part = _PARTS[match["part"]] if match["part"] else None
    parts.clocks.append(Clock(_number(match["hour"]), minute, part))
    parts.places.append((match.start(), "time"))


def _digits(match: re.Match[str], parts: Parts) -> None:
    part = _PARTS[match["part"]] if match["part"] else None
    exact = len(match["hour"]) == 2
    parts.clocks.append(Clock(int(match["hour"]), int(match["minute"]), part, exact))
    parts.places.append((match.start(), "time"))


def _part(match: re.Match[str], parts: Parts) -> None:
    parts.part = _PARTS[match["part"]]


def _every_part(match: re.Match[str], parts: Parts) -> None:
    parts.repeats, parts.unit = True, "day"
    _part(match, parts)


def _seconds(match: re.Match[str], parts: Parts) -> None:
    raise InvalidInputError(
        "做事和提醒最多精确到分钟",
        advice="请用分钟来说，例如“每5分钟”或“2分钟后”。",
    )


def _rule(pattern: str, take: Take) -> Rule:
    return re.compile(pattern), take


_DAYS = rf"(?P<days>[{_WEEKDAYS}日天](?:[、和及,]?{_WEEK}?[{_WEEKDAYS}日天])*)"
CHINESE: tuple[Rule, ...] = (
    _rule(rf"(?:每隔?|过)?{_N}秒钟?(?:之?后|以后)?", _seconds),
    _rule(rf"过?(?P<count>{_N}|半)个?(?P<half>半)?{_UNIT}(?:之后|以后|后)(?!天)", _offset),
    _rule(rf"过(?P<count>{_N}|半)个?(?P<half>半)?{_UNIT}", _offset),
    _rule(rf"每个?月的?(?P<nth>第[一二三四五]|最后一)个?{_WEEK}{_DAYS}", _nth_weekday),
    _rule(rf"每个?月的?(?:最后一天|月底|(?P<day>{_N})[号日])", _month_days),
    _rule(
        rf"(?:(?P<year>20\d\d)年)?(?P<every>每年)?的?(?P<month>{_N})月(?P<day>{_N})[号日]", _date
    ),
    _rule(r"(?:每个?|在)?(?:工作日|上班日)", _these_days(WORKDAYS)),
    _rule(r"每个?周末", _these_days(WEEKEND)),
    _rule(rf"每(?P<count>{_N})?个?{_WEEK}的?{_WEEK}?{_DAYS}", _every_weekdays),
    _rule(r"每天?(?P<part>早上|晚上|早|晚)", _every_part),
    _rule(rf"每(?P<count>{_N})?个?{_UNIT}", _every),
    _rule(rf"(?P<side>[这本下]个?)?{_WEEK}{_DAYS}", _one_weekday),
    _rule(r"(?P<near>大后|今|明|后)(?:天|日|(?P<half>[早晚])上?)", _near),
    _rule(rf"{_PART}?(?P<hour>\d{{1,2}}):(?P<minute>[0-5]\d)", _digits),
    _rule(
        rf"{_PART}?的?(?P<hour>{_N})[点时](?:整|钟)?(?P<minute>半|[一三]刻|{_N}(?=分)|{_N}(?!\d))?分?",
        _clock,
    ),
    _rule(rf"(?P<day>{_N})[号日]", _day_of_month),
    _rule(_PART, _part),
)
FILLERS = re.compile(r"[的在于到,，。、和\s]")
