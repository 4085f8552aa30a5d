"""Random recurrences, jumps of the clock, full disks and restarts: each time has one end."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.errors import StorageError
from service.schedules.recurrence import Recurrence, Timing
from service.schedules.schedule import Occurrence, ScheduleKind
from service.tuning import SCHEDULE_GRACE_SECONDS
from tests.support.agent.clockwork import T0, Clockwork
from tests.support.memory.journal_file import refusing

GRACE = timedelta(seconds=SCHEDULE_GRACE_SECONDS)
TIMINGS = st.builds(
    lambda recurrence, zone: Timing.recurring(recurrence, zone=zone, now=T0),
    st.one_of(
        st.builds(
            Recurrence,
            unit=st.just("day"),
            every=st.integers(1, 2),
            times=st.lists(
                st.builds(time, st.integers(0, 23), st.sampled_from((0, 30))),
                min_size=1,
                max_size=4,
            ).map(tuple),
        ),
        st.builds(
            Recurrence,
            unit=st.just("week"),
            weekdays=st.lists(st.integers(0, 6), min_size=1).map(tuple),
            times=st.just((time(2, 30), time(3, 0))),
        ),
        st.builds(Recurrence, unit=st.just("minute"), every=st.integers(40, 500)),
    ),
    st.sampled_from(("Europe/Berlin", "America/New_York", "Asia/Shanghai")),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("forward"), st.floats(0, 3 * 86_400)),
        st.tuples(st.just("forward"), st.floats(0, 7_200)),
        st.tuples(st.just("back"), st.floats(0, 2 * 86_400)),
        st.tuples(st.just("ahead for a while"), st.floats(0, 30 * 86_400)),
        st.tuples(st.sampled_from(("to its time", "ahead to its time")), st.integers(1, 4)),
        st.tuples(st.sampled_from(("restart", "full disk")), st.just(0.0)),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=25)
@given(TIMINGS, STEPS, st.sampled_from(("reminder", "task")))
def test_schedules_missed_doubled_early_each_time_ran_or_was_skipped_once(
    timing: Timing, steps: list[tuple[str, float]], kind: ScheduleKind
) -> None:
    async def live(folder: Path) -> None:
        clockwork = Clockwork(folder)
        async with clockwork.running():
            await clockwork.add(timing, kind=kind)
        for how, seconds in [*steps, ("forward", 0.0)]:
            async with clockwork.running():
                before = clockwork.now
                if how.endswith("to its time"):
                    clockwork.now = timing.upcoming(before, int(seconds))[-1]
                else:
                    clockwork.now += timedelta(seconds=-seconds if how == "back" else seconds)
                if how == "full disk":
                    with refusing(clockwork.path, "events", "INSERT"):
                        try:
                            await clockwork.look()
                        except StorageError:
                            continue
                await clockwork.look()
                await clockwork.look()
                if how.startswith("ahead"):
                    clockwork.now = before
                    await clockwork.look()
        async with clockwork.running():
            clockwork.now = max(clockwork.now, T0)
            await clockwork.look()
            _check(timing, clockwork, await clockwork.occurrences())

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(live, Path(folder))


def _check(timing: Timing, clockwork: Clockwork, occurrences: Sequence[Occurrence]) -> None:
    *decided, pending = [each for each in occurrences if each.due <= clockwork.now] + [
        each for each in occurrences if each.state == "pending"
    ]
    alone = {each.due for each in occurrences if each.count == 1 and each.state != "pending"}
    covered = list[datetime]()
    for each in decided:
        if each.count == 1:
            covered.append(each.due)
            continue
        assert each.through is not None
        span = timing.passed(each.due, each.through, keep=100_000, without=alone).newest
        assert len(span) == each.count
        covered += span
    expected = timing.passed(timing.start, clockwork.now, keep=100_000).newest
    assert sorted(covered) == list(expected), "each once, and none left out"
    assert all(each.reason or each.state == "ran" for each in decided)
    ran_later = [each for each in occurrences if each.due > clockwork.now and each != pending]
    assert all(each.state == "ran" for each in ran_later), "a clock that was ahead ran it"
    assert pending.due > clockwork.now
    upcoming = timing.upcoming(clockwork.now, len(ran_later) + 1)
    assert pending.due == next(each for each in upcoming if each not in alone)
    for clock, due in clockwork.opened:
        assert due <= clock, "never early"
    on_time = [due for clock, due in clockwork.opened if clock - due <= GRACE]
    assert len(on_time) == len(set(on_time)), "never twice"
    assert set(on_time) <= {each.due for each in occurrences if each.state == "ran"}
