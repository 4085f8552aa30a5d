"""The clock: date, weekday and time, here or in another place.

The zones come from the system's tz database, or from the `tzdata` package where it has none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_OFFSET = re.compile(r"(?:utc|gmt)?\s*([+-])(\d{1,2})(?::?([0-5]\d))?")

_ALSO_CALLED = {
    "Asia/Shanghai": "beijing 北京 上海 深圳 shenzhen 广州 guangzhou 杭州 成都 中国 china",
    "Asia/Hong_Kong": "香港 hk",
    "Asia/Taipei": "台北 台湾 taiwan",
    "Asia/Tokyo": "东京 東京 大阪 osaka 日本 japan",
    "Asia/Seoul": "首尔 韩国 korea",
    "Asia/Singapore": "新加坡",
    "Asia/Bangkok": "曼谷",
    "Asia/Dubai": "迪拜",
    "Asia/Kolkata": "delhi new_delhi mumbai bangalore bengaluru chennai india 印度 孟买 新德里",
    "Europe/London": "伦敦 uk england britain 英国",
    "Europe/Paris": "巴黎 france 法国",
    "Europe/Berlin": "柏林 munich hamburg frankfurt cologne germany 德国",
    "Europe/Moscow": "莫斯科",
    "Europe/Zurich": "geneva bern switzerland 苏黎世",
    "America/New_York": "nyc boston washington washington_dc miami atlanta 纽约 波士顿 华盛顿",
    "America/Chicago": "houston dallas austin 芝加哥",
    "America/Los_Angeles": "la san_francisco sf seattle san_diego 洛杉矶 旧金山 西雅图",
    "America/Toronto": "ottawa montreal 多伦多",
    "America/Sao_Paulo": "rio rio_de_janeiro 圣保罗",
    "Australia/Sydney": "canberra 悉尼",
    "UTC": "z zulu gmt 世界时",
}
_ALIASES = {alias: zone for zone, names in _ALSO_CALLED.items() for alias in names.split()}


def zone_named(hint: str) -> tzinfo:
    """The time zone that an IANA name, a city or an offset such as ``UTC+8`` means.

    Raises:
        ToolFailure: no zone is called so, or several; names the near ones.
    """
    place = hint.strip().casefold().removesuffix("时间").removesuffix(" time")
    key = re.sub(r"[\s_]+", "_", place)
    if offset := _OFFSET.fullmatch(key.replace("_", "")):
        hours, minutes = int(offset[2]), int(offset[3] or 0)
        if hours <= 14:
            away = timedelta(hours=hours, minutes=minutes)
            return timezone(-away if offset[1] == "-" else away)
    zones = sorted(available_timezones())
    if exact := next((zone for zone in zones if zone.casefold() == key), _ALIASES.get(key)):
        return ZoneInfo(exact)
    cities = [zone for zone in zones if zone.casefold().rpartition("/")[2] == key]
    if cities and len({_offset_now(zone) for zone in cities}) == 1:
        return ZoneInfo(min(cities, key=len))
    near = cities or _near(key, zones)
    nearby = f" Near it are: {', '.join(near)}." if near else ""
    raise ToolFailure(
        f"No time zone is known as {hint[:80]!r}.{nearby} Give an IANA name such as Asia/Shanghai, "
        "or an offset such as UTC+8; leave it out for the local time."
    )


def current_time_tool(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> FunctionTool:
    """The `current_time` tool.

    Args:
        now: gives the moment, with its time zone.
    """

    @tool(effect="read_only", timeout_seconds=5)
    def current_time(
        timezone: Annotated[
            str | None,
            Field(
                description="IANA name, city or offset, such as Asia/Shanghai, London, UTC+8; "
                "left out for the local time."
            ),
        ] = None,
    ) -> str:
        """Tell the present date, weekday and time, here or in a time zone."""
        if timezone is None or timezone.strip().casefold() in ("", "local", "null", "none"):
            return _told(now().astimezone(), "local time")
        zone = zone_named(timezone)
        return _told(now().astimezone(zone), str(zone))

    return current_time


def _told(moment: datetime, place: str) -> str:
    offset = f"{moment:%z}"
    utc = f"UTC{offset[:3]}:{offset[3:5]}"
    named = f"{utc}, {place}" if place != utc else utc
    return f"{_WEEKDAYS[moment.weekday()]}, {moment:%Y-%m-%d %H:%M:%S} ({named})"


def _offset_now(zone: str) -> timedelta | None:
    return datetime.now(ZoneInfo(zone)).utcoffset()


def _near(key: str, zones: list[str]) -> list[str]:
    by_word: dict[str, list[str]] = {}
    for zone in zones:
        for word in {zone.casefold(), zone.casefold().rpartition("/")[2]}:
            by_word.setdefault(word, []).append(zone)
    for alias, zone in _ALIASES.items():
        by_word.setdefault(alias, []).append(zone)
    words = difflib.get_close_matches(key.rpartition("/")[2], by_word, n=5, cutoff=0.6)
    words += difflib.get_close_matches(key, by_word, n=5, cutoff=0.6)
    return list(dict.fromkeys(zone for word in words for zone in by_word[word]))[:5]
