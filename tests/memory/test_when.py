"""Time expressions of questions, in English and Chinese."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from service.memory.search.time.time_expressions import asks_for_latest, times

BERLIN = ZoneInfo("Europe/Berlin")
SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 5, 20, 9, 30, tzinfo=BERLIN)  # a Wednesday


def stretches(query: str, now: datetime = NOW) -> list[str]:
    return [f"{since:%Y-%m-%dT%H} {until:%Y-%m-%dT%H}" for since, until in times(query, now)]


def days(first: str, last: str) -> list[str]:
    """Whole days: `last` is the first one that is not meant any more."""
    return [f"{first}T00 {last}T00"]


DAYS = [
    ("What did I eat today?", "2026-05-20", "2026-05-21"),
    ("yesterday's shopping", "2026-05-19", "2026-05-20"),
    ("the day before yesterday", "2026-05-18", "2026-05-19"),
    ("what was decided last week", "2026-05-11", "2026-05-18"),
    ("This week's plan", "2026-05-18", "2026-05-25"),
    ("bills of last month", "2026-04-01", "2026-05-01"),
    ("this month", "2026-05-01", "2026-06-01"),
    ("where were we last year?", "2025-01-01", "2026-01-01"),
    ("this year", "2026-01-01", "2027-01-01"),
    ("last quarter", "2026-01-01", "2026-04-01"),
    ("What did Ann say last Tuesday?", "2026-05-19", "2026-05-20"),
    ("last Wednesday", "2026-05-13", "2026-05-14"),
    ("what happened on Wednesday?", "2026-05-20", "2026-05-21"),
    ("this Friday", "2026-05-15", "2026-05-16"),
    ("Tuesday's meeting", "2026-05-19", "2026-05-20"),
    ("What did she tell me Monday?", "2026-05-18", "2026-05-19"),
    ("on thu", "2026-05-14", "2026-05-15"),
    ("3 days ago", "2026-05-17", "2026-05-18"),
    ("three days ago", "2026-05-17", "2026-05-18"),
    ("two weeks ago", "2026-05-04", "2026-05-11"),
    ("a couple of months ago", "2026-03-01", "2026-04-01"),
    ("a year ago", "2025-01-01", "2026-01-01"),
    ("half a year ago", "2025-11-01", "2025-12-01"),
    ("What did Ann do in May?", "2026-05-01", "2026-06-01"),
    ("in june", "2025-06-01", "2025-07-01"),
    ("last May", "2025-05-01", "2025-06-01"),
    ("What did Ann do in May 2023?", "2023-05-01", "2023-06-01"),
    ("on 7 May 2023", "2023-05-07", "2023-05-08"),
    ("May 7th", "2026-05-07", "2026-05-08"),
    ("May 7, 2023", "2023-05-07", "2023-05-08"),
    ("the 7th of May", "2026-05-07", "2026-05-08"),
    ("Sept. 3rd", "2025-09-03", "2025-09-04"),
    ("on march 3", "2026-03-03", "2026-03-04"),
    ("on 29 February", "2024-02-29", "2024-03-01"),
    ("2023-05-07", "2023-05-07", "2023-05-08"),
    ("notes of 2023/5/7", "2023-05-07", "2023-05-08"),
    ("2023-05", "2023-05-01", "2023-06-01"),
    ("the 25.12.2023", "2023-12-25", "2023-12-26"),
    ("what did we buy in 2022", "2022-01-01", "2023-01-01"),
    ("Q2 2025", "2025-04-01", "2025-07-01"),
    ("first quarter of 2024", "2024-01-01", "2024-04-01"),
    ("last summer", "2025-06-01", "2025-09-01"),
    ("in the winter", "2025-12-01", "2026-03-01"),
    ("the summer of 2024", "2024-06-01", "2024-09-01"),
    ("last weekend", "2026-05-16", "2026-05-18"),
    ("over the weekend", "2026-05-16", "2026-05-18"),
    ("from May 3 to May 9", "2026-05-03", "2026-05-10"),
    ("between 3 May and 9 May 2024", "2024-05-03", "2024-05-10"),
    ("between 2019 and 2021", "2019-01-01", "2022-01-01"),
    ("before 2020", "1900-01-01", "2020-01-01"),
    ("until June", "1900-01-01", "2025-06-01"),
    ("今天买了什么", "2026-05-20", "2026-05-21"),
    ("我昨天说了什么？", "2026-05-19", "2026-05-20"),
    ("前天", "2026-05-18", "2026-05-19"),
    ("大前天", "2026-05-17", "2026-05-18"),
    ("上周的计划", "2026-05-11", "2026-05-18"),
    ("上个星期", "2026-05-11", "2026-05-18"),
    ("上上周", "2026-05-04", "2026-05-11"),
    ("上周二开会说了什么", "2026-05-12", "2026-05-13"),
    ("上个礼拜天", "2026-05-17", "2026-05-18"),
    ("这周三", "2026-05-20", "2026-05-21"),
    ("星期三", "2026-05-20", "2026-05-21"),
    ("周四", "2026-05-14", "2026-05-15"),
    ("上周三次会议", "2026-05-11", "2026-05-18"),
    ("周末", "2026-05-16", "2026-05-18"),
    ("上周末去了哪里", "2026-05-16", "2026-05-18"),
    ("上个月", "2026-04-01", "2026-05-01"),
    ("上个月7号", "2026-04-07", "2026-04-08"),
    ("这个月", "2026-05-01", "2026-06-01"),
    ("去年", "2025-01-01", "2026-01-01"),
    ("前年冬天", "2024-12-01", "2025-03-01"),
    ("去年夏天", "2025-06-01", "2025-09-01"),
    ("去年五月三号", "2025-05-03", "2025-05-04"),
    ("今年年初", "2026-01-01", "2026-03-01"),
    ("三天前", "2026-05-17", "2026-05-18"),
    ("二十天之前", "2026-04-30", "2026-05-01"),
    ("两周前", "2026-05-04", "2026-05-11"),
    ("3个月前", "2026-02-01", "2026-03-01"),
    ("半年前", "2025-11-01", "2025-12-01"),
    ("5月", "2026-05-01", "2026-06-01"),
    ("十二月", "2025-12-01", "2026-01-01"),
    ("5月7日", "2026-05-07", "2026-05-08"),
    ("５月７号", "2026-05-07", "2026-05-08"),
    ("2023年5月7日", "2023-05-07", "2023-05-08"),
    ("二〇二三年五月", "2023-05-01", "2023-06-01"),
    ("2023年", "2023-01-01", "2024-01-01"),
    ("5月3日到5月7日", "2026-05-03", "2026-05-08"),
    ("5月7日之前", "1900-01-01", "2026-05-07"),
]


@pytest.mark.parametrize(("query", "since", "until"), DAYS)
def test_whole_days_are_understood(query: str, since: str, until: str) -> None:
    assert stretches(query) == days(since, until)


@pytest.mark.parametrize(
    ("query", "stretch"),
    [
        ("this morning", "2026-05-20T05 2026-05-20T12"),
        ("yesterday afternoon", "2026-05-19T12 2026-05-19T18"),
        ("last night", "2026-05-19T18 2026-05-20T06"),
        ("Monday evening", "2026-05-18T17 2026-05-19T00"),
        ("2 hours ago", "2026-05-20T07 2026-05-20T08"),
        ("since last Monday", "2026-05-18T00 2026-05-20T09"),
        ("after March 2024", "2024-04-01T00 2026-05-20T09"),
        ("in the last 3 days", "2026-05-17T00 2026-05-20T09"),
        ("over the past two weeks", "2026-05-06T00 2026-05-20T09"),
        ("今早", "2026-05-20T05 2026-05-20T12"),
        ("昨天下午", "2026-05-19T12 2026-05-19T18"),
        ("昨晚", "2026-05-19T18 2026-05-20T06"),
        ("10月1号上午", "2025-10-01T05 2025-10-01T12"),
        ("最近三天", "2026-05-17T00 2026-05-20T09"),
        ("2023年以来", "2023-01-01T00 2026-05-20T09"),
    ],
)
def test_parts_of_days_and_stretches_up_to_now_are_understood(query: str, stretch: str) -> None:
    assert stretches(query) == [stretch]


@pytest.mark.parametrize(
    "query",
    [
        "You may go.",
        "May I ask you something?",
        "May has a new job",
        "What did June tell April?",
        "in May's letter",
        "the march on Rome",
        "March 3 miles a day",
        "one second, please",
        "the second time",
        "my Sunday best",
        "Black Friday deals",
        "write it in 2000 words",
        "room 2022",
        "error 2023",
        "version 1.12.3",
        "the fall of Rome",
        "spring boot",
        "4/5 of them",
        "a week of rest",
        "on 31 June",
        "999999 years ago",
        "call 0171-2023-05",
        "五月天的演唱会",
        "每周三跑步",
        "一周三次",
        "每个周末",
        "三个月",
        "三年前端经验",
        "住在7号楼",
        "13月",
        "岁月如歌",
        "",
        "?",
    ],
)
def test_other_words_and_numbers_are_no_times(query: str) -> None:
    assert stretches(query) == []


def test_several_times_come_in_the_order_of_the_question() -> None:
    assert stretches("Was it in May 2023 or in June 2024?") == [
        "2023-05-01T00 2023-06-01T00",
        "2024-06-01T00 2024-07-01T00",
    ]


def test_a_date_that_two_countries_read_differently_means_both_days() -> None:
    assert stretches("5/7/2023") == [
        "2023-05-07T00 2023-05-08T00",
        "2023-07-05T00 2023-07-06T00",
    ]


def test_a_day_is_one_of_the_wall_clock_of_the_person() -> None:
    moment = datetime(2026, 5, 20, 23, 30, tzinfo=UTC)
    (in_berlin,) = times("today", moment.astimezone(BERLIN))
    (in_shanghai,) = times("today", moment.astimezone(SHANGHAI))
    (in_honolulu,) = times("today", moment.astimezone(timezone(timedelta(hours=-10))))
    assert in_berlin.since.astimezone(UTC) == datetime(2026, 5, 20, 22, tzinfo=UTC)
    assert in_shanghai.since.astimezone(UTC) == datetime(2026, 5, 20, 16, tzinfo=UTC)
    assert in_honolulu.since.astimezone(UTC) == datetime(2026, 5, 20, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "hours"),
    [(datetime(2026, 3, 30, 8, tzinfo=BERLIN), 23), (datetime(2026, 10, 26, 8, tzinfo=BERLIN), 25)],
)
def test_a_day_on_which_the_clocks_change_is_one_day(now: datetime, hours: int) -> None:
    (day,) = times("yesterday", now)
    length = day.until.astimezone(UTC) - day.since.astimezone(UTC)
    assert length == timedelta(hours=hours)


def test_hours_are_counted_through_a_change_of_the_clocks() -> None:
    (around,) = times("two hours ago", datetime(2026, 3, 29, 4, 0, tzinfo=BERLIN))
    assert around.since.astimezone(UTC) == datetime(2026, 3, 28, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "query", "since", "until"),
    [
        (datetime(2026, 3, 31, 12, tzinfo=UTC), "last month", "2026-02-01", "2026-03-01"),
        (datetime(2026, 1, 1, 0, 5, tzinfo=UTC), "yesterday", "2025-12-31", "2026-01-01"),
        (datetime(2026, 1, 1, 0, 5, tzinfo=UTC), "上个月", "2025-12-01", "2026-01-01"),
        (datetime(2028, 2, 29, 9, tzinfo=UTC), "a year ago", "2027-01-01", "2028-01-01"),
        (datetime(2026, 1, 4, 9, tzinfo=UTC), "last week", "2025-12-22", "2025-12-29"),
        (datetime(2026, 5, 24, 9, tzinfo=UTC), "last weekend", "2026-05-16", "2026-05-18"),
        (datetime(2026, 5, 24, 9, tzinfo=UTC), "this weekend", "2026-05-23", "2026-05-25"),
        (datetime(2026, 1, 15, 9, tzinfo=UTC), "this winter", "2025-12-01", "2026-03-01"),
        (datetime(2026, 1, 15, 9, tzinfo=UTC), "last winter", "2024-12-01", "2025-03-01"),
    ],
)
def test_borders_of_months_weeks_and_years_hold(
    now: datetime, query: str, since: str, until: str
) -> None:
    assert stretches(query, now) == days(since, until)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        times("today", datetime(2026, 5, 20))


@pytest.mark.parametrize("query", ["今天" * 500_000, "in May " * 200_000, "1" * 1_000_000])
def test_a_very_long_question_is_read_at_its_beginning_only(query: str) -> None:
    assert len(times(query, NOW)) <= 8


@pytest.mark.parametrize(
    "query",
    [
        "my latest plan",
        "the most recent invoice",
        "What did we say last time?",
        "上次的餐厅",
        "最近",
    ],
)
def test_words_of_recency_are_heard(query: str) -> None:
    assert asks_for_latest(query)


@pytest.mark.parametrize("query", ["at last", "the last samurai", "三天前", "lattest"])
def test_other_words_ask_for_nothing_recent(query: str) -> None:
    assert not asks_for_latest(query)
