"""What is told and done at which time: what was missed, after downtime, by clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from service.domain.errors import StorageError
from service.memory.ledger.segmenter import segment
from service.schedules.phrases.reading import read_when
from service.schedules.schedule import Schedule
from tests.support.agent.clockwork import DAY, HOUR, T0, Clockwork, daily, in_words, once
from tests.support.memory.journal_file import refusing, rows, writing


@pytest.mark.anyio
async def test_a_reminder_is_told_at_its_time_and_not_before(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(once(T0 + HOUR))
        clockwork.now = T0 + HOUR - timedelta(milliseconds=1)
        assert await clockwork.look() == []
        clockwork.now = T0 + HOUR
        assert await clockwork.look() == ["Reminder: water s"]
        assert await clockwork.look() == []
        assert in_words(await clockwork.occurrences()) == ["23 07:30 ran "]
        assert clockwork.journal.schedules.find("s", owner="me").state == "ended"


@pytest.mark.anyio
async def test_a_reminder_that_was_missed_is_told_late_once_and_says_so(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(once(T0 + HOUR))
    clockwork.now = T0 + 5 * DAY
    async with clockwork.running():
        [said] = await clockwork.look()
        assert said.startswith("Reminder, late: water s\n\nIt was due on Fri 2026-10-23 07:30")
    async with clockwork.running():
        assert await clockwork.look() == []
        assert in_words(await clockwork.occurrences()) == ["23 07:30 ran late"]


@pytest.mark.anyio
async def test_what_is_told_is_no_memory_but_the_words_of_what_is_told_once_and_of_tasks(
    tmp_path: Path,
) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running() as journal:
        await clockwork.add(once(T0 + HOUR), name="once")
        await clockwork.add(daily(7), name="daily")
        await clockwork.add(daily(7), name="task", kind="task")
        clockwork.now = T0 + 3 * DAY
        await clockwork.look()
        clockwork.now = T0.replace(day=27, hour=7, minute=0)
        await clockwork.look()
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
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(once(T0 + HOUR), name="a")
        await clockwork.add(once(T0 + HOUR), name="b")
    with writing(clockwork.path) as db:
        db.execute("UPDATE schedules SET timing = '{\"of\": \"tomorrow\"}' WHERE id = 'a'")
    async with clockwork.running():
        clockwork.now = T0 + HOUR
        assert await clockwork.look() == ["Reminder: water b"]
    assert rows(clockwork.path, "SELECT count(*) FROM schedules") == [(2,)]


@pytest.mark.anyio
async def test_what_is_said_in_chinese_is_told_in_chinese(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running() as journal:
        for name, timing, kind in (
            ("迟到", once(T0 + HOUR), "reminder"),
            ("错过", daily(8), "task"),
            ("准时", once(T0 + DAY), "reminder"),
        ):
            schedule = Schedule(name, "me", kind, f"给{name}浇水", timing, T0)  # type: ignore[arg-type]
            await journal.schedules.add(schedule)
        clockwork.now = T0 + DAY
        assert await clockwork.look() == [
            "迟到的提醒：给迟到浇水\n\n原定时间是 2026-10-23 周五 07:30，那时我没有在运行。",
            "我没有在运行时，这件事错过了 1 次，最近一次是 2026-10-23 周五 08:00：给错过浇水\n\n"
            "当时没有做。现在要做的话：`rondo schedules run 错过`。",
            "提醒：给准时浇水",
        ]


@pytest.mark.anyio
async def test_what_was_missed_is_told_once_and_the_next_time_is_on_time(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(daily(8))
    clockwork.now = T0 + 3 * DAY
    async with clockwork.running():
        [said] = await clockwork.look()
        assert said == (
            "While I was not running, this came due 3 times, last on Sun 2026-10-25 08:00: water s"
        )
        clockwork.now = datetime(2026, 10, 26, 8, 0, 5, tzinfo=UTC)
        assert await clockwork.look() == ["Reminder: water s"]
        assert in_words(await clockwork.occurrences()) == [
            "23 08:00 skipped missed",
            "24 08:00 skipped missed",
            "25 08:00 skipped missed",
            "26 08:00 ran ",
            "27 08:00 pending ",
        ]


@pytest.mark.anyio
async def test_a_task_that_was_missed_is_told_and_not_done(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(once(T0 + HOUR), kind="task", name="once")
        await clockwork.add(daily(8), kind="task", name="daily")
        clockwork.now = T0 + 3 * HOUR
        said = await clockwork.look()
        assert [each.splitlines()[0] for each in said] == [
            "While I was not running, this came due once, Fri 2026-10-23 07:30: water once",
            "While I was not running, this came due once, Fri 2026-10-23 08:00: water daily",
        ]
        assert "`rondo schedules run once` does it now" in said[0]
        clockwork.now = T0.replace(day=24, hour=8, minute=0)
        assert await clockwork.look() == ["→ water daily"]


@pytest.mark.anyio
async def test_what_just_came_due_runs_and_tells_what_was_missed_before(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(daily(8))
    clockwork.now = datetime(2026, 10, 25, 8, 1, tzinfo=UTC)
    async with clockwork.running():
        [said] = await clockwork.look()
        assert said == (
            "Reminder: water s\n\nBefore this it was missed 2 times, first on Fri 2026-10-23 08:00:"
            " I was not running then."
        )


@pytest.mark.anyio
async def test_reminders_of_one_moment_are_each_told(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        for name in "ab":
            await clockwork.add(once(T0 + HOUR), name=name)
        clockwork.now = T0 + HOUR
        assert await clockwork.look() == ["Reminder: water a", "Reminder: water b"]
        assert await clockwork.look() == []


@pytest.mark.anyio
async def test_a_year_of_minutes_is_one_notice_and_few_rows(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(read_when("every minute", now=T0, zone="UTC"))
    clockwork.now = T0 + 365 * DAY + timedelta(seconds=59)
    async with clockwork.running():
        said = await clockwork.look()
        occurrences = await clockwork.occurrences()
    minutes = 365 * 24 * 60
    assert said == [
        f"Reminder: water s\n\nBefore this it was missed {minutes - 1} times, first on"
        " Fri 2026-10-23 06:31: I was not running then."
    ]
    assert len(occurrences) <= 102
    assert sum(each.count for each in occurrences if each.state != "pending") == minutes


@pytest.mark.anyio
async def test_a_clock_that_is_set_back_has_nothing_run_twice(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(daily(8))
        clockwork.now = T0.replace(hour=8, minute=0)
        assert await clockwork.look() == ["Reminder: water s"]
        clockwork.now = T0.replace(hour=7, minute=55)
        assert await clockwork.look() == []
        clockwork.now = T0.replace(hour=8, minute=0)
        assert await clockwork.look() == []


@pytest.mark.anyio
async def test_a_clock_that_was_years_ahead_loses_nothing_but_what_ran_by_it(
    tmp_path: Path,
) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(daily(8))
        clockwork.now = T0 + 400 * DAY
        assert len(await clockwork.look()) == 1  # that all of it was missed
        clockwork.now = T0 + DAY
        assert await clockwork.look() == []
        assert in_words(await clockwork.occurrences()) == [
            "23 08:00 skipped missed",
            "24 08:00 pending ",
        ]
        clockwork.now = T0.replace(day=24, hour=8, minute=0)
        assert await clockwork.look() == ["Reminder: water s"]


@pytest.mark.anyio
@pytest.mark.parametrize("next_look", [24, 25, 26])
async def test_what_ran_by_a_clock_that_was_ahead_does_not_run_again(
    tmp_path: Path, next_look: int
) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(daily(8))
        clockwork.now = T0.replace(day=25, hour=8, minute=0)
        assert len(await clockwork.look()) == 1  # by that clock it is its time
        clockwork.now = T0
        assert await clockwork.look() == []
        clockwork.now = T0.replace(day=next_look, hour=8, minute=0)
        await clockwork.look()
        clockwork.now = T0.replace(day=26, hour=8, minute=0)
        await clockwork.look()
        said = [event.body for event in await clockwork.journal.read(kind="message.received")]
        assert sum(due.day == 25 for _, due in clockwork.opened) == 1
        assert in_words(await clockwork.occurrences())[-3:] == [
            "25 08:00 ran ",
            "26 08:00 ran ",
            "27 08:00 pending ",
        ]
        assert len(said) == len(clockwork.opened)


@pytest.mark.anyio
async def test_a_full_disk_loses_no_reminder(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running():
        await clockwork.add(once(T0 + HOUR))
        clockwork.now = T0 + HOUR
        with refusing(clockwork.path, "events", "INSERT", "NEW.body LIKE '%message.completed%'"):
            with pytest.raises(StorageError):
                await clockwork.runner.look()
            assert in_words(await clockwork.occurrences()) == ["23 07:30 pending "]
        assert await clockwork.look() == ["Reminder: water s"]


@pytest.mark.anyio
async def test_the_runner_wakes_for_what_is_added_and_for_what_is_due(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    async with clockwork.running() as journal, anyio.create_task_group() as group:
        group.start_soon(clockwork.runner.run)
        await anyio.wait_all_tasks_blocked()
        await clockwork.add(once(T0 - HOUR))  # as after a jump of the clock
        with anyio.fail_after(10):
            while not rows(clockwork.path, "SELECT 1 FROM run_loops"):
                await anyio.sleep(0.005)
        assert journal.schedules.pending() == ()
        group.cancel_scope.cancel()
