"""What Chinese time expressions are made of: names, numbers, and pieces of patterns."""

from __future__ import annotations

import re

from service.memory.search.time.calendar_spans import Calendar, Match, Meaning, Rule

DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "兩": 2,
    "几": 3,
    "幾": 3,
    "数": 3,
}
WEEKDAYS = {character: day for day, character in enumerate("一二三四五六日")} | {"天": 6}
DAYS_BACK = {"今": 0, "昨": 1, "前": 2, "大前": 3}
YEARS_BACK = {"今": 0, "去": 1, "昨": 1, "前": 2, "大前": 3}
PARTS = {
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
SEASONS = {"春": "spring", "夏": "summer", "秋": "autumn", "冬": "winter"}
UNITS = {
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

NUMBER = r"(?:\d{1,4}|[零〇一二两兩三四五六七八九十百几幾数]{1,4})"
SMALL = r"(?:\d{1,2}|[一二三四五六七八九十]{1,3})"
NO_DIGIT_BEFORE = r"(?<![\d一二两兩三四五六七八九十百千几幾数每第半.])"
YEAR = (
    r"(?<!\d)(?P<year>(?:19|20)\d\d|[一二][零〇一二三四五六七八九]{3}"
    r"|\d\d(?=年[\d一二三四五六七八九十]{1,2}月))年"
)
YEAR_BACK = r"(?P<back>大前|今|去|昨|前)年"
MONTH = rf"(?P<month>{SMALL})月(?:份)?"
DAY = rf"(?P<day>{SMALL})[日号號]"
ON_WEEKDAY = r"(?:[,\s(]*(?:周|週|星期|礼拜|禮拜)[一二三四五六日天]\)?)?"
"""Beside a date, of which it says nothing new."""
PART = r"(?P<part>早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|深夜|凌晨|早|晨|晚|夜)"
WEEK = r"(?:周|週|个?星期|個?星期|个?礼拜|個?禮拜)"
WEEK_UNITS = r"(?:天|日|周|个?星期|个?礼拜|个?月|年|个?小时|个?钟头|分钟)"
NO_TIMES = r"(?![次个個回遍场場])"
NOT_AHEAD = r"(?![端后後台沿途往面景提言缀锋线排辈任夫妻女男])"
BEFORE_A_DAY = r"(?:(?<![^\s,.?!:;。(])|(?<=[在到从至和自于等们我你他她约定改说]))"
"""Not behind a street, a hotel or a line of the underground."""
NEXT_IS_A_DAY = (  # and not 8号线, nor 一号选手
    r"(?=\s*(?:$|[,.?!;:、。)])|那天|当天|当日|[前后之以起到至晚早我你他她咱说聊谈讲开去来在是有做吃买见约跟]"
    r"|上午|中午|下午|讨论|发生|的(?:会|事|安排|记录|聊天|对话|早上|上午|下午|晚上|计划|日程))"
)
NOT_A_MONTH = r"(?![薪租票费供球亮饼光经經刊度怀嫂历])"


def rule(pattern: str, meaning: Meaning) -> Rule:
    """A pattern of this language: Chinese has no case, and no borders of words."""
    return re.compile(pattern), meaning


def number(text: str) -> int:
    """A number as people write it up to some thousands: 12, 十二, 二十, 一百, 两, 二〇二三.

    Raises:
        ValueError: it is none.
    """
    if text.isdigit() and text.isascii():
        return int(text)
    if "百" in text or "十" in text:
        hundreds, _, rest = text.rpartition("百")
        tens, ten, ones = rest.rpartition("十")
        total = number(hundreds) * 100 if hundreds else (100 if "百" in text else 0)
        total += (number(tens) if tens else 1) * 10 if ten else 0
        return total + (number(ones) if ones else 0)
    value = 0
    for character in text:
        if character not in DIGITS:
            raise ValueError(f"{text!r} is no number")
        value = value * 10 + DIGITS[character]
    return value


def year_of(match: Match, calendar: Calendar) -> int | None:
    """What `YEAR` or `YEAR_BACK` found; None where neither stands. 23年 is 2023."""
    groups = match.groupdict()
    if groups.get("back"):
        return calendar.today.year - YEARS_BACK[match["back"]]
    if not groups.get("year"):
        return None
    year = number(match["year"])
    if year >= 100:
        return year
    return year + (2000 if 2000 + year <= calendar.today.year + 1 else 1900)
