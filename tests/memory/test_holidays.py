"""Holidays in questions, in English and Chinese."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from service.memory.search.time.holidays import easter, qingming
from service.memory.search.time.lunar_festivals import festivals
from service.memory.search.time.time_expressions import times

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 5, 20, 9, 30, tzinfo=BERLIN)  # a Wednesday


def stretches(query: str, now: datetime = NOW) -> list[str]:
    return [f"{since:%Y-%m-%dT%H} {until:%Y-%m-%dT%H}" for since, until in times(query, now)]


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [
        ("What did we eat at Christmas?", "2025-12-24", "2025-12-27"),
        ("Christmas 2024", "2024-12-24", "2024-12-27"),
        ("on Christmas Day", "2025-12-25", "2025-12-26"),
        ("on Christmas Eve 2023", "2023-12-24", "2023-12-25"),
        ("last Christmas we went to Rome", "2025-12-24", "2025-12-27"),
        ("Christmas last year", "2025-12-24", "2025-12-27"),
        ("last year's Christmas", "2025-12-24", "2025-12-27"),
        ("the Christmas before last", "2024-12-24", "2024-12-27"),
        ("two Christmases ago", "2024-12-24", "2024-12-27"),
        ("over the Christmas holidays", "2025-12-23", "2026-01-02"),
        ("What did I plan for Christmas with Ann?", "2025-12-24", "2025-12-27"),
        ("before Christmas", "1900-01-01", "2025-12-24"),
        ("between Christmas and Easter", "2025-12-24", "2026-04-07"),
        ("at New Year", "2025-12-31", "2026-01-02"),
        ("on New Year's Eve", "2025-12-31", "2026-01-01"),
        ("on New Year's Day", "2026-01-01", "2026-01-02"),
        ("on Valentine's Day", "2026-02-14", "2026-02-15"),
        ("Easter 2025", "2025-04-18", "2025-04-22"),
        ("over Easter", "2026-04-03", "2026-04-07"),
        ("on Easter Monday", "2026-04-06", "2026-04-07"),
        ("on Good Friday", "2026-04-03", "2026-04-04"),
        ("at Halloween", "2025-10-31", "2025-11-01"),
        ("Thanksgiving", "2025-11-27", "2025-11-28"),
        ("Who came for Thanksgiving dinner in our house?", "2025-11-27", "2025-11-28"),
        ("on Labor Day", "2025-09-01", "2025-09-02"),
        ("on Mother's Day", "2026-05-10", "2026-05-11"),
        ("Chinese New Year 2024", "2024-02-09", "2024-02-17"),
        ("during the Spring Festival", "2026-02-16", "2026-02-24"),
        ("the Mid-Autumn Festival", "2025-10-06", "2025-10-07"),
        ("on the Dragon Boat Festival of 2025", "2025-05-31", "2025-06-01"),
        ("春节", "2026-02-16", "2026-02-24"),
        ("春节期间我们去了哪里", "2026-02-16", "2026-02-24"),
        ("去年春节", "2025-01-28", "2025-02-05"),
        ("2024年春节", "2024-02-09", "2024-02-17"),
        ("春节那天", "2026-02-17", "2026-02-18"),
        ("春节前", "1900-01-01", "2026-02-16"),
        ("过年的时候", "2026-02-16", "2026-02-24"),
        ("除夕", "2026-02-16", "2026-02-17"),
        ("大年初二", "2026-02-18", "2026-02-19"),
        ("元宵节", "2026-03-03", "2026-03-04"),
        ("元旦", "2026-01-01", "2026-01-02"),
        ("清明节", "2026-04-05", "2026-04-06"),
        ("清明假期", "2026-04-03", "2026-04-08"),
        ("五一", "2026-05-01", "2026-05-02"),
        ("五一假期去了哪里", "2026-05-01", "2026-05-06"),
        ("端午节", "2025-05-31", "2025-06-01"),
        ("去年端午", "2025-05-31", "2025-06-01"),
        ("七夕", "2025-08-29", "2025-08-30"),
        ("中秋", "2025-10-06", "2025-10-07"),
        ("前年中秋节", "2024-09-17", "2024-09-18"),
        ("国庆", "2025-10-01", "2025-10-08"),
        ("国庆假期", "2025-10-01", "2025-10-08"),
        ("2024年国庆节", "2024-10-01", "2024-10-08"),
        ("十一长假", "2025-10-01", "2025-10-08"),
        ("双十一买了什么", "2025-11-11", "2025-11-12"),
        ("圣诞节", "2025-12-24", "2025-12-27"),
        ("去年圣诞", "2025-12-24", "2025-12-27"),
        ("平安夜", "2025-12-24", "2025-12-25"),
        ("感恩节", "2025-11-27", "2025-11-28"),
        ("去年暑假", "2025-07-01", "2025-09-01"),
        ("寒假", "2026-01-15", "2026-03-01"),
    ],
)
def test_holidays_are_understood_with_the_days_that_are_meant(
    query: str, since: str, until: str
) -> None:
    assert stretches(query) == [f"{since}T00 {until}T00"]


@pytest.mark.parametrize(
    ("query", "stretch"),
    [
        ("since Easter", "2026-04-03T00 2026-05-20T09"),
        ("after Christmas", "2025-12-27T00 2026-05-20T09"),
        ("春节以来", "2026-02-16T00 2026-05-20T09"),
        ("国庆后", "2025-10-08T00 2026-05-20T09"),
        ("除夕晚上", "2026-02-16T18 2026-02-17T06"),
    ],
)
def test_stretches_up_to_now_and_evenings_are_understood(query: str, stretch: str) -> None:
    assert stretches(query) == [stretch]


@pytest.mark.parametrize(
    "query",
    [
        "Merry Christmas!",
        "a Happy New Year.",
        "the Christmas tree",
        "Easter eggs",
        "on Easter Island",
        "a recipe for Christmas cookies",
        "my New Year's resolution",
        "next Christmas",
        "every Easter.",
        "a new year of work",
        "easterly winds",
        "a mother's day-dream",
        "圣诞树",
        "圣诞节礼物",
        "获得过年度奖",
        "春节快乐",
        "中秋月饼怎么做",
        "清明上河图",
        "明年春节",
        "每年中秋",
        "王国庆是谁",
        "二十五一共",
        "五一路",
        "十一个人",
        "二十一",
        "三十几岁",
        "初五",
    ],
)
def test_what_is_only_called_after_a_holiday_is_none(query: str) -> None:
    assert stretches(query) == []


@pytest.mark.parametrize(
    ("now", "query", "since", "until"),
    [
        (datetime(2025, 12, 24, 0, tzinfo=UTC), "this Christmas", "2025-12-24", "2025-12-27"),
        (datetime(2025, 12, 26, 9, tzinfo=UTC), "last Christmas", "2024-12-24", "2024-12-27"),
        (datetime(2025, 12, 31, 9, tzinfo=UTC), "New Year's", "2025-12-31", "2026-01-02"),
        (datetime(2025, 12, 30, 9, tzinfo=UTC), "New Year's", "2024-12-31", "2025-01-02"),
        (datetime(2025, 12, 31, 9, tzinfo=UTC), "元旦假期", "2025-12-30", "2026-01-04"),
        (datetime(2026, 2, 15, 9, tzinfo=UTC), "春节", "2025-01-28", "2025-02-05"),
        (datetime(2026, 2, 16, 0, tzinfo=UTC), "春节", "2026-02-16", "2026-02-24"),
        (datetime(2028, 2, 29, 9, tzinfo=UTC), "Valentine's Day", "2028-02-14", "2028-02-15"),
        (datetime(2026, 4, 5, 9, tzinfo=BERLIN), "Easter", "2026-04-03", "2026-04-07"),
    ],
)
def test_the_last_one_that_has_begun_is_meant(
    now: datetime, query: str, since: str, until: str
) -> None:
    assert stretches(query, now) == [f"{since}T00 {until}T00"]


def test_beyond_the_table_a_festival_is_no_time_and_no_failure() -> None:
    assert stretches("春节", datetime(2089, 5, 1, tzinfo=UTC)) == []
    assert stretches("1985年中秋节") == ["1985-01-01T00 1986-01-01T00"]  # the year is still read


def test_computed_days_are_those_of_the_almanac() -> None:
    sundays = [easter(year) for year in (1943, 1954, 2008, 2019, 2024, 2038)]
    assert sundays == [
        date(1943, 4, 25),
        date(1954, 4, 18),
        date(2008, 3, 23),
        date(2019, 4, 21),
        date(2024, 3, 31),
        date(2038, 4, 25),
    ]
    assert [qingming(year).day for year in (1999, 2023, 2024, 2025, 2027)] == [5, 5, 4, 4, 5]


def test_the_table_is_a_calendar_of_whole_moons() -> None:
    for year in range(1990, 2056):
        new_year, boat, seventh, autumn, ninth = festivals(year)
        # Between the days of one year lie whole months of 29 or 30 days, one more in leap years.
        for first, second, months, more in (
            (new_year, boat, 4, 4),
            (boat, seventh, 2, 2),
            (seventh, autumn, 1, 8),
            (autumn, ninth, 1, -6),
        ):
            days = (second - first).days - more
            assert any(29 * n <= days <= 30 * n for n in (months, months + 1)), year
        following = (festivals(year + 1).new_year - new_year).days if year < 2055 else 354
        assert following in (353, 354, 355, 383, 384, 385)


def test_all_that_the_docs_name_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "memory.md").read_text("utf-8")
    table = page.partition("| dates |")[2].partition("\n\n")[0]
    examples = re.split(r"[,;|\n]\s*", re.sub(r"…|\(both ways\)", "", table))
    headings = (
        "days",
        "weeks",
        "months",
        "years",
        "parts",
        "seasons",
        "holidays",
        "roughly",
        "bounds",
    )
    named = [each.strip() for each in examples if each.strip() not in ("", *headings)]
    assert len(named) > 80
    assert [each for each in named if not times(each, NOW)] == []
