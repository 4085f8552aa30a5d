"""Each time of a schedule runs once or is skipped with a reason: whatever clocks and crashes do."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.agent.schedules.schedule_runner import ScheduleRunner
from service.domain.errors import StorageError
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.ledger.segmenter import segment
from service.schedules.phrases.reading import read_when
from service.schedules.recurrence import Recurrence, Timing
from service.schedules.schedule import SCHEDULED, Occurrence, Schedule, ScheduleKind
from service.tuning import SCHEDULE_GRACE_SECONDS
from tests.support.memory.journal_file import refusing, rows, writing

T0 = datetime(2026, 10, 23, 6, 30, tzinfo=UTC)  # two days before clocks are changed in Berlin
GRACE = timedelta(seconds=SCHEDULE_GRACE_SECONDS)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Daemon:
    """A journal and a runner whose clock a test sets."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.sqlite3"
        self.now = T0
        self.opened: list[tuple[datetime, datetime]] = []
        """Of each time that ran: the clock at that moment, and the time."""
        self._seq = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SqliteJournal]:
        self.journal = SqliteJournal(self.path)
        self.journal.open(lambda change: None)
        self.runner = ScheduleRunner(self.journal, lambda run_loop_id: None, now=lambda: self.now)
        try:
            yield self.journal
        finally:
            await self.journal.aclose()

    async def add(
        self, timing: Timing, *, kind: ScheduleKind = "reminder", name: str = "s"
    ) -> Schedule:
        schedule = Schedule(name, "me", kind, f"water {name}", timing, self.now)
        return await self.journal.schedules.add(schedule)

    async def look(self) -> list[str]:
        """What is due now; what the run loops that opened say, a task with an arrow before it."""
        await self.runner.look()
        said: list[str] = []
        for event in await self.journal.read(after=self._seq):
            self._seq = event.seq or 0
            if event.body.type == "message.received":
                due = datetime.fromisoformat(event.body.metadata[SCHEDULED]["due"])
                self.opened.append((self.now, due))
                said.append(f"→ {event.body.message.text}")
            elif event.body.type == "message.completed":
                said[-1] = event.body.message.text
        return said

    async def occurrences(self, name: str = "s") -> list[Occurrence]:
        found = await self.journal.schedules.occurrences(name, limit=100_000)
        return found[::-1]


def in_words(occurrences: Sequence[Occurrence]) -> list[str]:
    return [
        f"{each.due:%d %H:%M} {each.state} {each.reason or ''}{f' {each.count}' * (each.count > 1)}"
        for each in occurrences
    ]


def once(at: datetime) -> Timing:
    return Timing(start=at, zone="UTC")


def daily(*hours: int) -> Timing:
    recurrence = Recurrence(unit="day", times=tuple(time(each) for each in hours))
    return Timing.recurring(recurrence, zone="UTC", now=T0)


@pytest.mark.anyio
async def test_a_reminder_is_told_at_its_time_and_not_before(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(once(T0 + HOUR))
        daemon.now = T0 + HOUR - timedelta(milliseconds=1)
        assert await daemon.look() == []
        daemon.now = T0 + HOUR
        assert await daemon.look() == ["Reminder: water s"]
        assert await daemon.look() == []
        assert in_words(await daemon.occurrences()) == ["23 07:30 ran "]
        assert daemon.journal.schedules.find("s", owner="me").state == "ended"


@pytest.mark.anyio
async def test_a_reminder_that_was_missed_is_told_late_once_and_says_so(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(once(T0 + HOUR))
    daemon.now = T0 + 5 * DAY
    async with daemon.running():
        [said] = await daemon.look()
        assert said.startswith("Reminder, late: water s\n\nIt was due on Fri 2026-10-23 07:30")
    async with daemon.running():
        assert await daemon.look() == []
        assert in_words(await daemon.occurrences()) == ["23 07:30 ran late"]


@pytest.mark.anyio
async def test_what_is_told_is_no_memory_but_the_words_of_what_is_told_once_and_of_tasks(
    tmp_path: Path,
) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running() as journal:
        await daemon.add(once(T0 + HOUR), name="once")
        await daemon.add(daily(7), name="daily")
        await daemon.add(daily(7), name="task", kind="task")
        daemon.now = T0 + 3 * DAY
        await daemon.look()
        daemon.now = T0.replace(day=27, hour=7, minute=0)
        await daemon.look()
        remembered = [
            piece.content
            for loop_id in [each.id for each in journal.states()]
            for piece in segment((await journal.replay(loop_id)).run_loop())
        ]
        assert await journal.read(kind="message.completed")
    assert sorted(remembered) == ["water once", "water task"]


@pytest.mark.anyio
async def test_one_schedule_that_cannot_be_read_keeps_no_other_from_being_told(
    tmp_path: Path,
) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(once(T0 + HOUR), name="a")
        await daemon.add(once(T0 + HOUR), name="b")
    with writing(daemon.path) as db:
        db.execute("UPDATE schedules SET timing = '{\"of\": \"tomorrow\"}' WHERE id = 'a'")
    async with daemon.running():
        daemon.now = T0 + HOUR
        assert await daemon.look() == ["Reminder: water b"]
    assert rows(daemon.path, "SELECT count(*) FROM schedules") == [(2,)]


@pytest.mark.anyio
async def test_what_is_said_in_chinese_is_told_in_chinese(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running() as journal:
        for name, timing, kind in (
            ("迟到", once(T0 + HOUR), "reminder"),
            ("错过", daily(8), "task"),
            ("准时", once(T0 + DAY), "reminder"),
        ):
            schedule = Schedule(name, "me", kind, f"给{name}浇水", timing, T0)  # type: ignore[arg-type]
            await journal.schedules.add(schedule)
        daemon.now = T0 + DAY
        assert await daemon.look() == [
            "迟到的提醒：给迟到浇水\n\n原定时间是 2026-10-23 周五 07:30，那时我没有在运行。",
            "我没有在运行时，这件事错过了 1 次，最近一次是 2026-10-23 周五 08:00：给错过浇水\n\n"
            "当时没有做。现在要做的话：`rondo schedules run 错过`。",
            "提醒：给准时浇水",
        ]


@pytest.mark.anyio
async def test_what_was_missed_is_told_once_and_the_next_time_is_on_time(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(daily(8))
    daemon.now = T0 + 3 * DAY
    async with daemon.running():
        [said] = await daemon.look()
        assert said == (
            "While I was not running, this came due 3 times, last on Sun 2026-10-25 08:00: water s"
        )
        daemon.now = datetime(2026, 10, 26, 8, 0, 5, tzinfo=UTC)
        assert await daemon.look() == ["Reminder: water s"]
        assert in_words(await daemon.occurrences()) == [
            "23 08:00 skipped missed",
            "24 08:00 skipped missed",
            "25 08:00 skipped missed",
            "26 08:00 ran ",
            "27 08:00 pending ",
        ]


@pytest.mark.anyio
async def test_a_task_that_was_missed_is_told_and_not_done(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(once(T0 + HOUR), kind="task", name="once")
        await daemon.add(daily(8), kind="task", name="daily")
        daemon.now = T0 + 3 * HOUR
        said = await daemon.look()
        assert [each.splitlines()[0] for each in said] == [
            "While I was not running, this came due once, Fri 2026-10-23 07:30: water once",
            "While I was not running, this came due once, Fri 2026-10-23 08:00: water daily",
        ]
        assert "`rondo schedules run once` does it now" in said[0]
        daemon.now = T0.replace(day=24, hour=8, minute=0)
        assert await daemon.look() == ["→ water daily"]


@pytest.mark.anyio
async def test_what_just_came_due_runs_and_tells_what_was_missed_before(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(daily(8))
    daemon.now = datetime(2026, 10, 25, 8, 1, tzinfo=UTC)
    async with daemon.running():
        [said] = await daemon.look()
        assert said == (
            "Reminder: water s\n\nBefore this it was missed 2 times, first on Fri 2026-10-23 08:00:"
            " I was not running then."
        )


@pytest.mark.anyio
async def test_reminders_of_one_moment_are_each_told(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        for name in "ab":
            await daemon.add(once(T0 + HOUR), name=name)
        daemon.now = T0 + HOUR
        assert await daemon.look() == ["Reminder: water a", "Reminder: water b"]
        assert await daemon.look() == []


@pytest.mark.anyio
async def test_a_year_of_minutes_is_one_notice_and_few_rows(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(read_when("every minute", now=T0, zone="UTC"))
    daemon.now = T0 + 365 * DAY + timedelta(seconds=59)
    async with daemon.running():
        said = await daemon.look()
        occurrences = await daemon.occurrences()
    minutes = 365 * 24 * 60
    assert said == [
        f"Reminder: water s\n\nBefore this it was missed {minutes - 1} times, first on"
        " Fri 2026-10-23 06:31: I was not running then."
    ]
    assert len(occurrences) <= 102
    assert sum(each.count for each in occurrences if each.state != "pending") == minutes


@pytest.mark.anyio
async def test_a_clock_that_is_set_back_has_nothing_run_twice(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(daily(8))
        daemon.now = T0.replace(hour=8, minute=0)
        assert await daemon.look() == ["Reminder: water s"]
        daemon.now = T0.replace(hour=7, minute=55)
        assert await daemon.look() == []
        daemon.now = T0.replace(hour=8, minute=0)
        assert await daemon.look() == []


@pytest.mark.anyio
async def test_a_clock_that_was_years_ahead_loses_nothing_but_what_ran_by_it(
    tmp_path: Path,
) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(daily(8))
        daemon.now = T0 + 400 * DAY
        assert len(await daemon.look()) == 1  # that all of it was missed
        daemon.now = T0 + DAY
        assert await daemon.look() == []
        assert in_words(await daemon.occurrences()) == [
            "23 08:00 skipped missed",
            "24 08:00 pending ",
        ]
        daemon.now = T0.replace(day=24, hour=8, minute=0)
        assert await daemon.look() == ["Reminder: water s"]


@pytest.mark.anyio
@pytest.mark.parametrize("next_look", [24, 25, 26])
async def test_what_ran_by_a_clock_that_was_ahead_does_not_run_again(
    tmp_path: Path, next_look: int
) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(daily(8))
        daemon.now = T0.replace(day=25, hour=8, minute=0)
        assert len(await daemon.look()) == 1  # by that clock it is its time
        daemon.now = T0
        assert await daemon.look() == []
        daemon.now = T0.replace(day=next_look, hour=8, minute=0)
        await daemon.look()
        daemon.now = T0.replace(day=26, hour=8, minute=0)
        await daemon.look()
        said = [event.body for event in await daemon.journal.read(kind="message.received")]
        assert sum(due.day == 25 for _, due in daemon.opened) == 1
        assert in_words(await daemon.occurrences())[-3:] == [
            "25 08:00 ran ",
            "26 08:00 ran ",
            "27 08:00 pending ",
        ]
        assert len(said) == len(daemon.opened)


@pytest.mark.anyio
async def test_a_full_disk_loses_no_reminder(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running():
        await daemon.add(once(T0 + HOUR))
        daemon.now = T0 + HOUR
        with refusing(daemon.path, "events", "INSERT", "NEW.body LIKE '%message.completed%'"):
            with pytest.raises(StorageError):
                await daemon.runner.look()
            assert in_words(await daemon.occurrences()) == ["23 07:30 pending "]
        assert await daemon.look() == ["Reminder: water s"]


@pytest.mark.anyio
async def test_the_runner_wakes_for_what_is_added_and_for_what_is_due(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with daemon.running() as journal, anyio.create_task_group() as group:
        group.start_soon(daemon.runner.run)
        await anyio.wait_all_tasks_blocked()
        await daemon.add(once(T0 - HOUR))  # as after a jump of the clock
        with anyio.fail_after(10):
            while not rows(daemon.path, "SELECT 1 FROM run_loops"):
                await anyio.sleep(0.005)
        assert journal.schedules.pending() == ()
        group.cancel_scope.cancel()


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
def test_each_time_ran_or_was_skipped_exactly_once_and_none_was_early(
    timing: Timing, steps: list[tuple[str, float]], kind: ScheduleKind
) -> None:
    async def live(folder: Path) -> None:
        daemon = Daemon(folder)
        async with daemon.running():
            await daemon.add(timing, kind=kind)
        for how, seconds in [*steps, ("forward", 0.0)]:
            async with daemon.running():
                before = daemon.now
                if how.endswith("to its time"):
                    daemon.now = timing.upcoming(before, int(seconds))[-1]
                else:
                    daemon.now += timedelta(seconds=-seconds if how == "back" else seconds)
                if how == "full disk":
                    with refusing(daemon.path, "events", "INSERT"):
                        try:
                            await daemon.look()
                        except StorageError:
                            continue
                await daemon.look()
                await daemon.look()
                if how.startswith("ahead"):
                    daemon.now = before
                    await daemon.look()
        async with daemon.running():
            daemon.now = max(daemon.now, T0)
            await daemon.look()
            _check(timing, daemon, await daemon.occurrences())

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(live, Path(folder))


def _check(timing: Timing, daemon: Daemon, occurrences: Sequence[Occurrence]) -> None:
    *decided, pending = [each for each in occurrences if each.due <= daemon.now] + [
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
    expected = timing.passed(timing.start, daemon.now, keep=100_000).newest
    assert sorted(covered) == list(expected), "each once, and none left out"
    assert all(each.reason or each.state == "ran" for each in decided)
    ran_later = [each for each in occurrences if each.due > daemon.now and each != pending]
    assert all(each.state == "ran" for each in ran_later), "a clock that was ahead ran it"
    assert pending.due > daemon.now
    upcoming = timing.upcoming(daemon.now, len(ran_later) + 1)
    assert pending.due == next(each for each in upcoming if each not in alone)
    for clock, due in daemon.opened:
        assert due <= clock, "never early"
    on_time = [due for clock, due in daemon.opened if clock - due <= GRACE]
    assert len(on_time) == len(set(on_time)), "never twice"
    assert set(on_time) <= {each.due for each in occurrences if each.state == "ran"}
