"""Times that people name loosely: parts of months and years, "the other day", "the 8th"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from service.memory.search.time.time_expressions import Timeliness, times

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 5, 20, 9, 30, tzinfo=BERLIN)  # a Wednesday


def stretches(query: str, now: datetime = NOW) -> list[str]:
    return [f"{since:%Y-%m-%dT%H} {until:%Y-%m-%dT%H}" for since, until in times(query, now)]


PARTS_OF_YEARS_AND_MONTHS = [
    ("early 2025", "2025-01-01", "2025-05-01"),
    ("what did we plan in mid-2025?", "2025-05-01", "2025-09-01"),
    ("late 2025", "2025-09-01", "2026-01-01"),
    ("late in 2024", "2024-09-01", "2025-01-01"),
    ("the beginning of 2025", "2025-01-01", "2025-03-01"),
    ("at the end of 2025", "2025-11-01", "2026-01-01"),
    ("early last year", "2025-01-01", "2025-05-01"),
    ("late last year we moved", "2025-09-01", "2026-01-01"),
    ("the end of last year", "2025-11-01", "2026-01-01"),
    ("the first half of 2025", "2025-01-01", "2025-07-01"),
    ("the second half of last year", "2025-07-01", "2026-01-01"),
    ("early May", "2026-05-01", "2026-05-11"),
    ("What did I say in early May about the boat?", "2026-05-01", "2026-05-11"),
    ("mid-March", "2026-03-11", "2026-03-21"),
    ("late April", "2026-04-21", "2026-05-01"),
    ("late May", "2025-05-21", "2025-06-01"),
    ("late May 2024", "2024-05-21", "2024-06-01"),
    ("the beginning of May 2024", "2024-05-01", "2024-05-11"),
    ("the beginning of last month", "2026-04-01", "2026-04-11"),
    ("at the end of last month", "2026-04-21", "2026-05-01"),
    ("the middle of February 2024", "2024-02-11", "2024-02-21"),
    ("end of February 2024", "2024-02-21", "2024-03-01"),
    ("early last week", "2026-05-11", "2026-05-13"),
    ("the end of last week", "2026-05-15", "2026-05-18"),
    ("late last summer", "2025-08-01", "2025-09-01"),
    ("early summer 2024", "2024-06-01", "2024-07-01"),
    ("between early March and late April", "2026-03-01", "2026-05-01"),
    ("年初", "2026-01-01", "2026-03-01"),
    ("年初我们说了什么", "2026-01-01", "2026-03-01"),
    ("年底", "2025-11-01", "2026-01-01"),
    ("去年年底的会", "2025-11-01", "2026-01-01"),
    ("2025年初", "2025-01-01", "2025-03-01"),
    ("2025年底", "2025-11-01", "2026-01-01"),
    ("2025年中国发生了什么", "2025-01-01", "2026-01-01"),
    ("去年年中", "2025-06-01", "2025-08-01"),
    ("2025年上半年", "2025-01-01", "2025-07-01"),
    ("下半年", "2025-07-01", "2026-01-01"),
    ("2025年第二季度", "2025-04-01", "2025-07-01"),
    ("月初", "2026-05-01", "2026-05-11"),
    ("月底", "2026-04-21", "2026-05-01"),
    ("上个月底", "2026-04-21", "2026-05-01"),
    ("上旬", "2026-05-01", "2026-05-11"),
    ("中旬", "2026-05-11", "2026-05-21"),
    ("下旬", "2026-04-21", "2026-05-01"),
    ("5月上旬", "2026-05-01", "2026-05-11"),
    ("5月下旬", "2025-05-21", "2025-06-01"),
    ("2024年2月下旬", "2024-02-21", "2024-03-01"),
]

WEEKS_AND_DAYS = [
    ("the week before last", "2026-05-04", "2026-05-11"),
    ("What did we do the week before last?", "2026-05-04", "2026-05-11"),
    ("the month before last", "2026-03-01", "2026-04-01"),
    ("the year before last", "2024-01-01", "2025-01-01"),
    ("the weekend before last", "2026-05-09", "2026-05-11"),
    ("the Tuesday before last", "2026-05-12", "2026-05-13"),
    ("the summer before last", "2024-06-01", "2024-09-01"),
    ("two weekends ago", "2026-05-09", "2026-05-11"),
    ("a weekend ago", "2026-05-16", "2026-05-18"),
    ("two Tuesdays ago", "2026-05-12", "2026-05-13"),
    ("two summers ago", "2024-06-01", "2024-09-01"),
    ("a fortnight ago", "2026-05-04", "2026-05-11"),
    ("a couple of weeks ago", "2026-05-04", "2026-05-11"),
    ("a few days ago", "2026-05-15", "2026-05-19"),
    ("several days ago", "2026-05-13", "2026-05-18"),
    ("a few weeks ago", "2026-04-13", "2026-05-11"),
    ("thirty days ago", "2026-04-20", "2026-04-21"),
    ("the other day", "2026-05-06", "2026-05-20"),
    ("What was that book the other day?", "2026-05-06", "2026-05-20"),
    ("on the 8th", "2026-05-08", "2026-05-09"),
    ("What did Ann say on the 8th about the boat?", "2026-05-08", "2026-05-09"),
    ("on the 25th", "2026-04-25", "2026-04-26"),
    ("on the 31st", "2026-03-31", "2026-04-01"),
    ("the 8th of last month", "2026-04-08", "2026-04-09"),
    ("on the 8th of this month", "2026-05-08", "2026-05-09"),
    ("from the 3rd to the 9th", "2026-05-03", "2026-05-10"),
    ("上上周", "2026-05-04", "2026-05-11"),
    ("小明上周说了什么", "2026-05-11", "2026-05-18"),
    ("桌子下昨天放了什么", "2026-05-19", "2026-05-20"),
    ("Was Ann happy last week?", "2026-05-11", "2026-05-18"),
    ("Was she happy in April?", "2026-04-01", "2026-05-01"),
    ("上上个周末", "2026-05-09", "2026-05-11"),
    ("上上个月", "2026-03-01", "2026-04-01"),
    ("8号", "2026-05-08", "2026-05-09"),
    ("8号我们说了什么", "2026-05-08", "2026-05-09"),
    ("二十五号的会议", "2026-04-25", "2026-04-26"),
    ("上个月8号", "2026-04-08", "2026-04-09"),
    ("前几天", "2026-05-13", "2026-05-20"),
    ("前两天说的那本书", "2026-05-13", "2026-05-20"),
    ("几天前", "2026-05-15", "2026-05-19"),
    ("前阵子", "2026-03-21", "2026-05-20"),
    ("前年", "2024-01-01", "2025-01-01"),
    ("大前天", "2026-05-17", "2026-05-18"),
]

SEASONS_AND_MONTHS = [
    ("in the spring", "2026-03-01", "2026-06-01"),
    ("in summer", "2025-06-01", "2025-09-01"),
    ("in the autumn of 2024", "2024-09-01", "2024-12-01"),
    ("in the fall of 2024", "2024-09-01", "2024-12-01"),
    ("in the winter of 2024", "2024-12-01", "2025-03-01"),
    ("last summer", "2025-06-01", "2025-09-01"),
    ("in summer last year", "2025-06-01", "2025-09-01"),
    ("last year in the summer", "2025-06-01", "2025-09-01"),
    ("before last summer", "1900-01-01", "2025-06-01"),
    ("this time last year", "2025-05-05", "2025-06-05"),
    ("around this time last month", "2026-04-17", "2026-04-24"),
    ("this time last week", "2026-05-12", "2026-05-15"),
    ("between March and May", "2026-03-01", "2026-06-01"),
    ("What did we buy between March and May for the garden?", "2026-03-01", "2026-06-01"),
    ("between March and May 2024", "2024-03-01", "2024-06-01"),
    ("between November and January", "2025-11-01", "2026-02-01"),
    ("between October and July", "2024-10-01", "2025-08-01"),
    ("until June", "1900-01-01", "2025-06-01"),
    ("in May last year", "2025-05-01", "2025-06-01"),
    ("in May of last year", "2025-05-01", "2025-06-01"),
    ("last year in May", "2025-05-01", "2025-06-01"),
    ("8 May last year", "2025-05-08", "2025-05-09"),
    ("去年夏天", "2025-06-01", "2025-09-01"),
    ("这个春天", "2026-03-01", "2026-06-01"),
    ("上个冬天", "2025-12-01", "2026-03-01"),
    ("去年这个时候", "2025-05-05", "2025-06-05"),
    ("去年的这个时候", "2025-05-05", "2025-06-05"),
    ("去年同期", "2025-05-05", "2025-06-05"),
    ("前年这个时候", "2024-05-05", "2024-06-05"),
    ("上个月这个时候", "2026-04-17", "2026-04-24"),
    ("三月到五月", "2026-03-01", "2026-06-01"),
    ("3到5月", "2026-03-01", "2026-06-01"),
    ("去年3到5月", "2025-03-01", "2025-06-01"),
    ("2024年3月到5月", "2024-03-01", "2024-06-01"),
    ("三月和五月之间", "2026-03-01", "2026-06-01"),
    ("六月之前", "1900-01-01", "2025-06-01"),
    ("2023年以前", "1900-01-01", "2023-01-01"),
    ("2023年前", "1900-01-01", "2023-01-01"),
    ("五月前", "1900-01-01", "2026-05-01"),
]

DATES = [
    ("8-May-2023", "2023-05-08", "2023-05-09"),
    ("2023 May 8", "2023-05-08", "2023-05-09"),
    ("2023.05.08", "2023-05-08", "2023-05-09"),
    ("08-08-2023", "2023-08-08", "2023-08-09"),
    ("Monday, 8 May 2023", "2023-05-08", "2023-05-09"),
    ("Mon 8 May 2023", "2023-05-08", "2023-05-09"),
    ("on Friday, May 8", "2026-05-08", "2026-05-09"),
    ("What did we say on Friday, May 8, about Ann?", "2026-05-08", "2026-05-09"),
    ("2023-05-08 (Monday)", "2023-05-08", "2023-05-09"),
    ("Friday the 8th of May", "2026-05-08", "2026-05-09"),
    ("May 3-9", "2026-05-03", "2026-05-10"),
    ("3 to 9 May 2024", "2024-05-03", "2024-05-10"),
    ("2023", "2023-01-01", "2024-01-01"),
    ("23年5月8日", "2023-05-08", "2023-05-09"),
    ("5月8日星期五", "2026-05-08", "2026-05-09"),
    ("2023年5月8日（周一）", "2023-05-08", "2023-05-09"),
    ("星期五，5月8日", "2026-05-08", "2026-05-09"),
    ("5月3日到8日", "2026-05-03", "2026-05-09"),
    ("2024年5月3号到8号", "2024-05-03", "2024-05-09"),
]


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [*PARTS_OF_YEARS_AND_MONTHS, *WEEKS_AND_DAYS, *SEASONS_AND_MONTHS, *DATES],
)
def test_whole_days_are_understood(query: str, since: str, until: str) -> None:
    assert stretches(query) == [f"{since}T00 {until}T00"]


@pytest.mark.parametrize(
    ("query", "stretch"),
    [
        ("recently", "2026-04-20T00 2026-05-20T09"),
        ("What have I read lately?", "2026-04-20T00 2026-05-20T09"),
        ("最近", "2026-04-20T00 2026-05-20T09"),
        ("近期我们聊了什么", "2026-04-20T00 2026-05-20T09"),
        ("earlier this week", "2026-05-18T00 2026-05-20T09"),
        ("earlier this year", "2026-01-01T00 2026-05-20T09"),
        ("a few hours ago", "2026-05-20T04 2026-05-20T08"),
        ("since the spring", "2026-03-01T00 2026-05-20T09"),
        ("since the 8th", "2026-05-08T00 2026-05-20T09"),
        ("after early May", "2026-05-11T00 2026-05-20T09"),
        ("年初以来", "2026-01-01T00 2026-05-20T09"),
        ("8号上午", "2026-05-08T05 2026-05-08T12"),
        ("8号之后", "2026-05-09T00 2026-05-20T09"),
    ],
)
def test_stretches_up_to_now_and_parts_of_days_are_understood(query: str, stretch: str) -> None:
    assert stretches(query) == [stretch]


@pytest.mark.parametrize(
    "query",
    [
        "may I",
        "May I ask until you may?",
        "march on",
        "between us and may I say",
        "spring roll",
        "a recipe in spring roll style",
        "in spring boot 3",
        "fall asleep",
        "to fall in love",
        "in the fall of the empire",
        "second opinion",
        "on the 8th floor",
        "on the 1st try",
        "the 2nd page",
        "to the 3rd degree",
        "the 8th wonder",
        "early bird",
        "the end of the story",
        "too late",
        "mid-size cars",
        "half of 2 liters",
        "a few of them",
        "the weak before last",
        "next Tuesday?",
        "every Tuesday.",
        "each summer, next May.",
        "一号选手",
        "8号线",
        "坐8号线",
        "住在8号楼",
        "8号电池",
        "第8号",
        "A8号",
        "三号球衣",
        "地址是前门大街18号。",
        "在复兴门外大街16号",
        "金泰公寓15号。",
        "最近的超市",
        "明年初",
        "明年春天",
        "每年年底",
        "下个月8号",
        "农历八月十五号",
        "三年中",
        "五年初中",
        "春天在哪里",
        "3到5人",
    ],
)
def test_other_words_are_no_times(query: str) -> None:
    assert stretches(query) == []


@pytest.mark.parametrize(
    ("now", "query", "since", "until"),
    [
        # Borders of years.
        (
            datetime(2026, 1, 1, 0, 5, tzinfo=UTC),
            "the week before last",
            "2025-12-15",
            "2025-12-22",
        ),
        (datetime(2026, 1, 5, tzinfo=UTC), "on the 8th", "2025-12-08", "2025-12-09"),
        (datetime(2026, 1, 5, tzinfo=UTC), "the 31st of last month", "2025-12-31", "2026-01-01"),
        (datetime(2026, 1, 5, tzinfo=UTC), "the month before last", "2025-11-01", "2025-12-01"),
        (datetime(2026, 1, 5, tzinfo=UTC), "a few days ago", "2025-12-31", "2026-01-04"),
        (datetime(2026, 1, 5, tzinfo=UTC), "late December", "2025-12-21", "2026-01-01"),
        (datetime(2026, 1, 5, tzinfo=UTC), "年底", "2025-11-01", "2026-01-01"),
        (datetime(2026, 1, 5, tzinfo=UTC), "月底", "2025-12-21", "2026-01-01"),
        (datetime(2026, 12, 24, tzinfo=UTC), "年底", "2026-11-01", "2027-01-01"),
        (datetime(2026, 1, 5, tzinfo=UTC), "下半年", "2025-07-01", "2026-01-01"),
        (datetime(2026, 1, 15, tzinfo=UTC), "the winter before last", "2023-12-01", "2024-03-01"),
        # 29 February.
        (datetime(2028, 2, 29, 9, tzinfo=UTC), "this time last year", "2027-02-13", "2027-03-16"),
        (datetime(2028, 3, 1, 9, tzinfo=UTC), "on the 29th", "2028-02-29", "2028-03-01"),
        (datetime(2027, 3, 1, 9, tzinfo=UTC), "on the 29th", "2027-01-29", "2027-01-30"),
        (datetime(2027, 3, 1, 9, tzinfo=UTC), "on the 31st", "2027-01-31", "2027-02-01"),
        (datetime(2028, 3, 1, 9, tzinfo=UTC), "late February", "2028-02-21", "2028-03-01"),
        (datetime(2028, 3, 9, tzinfo=UTC), "the end of last month", "2028-02-21", "2028-03-01"),
        # Weeks begin on Monday.
        (
            datetime(2026, 5, 18, 0, 0, tzinfo=UTC),
            "the week before last",
            "2026-05-04",
            "2026-05-11",
        ),
        (datetime(2026, 5, 17, 23, 59, tzinfo=UTC), "上上周", "2026-04-27", "2026-05-04"),
        (datetime(2026, 5, 17, 12, tzinfo=UTC), "two weekends ago", "2026-05-02", "2026-05-04"),
        (datetime(2026, 5, 18, 12, tzinfo=UTC), "two weekends ago", "2026-05-09", "2026-05-11"),
    ],
)
def test_borders_of_years_months_and_weeks_hold(
    now: datetime, query: str, since: str, until: str
) -> None:
    assert stretches(query, now) == [f"{since}T00 {until}T00"]


def test_a_week_from_monday_to_sunday_is_not_a_year() -> None:
    opening = times("周一至周日", NOW)
    assert all(until - since <= timedelta(days=7) for since, until in opening)


@pytest.mark.parametrize(
    ("query", "hours"), [("late March", 11 * 24 - 1), ("this time last week", 72 - 1)]
)
def test_a_stretch_in_which_the_clocks_change_ends_at_midnight(query: str, hours: int) -> None:
    (stretch,) = times(query, datetime(2026, 4, 5, 12, tzinfo=BERLIN))
    length = stretch.until.astimezone(UTC) - stretch.since.astimezone(UTC)
    assert length == timedelta(hours=hours)
    assert (stretch.since.hour, stretch.until.hour) == (0, 0)


def test_recently_is_where_to_look_and_the_order_stays_by_place() -> None:
    timeliness = Timeliness("What did I read recently?", NOW)
    old = [NOW.timestamp() - 86_400 * days for days in (900, 800, 700)]
    assert len(timeliness.ranges) == 1
    assert timeliness.fits(old) == [0.0, 0.25, 0.5]
    assert stretches("recently, in 2023") == ["2023-01-01T00 2024-01-01T00"]


@pytest.mark.parametrize(
    "query",
    [
        "8 May 2023",
        "May 2023",
        "What did we talk about last Tuesday?",
        "what happened between March and May?",
        "Everything since the 8th, please.",
        "5月8日",
        "昨天我说了什么？",
        "去年夏天我们聊过哪些事情",
        "最近",
    ],
)
def test_a_question_may_ask_for_a_time_alone(query: str) -> None:
    assert Timeliness(query, NOW).asks in ("oldest", "newest")


@pytest.mark.parametrize(
    "query", ["What did Ann say last Tuesday?", "the boat in May 2023", "昨天的会议", "say", ""]
)
def test_a_question_that_names_a_topic_does_not(query: str) -> None:
    assert Timeliness(query, NOW).asks == "topic"
