"""A `Timing` in words, English or Chinese, as it is shown back to people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, time
from typing import Literal

from service.schedules.recurrence import LAST, WEEKEND, WORKDAYS, Recurrence, Timing, Unit
from service.schedules.wall_clock import shown_at, zone_of

Language = Literal["en", "zh"]

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HAN_DAYS = "一二三四五六日"
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}
_HAN_UNITS: dict[Unit, str] = {
    "minute": "分钟", "hour": "小时", "day": "天", "week": "周", "month": "个月", "year": "年",
}  # fmt: skip
_HAN = re.compile(r"[\u4e00-\u9fff]")


def language_of(text: str) -> Language:
    """In which language to speak of a text.

    >>> language_of("给妈妈打电话"), language_of("call mum")
    ('zh', 'en')
    """
    return "zh" if _HAN.search(text) else "en"


def moment_in_words(moment: datetime, zone: str, language: Language = "en") -> str:
    """A moment as clocks in a zone show it."""
    wall = shown_at(moment, zone_of(zone))
    if language == "zh":
        return f"{wall:%Y-%m-%d} 周{_HAN_DAYS[wall.weekday()]} {wall:%H:%M}"
    return f"{_SHORT_DAYS[wall.weekday()]} {wall:%Y-%m-%d %H:%M}"


def timing_in_words(timing: Timing, language: Language = "en") -> str:
    """When something is due, with its time zone where it goes by one.

    >>> from datetime import UTC
    >>> rule = Recurrence(unit="week", weekdays=(0, 1, 2, 3, 4), times=(time(8),))
    >>> now = datetime(2026, 11, 24, 12, tzinfo=UTC)
    >>> timing = Timing.recurring(rule, zone="Europe/Berlin", now=now)
    >>> timing_in_words(timing), timing_in_words(timing, "zh")
    ('every weekday at 08:00 (Europe/Berlin)', '每个工作日 08:00 (Europe/Berlin)')
    """
    recurrence = timing.recurrence
    if recurrence is None:
        return f"{moment_in_words(timing.start, timing.zone, language)} ({timing.zone})"
    words = _chinese(recurrence) if language == "zh" else _english(recurrence)
    return words if recurrence.elapsed else f"{words} ({timing.zone})"


def _english(recurrence: Recurrence) -> str:
    days = _listed([_DAYS[each] for each in recurrence.weekdays], "and")
    every = _each(recurrence)
    match recurrence.unit:
        case "week":
            if recurrence.every > 1:
                words = f"{every} on {days}"
            elif recurrence.weekdays == WORKDAYS:
                words = "every weekday"
            else:
                words = (
                    "every Saturday and Sunday"
                    if recurrence.weekdays == WEEKEND
                    else (f"every {days}")
                )
        case "month" if recurrence.nth is not None:
            words = f"on the {_NTH[recurrence.nth]} {days} of {every}"
        case "month":
            numbers = [_ordinal(each) for each in recurrence.month_days]
            words = f"on the {_listed(numbers, 'and')} of {every}"
        case "year":
            dates = [f"{d} {_MONTHS[m - 1]}" for m in recurrence.months for d in _plain(recurrence)]
            words = f"on {_listed(dates, 'and')} of {every}"
        case _:
            words = every
    if not recurrence.times:
        return words
    return f"{words} at {_listed([_clock(each) for each in recurrence.times], 'and')}"


def _each(recurrence: Recurrence) -> str:
    if recurrence.every == 1:
        return f"every {recurrence.unit}"
    return f"every {recurrence.every} {recurrence.unit}s"


def _plain(recurrence: Recurrence) -> list[str]:
    return ["the last day of" if each == LAST else str(each) for each in recurrence.month_days]


def _ordinal(day: int) -> str:
    """The number of a day.

    >>> [_ordinal(each) for each in (1, 2, 3, 11, 22, -1)]
    ['1st', '2nd', '3rd', '11th', '22nd', 'last day']
    """
    if day == LAST:
        return "last day"
    suffix = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def _clock(at: time) -> str:
    return f"{at:%H:%M}"


def _listed(words: Sequence[str], last: str) -> str:
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _chinese(recurrence: Recurrence) -> str:
    days = "、".join(f"周{_HAN_DAYS[each]}" for each in recurrence.weekdays)
    count = "" if recurrence.every == 1 else str(recurrence.every)
    numbers = "、".join("最后一天" if d == LAST else f"{d}号" for d in recurrence.month_days)
    match recurrence.unit:
        case "week" if recurrence.every > 1:
            words = f"每{count}周的{days}"
        case "week":
            words = "每个工作日" if recurrence.weekdays == WORKDAYS else f"每{days}"
        case "month" if recurrence.nth is not None:
            nth = "最后一" if recurrence.nth == LAST else f"第{_HAN_DAYS[recurrence.nth - 1]}"
            words = f"每{count}个月{nth}个{days}" if count else f"每月{nth}个{days}"
        case "month":
            words = f"每{count}个月{numbers}" if count else f"每月{numbers}"
        case "year":
            words = f"每{count}年" + "、".join(f"{m}月{numbers}" for m in recurrence.months)
        case _:
            words = f"每{count}{_HAN_UNITS[recurrence.unit]}"
    return " ".join([words, *(_clock(each) for each in recurrence.times)])
