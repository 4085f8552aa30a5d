"""When something that recurs is due: by the clock on the wall, also where that is changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import InvalidInputError
from service.schedules.recurrence import Recurrence, Timing
from service.schedules.wall_clock import moment_at, shown_at, zone_of

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe")
DAILY_AT_HALF_PAST_TWO = Recurrence(unit="day", times=(time(2, 30),))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def daily(at: time, zone: str, now: datetime) -> Timing:
    return Timing.recurring(Recurrence(unit="day", times=(at,)), zone=zone, now=now)


def shown(timing: Timing, now: datetime, count: int) -> list[str]:
    zone = ZoneInfo(timing.zone)
    return [f"{each.astimezone(zone):%m-%d %H:%M %z}" for each in timing.upcoming(now, count)]


def test_a_time_that_spring_leaves_out_is_the_first_moment_after_it() -> None:
    now = utc("2026-03-28T00:00")
    assert shown(daily(time(2, 30), "Europe/Berlin", now), now, 3) == [
        "03-28 02:30 +0100",
        "03-29 03:00 +0200",
        "03-30 02:30 +0200",
    ]
    now = utc("2026-03-07T00:00")
    assert shown(daily(time(2, 30), "America/New_York", now), now, 3) == [
        "03-07 02:30 -0500",
        "03-08 03:00 -0400",
        "03-09 02:30 -0400",
    ]


def test_a_time_that_comes_twice_in_autumn_is_due_once_and_the_first_time() -> None:
    now = utc("2026-10-24T00:00")
    assert shown(daily(time(2, 30), "Europe/Berlin", now), now, 3) == [
        "10-24 02:30 +0200",
        "10-25 02:30 +0200",
        "10-26 02:30 +0100",
    ]


def test_eight_in_the_morning_stays_eight_when_clocks_are_changed() -> None:
    autumn = utc("2026-10-31T00:00")
    assert shown(daily(time(8), "America/New_York", autumn), autumn, 3) == [
        "10-31 08:00 -0400",
        "11-01 08:00 -0500",
        "11-02 08:00 -0500",
    ]
    spring = utc("2026-03-28T00:00")
    assert shown(daily(time(8), "Asia/Shanghai", spring), spring, 2) == [
        "03-29 08:00 +0800",
        "03-30 08:00 +0800",
    ]


def test_two_times_that_spring_leaves_out_are_due_once() -> None:
    recurrence = Recurrence(unit="day", times=(time(2, 10), time(2, 40)))
    now = utc("2026-03-28T12:00")
    timing = Timing.recurring(recurrence, zone="Europe/Berlin", now=now)
    assert shown(timing, now, 2) == ["03-29 03:00 +0200", "03-30 02:10 +0200"]


def test_what_recurs_by_hours_does_not_go_by_what_clocks_show() -> None:
    now = utc("2026-03-29T00:00")
    timing = Timing.recurring(Recurrence(unit="hour"), zone="Europe/Berlin", now=now)
    assert shown(timing, now, 3) == [
        "03-29 03:00 +0200",
        "03-29 04:00 +0200",
        "03-29 05:00 +0200",
    ]


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
    st.sampled_from(ZONES),
)
def test_a_later_time_on_the_wall_is_never_an_earlier_moment(
    one: datetime, other: datetime, name: str
) -> None:
    zone = zone_of(name)
    earlier, later = sorted((one, other))
    assert moment_at(earlier, zone) <= moment_at(later, zone)
    for wall in (earlier, later):
        there = shown_at(moment_at(wall, zone), zone)
        assert there == wall or there > wall, "it is early"


by_calendar = st.one_of(
    st.builds(
        Recurrence,
        unit=st.just("week"),
        every=st.integers(1, 3),
        weekdays=st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple),
        times=st.lists(st.times(), min_size=1, max_size=2).map(
            lambda times: tuple(each.replace(second=0, microsecond=0) for each in times)
        ),
    ),
    st.builds(
        Recurrence,
        unit=st.just("day"),
        every=st.integers(1, 9),
        times=st.lists(st.integers(0, 23).map(time), min_size=1, max_size=2).map(tuple),
    ),
    st.builds(
        Recurrence,
        unit=st.just("month"),
        month_days=st.lists(st.sampled_from((1, 15, 29, 31, -1)), min_size=1).map(tuple),
        times=st.just((time(2, 30),)),
    ),
)


def fits(recurrence: Recurrence, day: date, first: date) -> bool:
    """Whether a day is one of a recurrence, told without a calendar of rules."""
    match recurrence.unit:
        case "day":
            return (day - first).days % recurrence.every == 0
        case "week":
            weeks = (day - timedelta(day.weekday()) - (first - timedelta(first.weekday()))).days
            return day.weekday() in recurrence.weekdays and weeks // 7 % recurrence.every == 0
    is_last = (day + timedelta(1)).day == 1
    return day.day in recurrence.month_days or (-1 in recurrence.month_days and is_last)


@given(
    by_calendar,
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(ZONES),
)
def test_it_is_due_on_all_its_days_and_on_no_other(
    recurrence: Recurrence, now: datetime, name: str
) -> None:
    zone, timing = zone_of(name), Timing.recurring(recurrence, zone=name, now=now)
    first = shown_at(timing.start, zone).date()
    until = now + timedelta(days=100)
    expected = {
        moment
        for ahead in range(103)
        if fits(recurrence, day := first + timedelta(days=ahead), first)
        for at in recurrence.times
        if timing.start <= (moment := moment_at(datetime.combine(day, at), zone)) <= until
    }
    passed = timing.passed(timing.start, until, keep=1000)
    assert passed.newest == tuple(sorted(expected))
    one_by_one = []
    moment = now
    while (due := timing.next_after(moment)) is not None and due <= until:
        one_by_one.append(due)
        moment = due
    assert one_by_one == sorted(expected)


@given(by_calendar, st.integers(0, 300), st.integers(0, 5))
def test_what_passed_is_counted_whole_however_few_are_told_one_by_one(
    recurrence: Recurrence, days: int, keep: int
) -> None:
    now = utc("2026-01-01T00:00")
    timing = Timing.recurring(recurrence, zone="Europe/Berlin", now=now)
    until = now + timedelta(days=days)
    whole = timing.passed(timing.start, until, keep=10_000).newest
    told_apart = timing.passed(timing.start, until, keep=keep)
    assert told_apart.newest == whole[len(whole) - min(keep, len(whole)) :]
    older = whole[: len(whole) - len(told_apart.newest)]
    assert told_apart.older == ((older[0], older[-1], len(older)) if older else None)


def test_the_first_one_of_every_second_week_is_the_next() -> None:
    now = utc("2026-11-24T12:00")  # a Tuesday
    recurrence = Recurrence(unit="week", every=2, weekdays=(0,), times=(time(9),))
    timing = Timing.recurring(recurrence, zone="UTC", now=now)
    assert [f"{each:%m-%d}" for each in timing.upcoming(now, 3)] == ["11-30", "12-14", "12-28"]


def test_a_leap_day_is_due_in_leap_years_and_no_day_is_no_schedule() -> None:
    now = utc("2026-11-24T12:00")
    leap = Recurrence(unit="year", months=(2,), month_days=(29,), times=(time(9),))
    timing = Timing.recurring(leap, zone="UTC", now=now)
    assert [each.year for each in timing.upcoming(now, 2)] == [2028, 2032]
    never = leap.model_copy(update={"month_days": (30,)})
    with pytest.raises(InvalidInputError, match="no calendar has such a day"):
        Timing.recurring(never, zone="UTC", now=now)


def test_a_timing_is_the_same_when_it_is_read_back() -> None:
    now = utc("2026-11-24T12:00")
    timing = Timing.recurring(DAILY_AT_HALF_PAST_TWO, zone="Europe/Berlin", now=now)
    assert Timing.model_validate_json(timing.model_dump_json()) == timing
