"""Caps on spending hold for days and months as a person has them, whatever is done to clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import pytest

from service.domain.errors import BudgetError
from service.domain.spend import bounds
from tests.support.agent.agents import until
from tests.support.llm.capped import (
    BERLIN,
    MOST,
    NOON,
    Clock,
    house,
    uses,
)

pytestmark = pytest.mark.anyio


async def test_a_day_ends_at_midnight_where_the_person_is(tmp_path: Path) -> None:
    clock = Clock(datetime(2026, 3, 10, 23, 59, tzinfo=BERLIN))
    async with house(tmp_path, clock, daily_tokens=MOST) as home:
        await home.ask(uses(5))
        with pytest.raises(BudgetError) as refused:
            await home.ask(uses(1))
        assert "2026-03-11 00:00" in refused.value.advice
        clock.at += timedelta(minutes=2)
        await home.ask(uses(1))
        assert await home.tokens_used() == 1


async def test_a_month_goes_on_where_a_day_ends(tmp_path: Path) -> None:
    clock = Clock(datetime(2026, 3, 30, 12, tzinfo=BERLIN))
    async with house(tmp_path, clock, daily_tokens=10 * MOST, monthly_tokens=MOST) as home:
        await home.ask(uses(5))
        clock.at += timedelta(days=1)
        with pytest.raises(BudgetError) as refused:
            await home.ask(uses(1))
        assert "monthly" in refused.value.title
        assert "2026-04-01 00:00" in refused.value.advice
        clock.at += timedelta(days=1)
        await home.ask(uses(1))


@pytest.mark.parametrize(
    ("day", "hours"),
    [((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 7, 1), 24)],
    ids=["forward", "back", "not at all"],
)
def test_a_day_on_which_clocks_are_changed_is_as_long_as_it_is(
    day: tuple[int, int, int], hours: int
) -> None:
    for hour in (0, 1, 12, 23):
        since, until = bounds("day", datetime(*day, hour, tzinfo=BERLIN))
        assert since.timestamp() == datetime(*day, tzinfo=BERLIN).timestamp()
        assert until.timestamp() - since.timestamp() == hours * 3600


def test_a_day_whose_midnight_is_skipped_begins_when_its_clock_does() -> None:
    since, _ = bounds("day", datetime(2018, 11, 4, 12, tzinfo=ZoneInfo("America/Sao_Paulo")))
    assert since.astimezone(UTC) == datetime(2018, 11, 4, 3, tzinfo=UTC)


async def test_a_clock_that_is_set_back_frees_nothing(tmp_path: Path) -> None:
    clock = Clock(NOON)
    async with house(tmp_path, clock, daily_tokens=MOST) as home:
        await home.ask(uses(5))
        clock.at -= timedelta(days=3)
        with pytest.raises(BudgetError):
            await home.ask(uses(1))


async def test_a_call_over_midnight_counts_on_the_day_on_which_it_ends(tmp_path: Path) -> None:
    clock = Clock(datetime(2026, 3, 10, 23, 59, tzinfo=BERLIN))
    async with house(tmp_path, clock, daily_tokens=MOST) as home:
        held = anyio.Event()
        first = uses(6, held)
        async with anyio.create_task_group() as group:
            group.start_soon(home.ask, first)
            await until(lambda: first.calls)
            clock.at += timedelta(minutes=2)
            assert await home.reserved() == MOST
            held.set()
        assert await home.tokens_used() == 6
