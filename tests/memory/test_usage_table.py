"""The table of usage adds up to what the loops have used, and can be made anew from the events."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.history.events import Event, RunLoopCompleted, RunLoopStarted, Usage
from service.domain.history.state import RunLoopState
from service.domain.usage import Grouping, UsageTotals
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal

FILE = "journal.sqlite3"

tokens = st.integers(0, 10**9)
usages = st.builds(
    Usage,
    model=st.sampled_from(["小模型", "big-model"]),
    input_tokens=tokens,
    output_tokens=tokens,
    cached_input_tokens=tokens,
    cost=st.none() | st.floats(0, 1000),
    purpose=st.sampled_from(["answer", "compaction", "routing"]),
    estimated=st.booleans(),
)
calls = st.lists(st.tuples(st.sampled_from("abc"), usages), max_size=12)
"""Model calls, and the loops that they were made for."""


class Opened:
    """A journal that was opened."""

    def __init__(self, folder: Path) -> None:
        self.journal = SqliteJournal(folder / FILE)
        self.states = {state.id: state for state in self.journal.open(lambda commit: None)}

    async def count(self, run_loop_id: str, *bodies: Usage, owner: str = "me") -> Event:
        """SqliteJournal what a loop has used; its first time opens it."""
        started = (
            () if run_loop_id in self.states else (RunLoopStarted(goal=f"goal {run_loop_id}"),)
        )
        commit = await self.journal.append(run_loop_id, *started, *bodies, owner=owner)
        self.states[run_loop_id] = commit.state
        return commit.events[-1]

    async def lines(self, by: Grouping) -> dict[str, UsageTotals]:
        usage_lines = await self.journal.usage.lines(owner="me", by=by)
        return {line.key: UsageTotals.model_validate(dict(line)) for line in usage_lines}


def used(*states: RunLoopState) -> dict[str, float]:
    return {
        "input_tokens": sum(state.input_tokens for state in states),
        "output_tokens": sum(state.output_tokens for state in states),
        "cached_input_tokens": sum(state.cached_input_tokens for state in states),
        "cost": sum(state.cost or 0.0 for state in states),
    }


def counted(totals: UsageTotals) -> dict[str, float]:
    return {name: getattr(totals, name) or 0 for name in used()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def change(folder: Path, statement: str) -> None:
    """Change the file behind the journal's back, as another version would leave it."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute(statement)
        db.commit()


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(calls, st.integers(0, 40))
def test_the_table_adds_up_to_the_states_and_is_the_same_when_it_is_made_anew(
    made: list[tuple[str, Usage]], last_known: int
) -> None:
    async def check(folder: Path) -> None:
        first = Opened(folder)
        for run_loop_id, usage in made:
            await first.count(run_loop_id, usage)
        by_loop = await first.lines("run_loop")
        for run_loop_id, state in first.states.items():
            assert counted(by_loop[run_loop_id]) == pytest.approx(used(state))
        total = await first.journal.usage.total(owner="me")
        assert counted(total) == pytest.approx(used(*first.states.values()))
        assert total.calls == len(made)
        assert total.estimated_calls == sum(usage.estimated for _, usage in made)
        assert total.calls_without_cost == sum(usage.cost is None for _, usage in made)
        await first.journal.aclose()

        # Written by a version that knew no such table, from some event on.
        change(folder, f"DELETE FROM usage WHERE seq > {last_known}")
        again = Opened(folder)
        assert await again.lines("run_loop") == by_loop
        await again.journal.aclose()

    with tempfile.TemporaryDirectory() as name:
        anyio.run(check, Path(name))


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_journal_that_is_older_than_the_table_gets_one(folder: Path) -> None:
    first = Opened(folder)
    for number in range(2500):  # more than are read at once
        await first.count("a", Usage(model="m", input_tokens=number, output_tokens=1))
    before = await first.lines("model")
    await first.journal.aclose()
    change(folder, "DROP TABLE usage")
    again = Opened(folder)
    assert await again.lines("model") == before
    await again.count("a", Usage(model="m", input_tokens=1, output_tokens=1))
    assert (await again.lines("model"))["m"].calls == 2501
    await again.journal.aclose()


@pytest.mark.anyio
async def test_events_of_an_older_version_count_though_they_say_less(folder: Path) -> None:
    first = Opened(folder)
    await first.count("a", Usage(model="m", input_tokens=1, output_tokens=1))
    await first.journal.aclose()
    old = '{"type":"usage","model":"m","input_tokens":5,"output_tokens":2}'
    change(folder, "DELETE FROM usage")
    change(folder, f"UPDATE events SET body = '{old}' WHERE seq = 2")
    again = Opened(folder)
    line = (await again.lines("purpose"))["answer"]
    assert (line.input_tokens, line.output_tokens, line.cost) == (5, 2, None)
    await again.journal.aclose()


@pytest.mark.anyio
async def test_an_event_that_cannot_be_read_keeps_no_journal_from_being_opened(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Opened(folder)
    await first.count("a", Usage(model="m", input_tokens=1, output_tokens=1))
    await first.count("b", Usage(model="m", input_tokens=2, output_tokens=2))
    await first.journal.append("a", RunLoopCompleted())
    await first.journal.aclose()
    change(folder, "DELETE FROM usage")
    change(folder, """UPDATE events SET body = '{"type":"usage","mo' WHERE seq = 2""")
    again = Opened(folder)
    assert (await again.lines("model"))["m"].input_tokens == 2
    assert "event 2 is not counted" in caplog.text
    await again.journal.aclose()


@pytest.mark.anyio
async def test_usage_is_summed_up_by_day_of_local_time_newest_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        opened = Opened(folder)
        moments = ["2026-03-01T15:30", "2026-03-01T16:30", "2026-03-05T00:00"]  # UTC
        for moment in moments:
            event = await opened.count("a", Usage(model="m", input_tokens=1, output_tokens=0))
            at = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() * 1000)
            change(folder, f"UPDATE usage SET at = {at} WHERE seq = {event.seq}")
        days = await opened.journal.usage.lines(owner="me", by="day")
        assert [line.key for line in days] == ["2026-03-05", "2026-03-02", "2026-03-01"]
        # A bound is a moment: the beginning counts, the end does not.
        since, until = (datetime.fromisoformat(each + "+00:00") for each in moments[1:])
        within = await opened.journal.usage.total(owner="me", since=since, until=until)
        assert within.calls == 1
        await opened.journal.aclose()
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.anyio
async def test_the_greatest_users_come_first_with_their_goals_and_as_many_as_asked_for(
    folder: Path,
) -> None:
    opened = Opened(folder)
    for run_loop_id, used_tokens in (("a", 5), ("b", 50), ("c", 500)):
        await opened.count(run_loop_id, Usage(model="m", input_tokens=used_tokens, output_tokens=0))
    lines = await opened.journal.usage.lines(owner="me", by="run_loop", limit=2)
    assert [(line.key, line.goal) for line in lines] == [("c", "goal c"), ("b", "goal b")]
    await opened.journal.aclose()


@pytest.mark.anyio
async def test_owners_see_their_own_usage_only(folder: Path) -> None:
    opened = Opened(folder)
    await opened.count("a", Usage(model="m", input_tokens=1, output_tokens=0))
    await opened.count("b", Usage(model="m", input_tokens=9, output_tokens=0), owner="somebody")
    assert (await opened.journal.usage.total(owner="me")).input_tokens == 1
    assert list(await opened.lines("run_loop")) == ["a"]
    nobody = await opened.journal.usage.total(owner="nobody")
    assert nobody == UsageTotals()
    await opened.journal.aclose()
