"""What people say of a time to come is read as they mean it, or refused with an example."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import InvalidInputError
from service.schedules.phrases.reading import read_when
from service.schedules.timing_words import language_of, timing_in_words

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 24, 12, 0, tzinfo=BERLIN)  # a Tuesday


def upcoming(phrase: str, count: int = 1) -> list[str]:
    timing = read_when(phrase, now=NOW, zone="Europe/Berlin")
    return [f"{each.astimezone(BERLIN):%m-%d %H:%M}" for each in timing.upcoming(NOW, count)]


@pytest.mark.parametrize(
    ("phrase", "due"),
    [
        ("tomorrow at 9", "11-25 09:00"),
        ("Tomorrow, 9am.", "11-25 09:00"),
        ("at nine tomorrow", "11-25 09:00"),
        ("half past nine tomorrow", "11-25 09:30"),
        ("day after tomorrow at 8:15", "11-26 08:15"),
        ("tonight at 8", "11-24 20:00"),
        ("this evening at 8", "11-24 20:00"),
        ("at 8", "11-25 08:00"),
        ("in 1.5 hours", "11-24 13:30"),
        ("at 3pm", "11-24 15:00"),
        ("at 03:30", "11-25 03:30"),
        ("friday 5 p.m.", "11-27 17:00"),
        ("on tuesday at 18:00", "12-01 18:00"),
        ("this Friday at noon", "11-27 12:00"),
        ("next Monday at 9", "11-30 09:00"),
        ("in 20 minutes", "11-24 12:20"),
        ("in half an hour", "11-24 12:30"),
        ("in an hour and a half", "11-24 13:30"),
        ("90 minutes from now", "11-24 13:30"),
        ("in 3 days", "11-27 12:00"),
        ("in two weeks at 9", "12-08 09:00"),
        ("24 December at 9", "12-24 09:00"),
        ("december 24th, 2026 at 9am", "12-24 09:00"),
        ("on the 15th at 10", "12-15 10:00"),
        ("2026-12-24 09:00", "12-24 09:00"),
        ("2026-12-24T09:00:00+08:00", "12-24 02:00"),
        ("明天早上九点", "11-25 09:00"),
        ("明早8点", "11-25 08:00"),
        ("明晚八点半", "11-25 20:30"),
        ("后天下午3点15分", "11-26 15:15"),
        ("今晚８点", "11-24 20:00"),
        ("下午三点一刻", "11-24 15:15"),
        ("20分钟后", "11-24 12:20"),
        ("半小时后", "11-24 12:30"),
        ("一个半小时后", "11-24 13:30"),
        ("过两个小时", "11-24 14:00"),
        ("三天后", "11-27 12:00"),
        ("这周五下午三点", "11-27 15:00"),
        ("下周一早上九点", "11-30 09:00"),
        ("星期天早上十点", "11-29 10:00"),
        ("12月24日上午九点", "12-24 09:00"),
        ("15号中午12点", "12-15 12:00"),
    ],
)
def test_one_time_is_read(phrase: str, due: str) -> None:
    assert upcoming(phrase) == [due]
    assert read_when(phrase, now=NOW, zone="Europe/Berlin").recurrence is None


@pytest.mark.parametrize(
    ("phrase", "words", "due"),
    [
        ("every weekday at 8", "every weekday at 08:00", ["11-25 08:00", "11-26 08:00"]),
        ("weekdays at 8 in the evening", "every weekday at 20:00", ["11-24 20:00", "11-25 20:00"]),
        ("every day at 8 and 20", "every day at 08:00 and 20:00", ["11-24 20:00", "11-25 08:00"]),
        ("every morning at 7", "every day at 07:00", ["11-25 07:00", "11-26 07:00"]),
        ("every other day at 7", "every 2 days at 07:00", ["11-25 07:00", "11-27 07:00"]),
        ("Mondays at 9am", "every Monday at 09:00", ["11-30 09:00", "12-07 09:00"]),
        (
            "every monday and thursday at 9:30",
            "every Monday and Thursday at 09:30",
            ["11-26 09:30", "11-30 09:30"],
        ),
        (
            "every 2 weeks on monday at 9",
            "every 2 weeks on Monday at 09:00",
            ["11-30 09:00", "12-14 09:00"],
        ),
        (
            "every first of the month at 10",
            "on the 1st of every month at 10:00",
            ["12-01 10:00", "01-01 10:00"],
        ),
        (
            "on the last day of every month at 18:00",
            "on the last day of every month at 18:00",
            ["11-30 18:00", "12-31 18:00"],
        ),
        (
            "every first monday of the month at 9",
            "on the first Monday of every month at 09:00",
            ["12-07 09:00", "01-04 09:00"],
        ),
        (
            "every 24 december at 9",
            "on 24 December of every year at 09:00",
            ["12-24 09:00", "12-24 09:00"],
        ),
        ("every weekend at 10", "every Saturday and Sunday at 10:00", ["11-28 10:00"]),
        ("daily at midnight", "every day at 00:00", ["11-25 00:00"]),
        ("每周一早上九点", "每周一 09:00", ["11-30 09:00", "12-07 09:00"]),
        ("每天八点", "每天 08:00", ["11-25 08:00", "11-26 08:00"]),
        ("每晚十点", "每天 22:00", ["11-24 22:00"]),
        ("工作日早上8点", "每个工作日 08:00", ["11-25 08:00", "11-26 08:00"]),
        ("每周一三五早上7点", "每周一、周三、周五 07:00", ["11-25 07:00", "11-27 07:00"]),
        ("每周一、周三早上七点半", "每周一、周三 07:30", ["11-25 07:30", "11-30 07:30"]),
        ("每两周周一早上九点", "每2周的周一 09:00", ["11-30 09:00", "12-14 09:00"]),
        ("每月1号上午十点", "每月1号 10:00", ["12-01 10:00", "01-01 10:00"]),
        ("每个月最后一天晚上八点", "每月最后一天 20:00", ["11-30 20:00"]),
        ("每月第一个周一早上九点", "每月第一个周一 09:00", ["12-07 09:00"]),
        ("每年12月24日九点", "每年12月24号 09:00", ["12-24 09:00"]),
    ],
)
def test_what_recurs_is_read_and_told_back(phrase: str, words: str, due: list[str]) -> None:
    timing = read_when(phrase, now=NOW, zone="Europe/Berlin")
    assert timing_in_words(timing, language_of(phrase)) == f"{words} (Europe/Berlin)"
    assert upcoming(phrase, len(due)) == due


@pytest.mark.parametrize(
    ("phrase", "due"),
    [("every 5 minutes", "11-24 12:05"), ("hourly", "11-24 13:00"), ("每2小时", "11-24 14:00")],
)
def test_what_recurs_by_minutes_begins_after_one_such_time(phrase: str, due: str) -> None:
    assert upcoming(phrase) == [due]


@pytest.mark.parametrize(
    ("phrase", "why"),
    [
        ("at 3", "in the morning or in the afternoon"),
        ("3点", "in the morning or in the afternoon"),
        ("every tuesday at 4", "in the morning or in the afternoon"),
        ("next friday at 9", "2026-11-27 or 2026-12-04"),
        ("下周三早上九点", "2026-11-25 or 2026-12-02"),
        ("tomorrow", "at what time is not said"),
        ("tomorrow morning", "at what time is not said"),
        ("明天早上", "at what time is not said"),
        ("every day", "at what time is not said"),
        ("weekly at 9", "on which day of the week is not said"),
        ("every month at 9", "on which day of the month is not said"),
        ("tomorrow at midnight", "its beginning or its end"),
        ("晚上12点", "not clear"),
        ("today at 9", "has passed"),
        ("2020-01-01 09:00", "has passed"),
        ("yesterday at 9", "not understood: 'yesterday'"),
        ("every quarter at 9", "not understood: 'quarter'"),
        ("tomorrow at 9 PST", "not understood: 'pst'"),
        ("every 30 seconds", "by the minute"),
        ("每30秒", "最多精确到分钟"),
        ("every 0 minutes", "cannot recur"),
        ("每0分钟", "cannot recur"),
        ("every 0 days at 9", "cannot recur"),
        ("in 999999999999 minutes", "999999999999 is too large a number"),
        ("每99999分钟", "99999 is too large a number"),
        ("in 9000 years", "too far off"),
        ("9000年后", "too far off"),
        ("every 31 at 9", "every 31 of what is not said"),
        ("24/12 at 9", "which number of 24/12 is the month"),
        ("tomorrow 9", "whether 9 is a time"),
        ("every monday at 9 and thursday at 10", "different days have different times"),
        ("every hour at 9", "has no days and times of its own"),
        ("every feb 30 at 9", "no calendar has such a day"),
        ("on 31 april at 9", "there is no 2026-04-31"),
        ("at 25", "there is no time 25:00"),
        ("tomorrow at 9 in 20 minutes", "both how long from now and when"),
        ("every monday tomorrow at 9", "both how often and a single day"),
        ("2999-01-01 09:00", "too far off"),
        ("", "no time is told"),
        ("。", "not understood"),
        ("tomorrow at 9 " * 50, "too many words"),
    ],
)
def test_what_is_not_clear_is_refused_and_says_what_to_do(phrase: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_when(phrase, now=NOW, zone="Europe/Berlin")
    assert why in refused.value.detail
    assert refused.value.advice


WORDS = st.sampled_from(
    [
        *("in", "at", "every", "on", "the", "of", "9", "20", "3pm", "9:30", "monday", "mondays"),
        *("weekday", "tomorrow", "today", "next", "week", "month", "first", "last", "day", "hour"),
        *("0", "999999999999", "years", "年"),
        *("minutes", "december", "24", "每", "天", "周", "一", "点", "九", "早上", "后", "明天"),
        *("个", "月", "号", "半", "20分钟", "十二月", "和", "、"),
    ]
)


@given(st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=30))
def test_whatever_is_said_is_read_to_come_or_refused(phrase: str) -> None:
    try:
        timing = read_when(phrase, now=NOW, zone="Europe/Berlin")
    except InvalidInputError:
        return
    due = timing.next_after(NOW)
    assert due is not None
    assert due > NOW
    assert timing_in_words(timing)
    assert timing_in_words(timing, "zh")


def test_a_time_zone_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no time zone is called 'Mars/Base'"):
        read_when("tomorrow at 9", now=NOW, zone="Mars/Base")
