"""Holidays as Chinese names them, the breaks of schools, and what each means on a calendar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from service.memory.search.time.calendar_spans import (
    Calendar,
    Match,
    Rule,
    TimeRange,
    day_or_part,
)
from service.memory.search.time.chinese_words import (
    PART,
    PARTS,
    YEAR,
    YEAR_BACK,
    number,
    rule,
    year_of,
)
from service.memory.search.time.holidays import holiday_in, latest_holiday

_NUMBERS = "零〇一二三四五六七八九十百千万"
_AS_A_DAY = (
    r"(?=$|[\s,.?!、。]|假期|期间|小?长假|放假|前|后|之|以|那|当|的时候|我|你|他|她|咱|去|回|是|扫)"
)
_NAMES = {
    r"元旦": "new year's day",
    r"情人节": "valentine",
    r"三八(?:妇女)?节|妇女节": "women's day",
    r"愚人节": "april fools",
    r"复活节": "easter",
    rf"五一(?:国际)?(?:劳动节|节)?(?![{_NUMBERS}\d个個点點块条号楼路街班])|劳动节": "labour day",
    r"母亲节": "mother's day",
    r"六一(?:儿童)?节|儿童节": "children's day",
    r"父亲节": "father's day",
    r"教师节": "teachers' day",
    r"国庆节?|十一(?=假期|小?长假|黄金周|期间|放假)": "national day",
    r"万圣节": "halloween",
    r"双(?:十一|11)": "singles' day",
    r"感恩节": "thanksgiving",
    r"平安夜": "christmas eve",
    r"圣诞节?": "christmas",
    r"跨年夜?(?!度)": "new year's eve",
    r"除夕|大年三十|大年夜": "lunar new year's eve",
    rf"(?<![今去明后前本当每])年三十(?![几多来岁个{_NUMBERS}])": "lunar new year's eve",
    r"春节|过年(?!度)": "lunar new year",
    r"元宵节|正月十五": "lantern festival",
    rf"清明(?:节|{_AS_A_DAY})": "qingming",
    r"端午节?": "dragon boat",
    r"七夕节?": "seventh evening",
    r"中秋节?": "mid-autumn",
    r"重阳节": "double ninth",
}
_READ = {re.compile(pattern): name for pattern, name in _NAMES.items()}
_OF_YEAR = rf"(?:(?:{YEAR}|{YEAR_BACK})年?的?)?"
_HOLIDAY = (
    rf"(?<![{_NUMBERS}\d王李张刘陈])(?P<holiday>{'|'.join(_NAMES)})"
    r"(?!节|快乐|愉快|[树卡歌帽装]|老人|礼物|贺卡|月饼|粽子|联欢|晚会|大酬宾)"
)
_BREAK = r"(?P<break>的?(?:期间|假期|小?长假|黄金周|放假|前后))?"
_THAT_DAY = rf"(?P<that_day>[那当][天日])?(?:的?{PART})?"


def _holiday(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    at = match.start("holiday")
    name = next(name for pattern, name in _READ.items() if pattern.match(match.string, at))
    whole_break = bool(match["break"])
    day_alone = bool(match["that_day"] or match["part"])
    year = year_of(match, calendar)
    if year is not None:
        stretch = holiday_in(calendar, name, year, whole_break=whole_break, day_alone=day_alone)
    else:
        over = bool(match["over"])
        stretch = latest_holiday(
            calendar, name, over=over, whole_break=whole_break, day_alone=day_alone
        )
    return day_or_part(match, stretch, calendar, PARTS)


def _new_years_days(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """大年初二, 正月初八."""
    later = timedelta(number(match["day"]) - 1)
    year = year_of(match, calendar)
    if year is None:
        first = latest_holiday(calendar, "lunar new year", day_alone=True)
    else:
        first = holiday_in(calendar, "lunar new year", year, day_alone=True)
    return [calendar.days(first.since.date() + later)]


def _school_break(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """暑假 is July and August, 寒假 the six weeks from the middle of January."""
    summer, year = match["season"] == "暑", year_of(match, calendar)
    asked = calendar.today.year if year is None else year
    first = date(asked, 7, 1) if summer else date(asked, 1, 15)
    stretch = calendar.days(first, 62 if summer else 45)
    if year is None and stretch.since > calendar.now:
        stretch = calendar.a_year_before(stretch)
    return [stretch]


CHINESE_HOLIDAYS: tuple[Rule, ...] = (
    rule(rf"(?P<over>上一?个|上次)?{_OF_YEAR}{_HOLIDAY}{_BREAK}{_THAT_DAY}", _holiday),
    rule(
        rf"{_OF_YEAR}(?:大年|年|正月)初(?P<day>[一二三四五六七八九十])(?:[那当]天)?",
        _new_years_days,
    ),
    rule(rf"{_OF_YEAR}(?P<season>[暑寒])假", _school_break),
)
