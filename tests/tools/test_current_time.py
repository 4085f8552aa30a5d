from __future__ import annotations

import time
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from service.tools.builtins.current_time import current_time_tool
from tests.support.tools.tool_calls import result_of

pytestmark = pytest.mark.anyio

MOMENT = datetime(2026, 3, 1, 18, 30, 5, tzinfo=UTC)
CLOCK = current_time_tool(now=lambda: MOMENT)


@pytest.fixture
def local_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def no_system_database() -> Iterator[None]:
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()


@pytest.mark.usefixtures("local_zone")
@pytest.mark.parametrize("arguments", [{}, {"timezone": None}, {"timezone": ""}])
async def test_it_tells_weekday_date_and_time_of_here(arguments: dict[str, object]) -> None:
    result = await result_of(CLOCK, **arguments)
    assert result.content == "Monday, 2026-03-02 03:30:05 (UTC+09:00, local time)"


@pytest.mark.parametrize(
    ("place", "local_time"),
    [
        ("Asia/Shanghai", "Monday, 2026-03-02 02:30:05 (UTC+08:00, Asia/Shanghai)"),
        ("asia/shanghai", "Monday, 2026-03-02 02:30:05 (UTC+08:00, Asia/Shanghai)"),
        ("北京时间", "Monday, 2026-03-02 02:30:05 (UTC+08:00, Asia/Shanghai)"),
        ("new york", "Sunday, 2026-03-01 13:30:05 (UTC-05:00, America/New_York)"),
        ("London time", "Sunday, 2026-03-01 18:30:05 (UTC+00:00, Europe/London)"),
        ("Mumbai", "Monday, 2026-03-02 00:00:05 (UTC+05:30, Asia/Kolkata)"),
        ("Kathmandu", "Monday, 2026-03-02 00:15:05 (UTC+05:45, Asia/Kathmandu)"),
        ("UTC", "Sunday, 2026-03-01 18:30:05 (UTC+00:00, UTC)"),
        ("UTC+8", "Monday, 2026-03-02 02:30:05 (UTC+08:00)"),
        ("-03:30", "Sunday, 2026-03-01 15:00:05 (UTC-03:30)"),
    ],
)
async def test_a_zone_can_be_named_as_people_name_it(place: str, local_time: str) -> None:
    assert (await result_of(CLOCK, timezone=place)).content == local_time


@pytest.mark.parametrize(
    ("place", "near"), [("Asia/Shangai", "Asia/Shanghai"), ("New Yrok", "America/New_York")]
)
async def test_an_unknown_zone_is_answered_with_near_ones(place: str, near: str) -> None:
    result = await result_of(CLOCK, timezone=place)
    assert result.is_error
    assert near in result.content


@pytest.mark.parametrize("place", ["../../etc/passwd", "/etc/localtime", "UTC+99", "\x00", "哪里"])
async def test_a_name_that_is_no_zone_leads_nowhere(place: str) -> None:
    result = await result_of(CLOCK, timezone=place)
    assert result.is_error
    assert "No time zone is known" in result.content


@pytest.mark.usefixtures("no_system_database")
async def test_it_works_without_the_systems_database() -> None:
    result = await result_of(CLOCK, timezone="Asia/Shanghai")
    assert result.content == "Monday, 2026-03-02 02:30:05 (UTC+08:00, Asia/Shanghai)"


async def test_it_uses_the_real_clock_by_default() -> None:
    result = await result_of(current_time_tool(), timezone="UTC")
    local_time = datetime.strptime(result.content.split(", ")[1][:19], "%Y-%m-%d %H:%M:%S")
    assert local_time.year >= 2026
