"""Days in patterns: ``<today+1:%A>`` is tomorrow's weekday, so that a check knows what is right.

>>> with_days("<today:%Y>|<today-1:%-d>|星期<today+2:weekday>", date(2026, 3, 1))
'2026|28|星期二'
"""

from __future__ import annotations

import re
from datetime import date, timedelta

_DAY = re.compile(r"<today(?P<days>[+-]\d{1,4})?:(?P<form>[^<>]+)>")
_WEEKDAYS = "一二三四五六日"
_CHINESE_MONTHS = (*"一二三四五六七八九十", "十一", "十二")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)


def with_days(pattern: str, today: date) -> str:
    """A pattern with days in their places.

    Forms: ``%Y``, ``%A`` and ``%B`` (English in every locale), ``%-d`` and ``%-m`` (without a
    leading zero), and in Chinese ``weekday`` and ``month``, without 星期 and 月.
    """

    def written(match: re.Match[str]) -> str:
        day = today + timedelta(days=int(match["days"] or 0))
        parts = {
            "%Y": str(day.year),
            "%A": _NAMES[day.weekday()],
            "%B": _MONTHS[day.month - 1],
            "%-d": str(day.day),
            "%-m": str(day.month),
            "weekday": _WEEKDAYS[day.weekday()],
            "month": _CHINESE_MONTHS[day.month - 1],
        }
        text = match["form"]
        for form, value in parts.items():
            text = text.replace(form, value)
        return text

    return _DAY.sub(written, pattern)
