"""Caps on spending: what a call may use is reserved before it; what it has used counts after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta, TokenUsage
from service.domain.errors import BudgetError, LLMStatusError, LLMStreamError
from service.domain.spend import SpendCaps
from service.domain.usage import Prices, UsageTotals
from service.llm.protocol import LLM
from service.llm.spending.accounts import Spending
from service.memory.journal.protocol import UsageLedger
from tests.support.agent.agents import Answer, FunctionLLM, until
from tests.support.llm.capped import (
    BOUND,
    HELLO,
    MOST,
    NOON,
    Clock,
    House,
    house,
    used,
    uses,
)

pytestmark = pytest.mark.anyio

PRICES = Prices(input=0, output=1_000_000, currency="EUR")
"""A token of an answer costs 1."""

# --- two at once


async def test_of_two_calls_at_once_one_gets_the_last_allowance_and_the_other_is_refused(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, daily_tokens=MOST) as home:
        held = anyio.Event()
        first, second = uses(BOUND, held), uses(1)
        refused: list[BudgetError] = []

        async def ask_second() -> None:
            try:
                await home.ask(second)
            except BudgetError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(home.ask, first)
            await until(lambda: first.calls)
            assert await home.reserved() == MOST
            group.start_soon(ask_second)
            await anyio.wait_all_tasks_blocked()
            assert not second.calls
            assert not refused  # the first may yet use less than it could
            held.set()
        assert not second.calls
        assert "1,000 tokens of 1,011 tokens are used" in refused[0].detail
        assert await home.tokens_used() == BOUND
        assert await home.reserved() == 0


async def test_a_call_goes_on_once_another_has_used_less_than_it_could(tmp_path: Path) -> None:
    async with house(tmp_path, daily_tokens=MOST + 20) as home:
        held = anyio.Event()
        first, second = uses(5, held), uses(7)
        async with anyio.create_task_group() as group:
            group.start_soon(home.ask, first)
            await until(lambda: first.calls)
            group.start_soon(home.ask, second)
            await anyio.wait_all_tasks_blocked()
            assert not second.calls
            held.set()
        assert await home.tokens_used() == 12


async def test_a_call_that_is_cancelled_or_fails_gives_back_what_it_had_reserved(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, daily_tokens=MOST) as home:
        waits = uses(5, anyio.Event())
        async with anyio.create_task_group() as group:
            group.start_soon(home.ask, waits)
            await until(lambda: waits.calls)
            group.cancel_scope.cancel()
        with pytest.raises(LLMStatusError):
            await home.ask(FunctionLLM(lambda _: [LLMStatusError(503, "busy")]))
        assert await home.reserved() == 0
        assert await home.tokens_used() == 0  # nothing had come of either
        await home.ask(uses(1))


class Slow:
    """A ledger whose answers come late, while it is held."""

    def __init__(self, ledger: UsageLedger) -> None:
        self.add = ledger.add
        self.ledger = ledger
        self.held: anyio.Event | None = None
        self.counted = False

    async def total(self, **asked: Any) -> UsageTotals:
        total = await self.ledger.total(**asked)
        if self.held is not None:
            self.counted = True
            await self.held.wait()
        return total


async def test_what_comes_into_the_journal_while_it_is_counted_is_not_overlooked(
    tmp_path: Path,
) -> None:
    second = uses(1)
    refused: list[BudgetError] = []

    async def ask(spending: Spending, llm: LLM) -> None:
        try:
            async with spending.account(owner="me", purpose="answer") as account:
                await account.generate(llm, HELLO, prices=None, max_tokens=BOUND)
        except BudgetError as error:
            refused.append(error)

    async with house(tmp_path) as home, anyio.create_task_group() as group:
        ledger = Slow(home.journal.usage)
        counted = cast("UsageLedger", ledger)
        spending = Spending(counted, SpendCaps(daily_tokens=MOST), now=Clock(NOON))
        async with spending.account(owner="me", purpose="answer") as account:
            await account.generate(uses(5), HELLO, prices=None, max_tokens=BOUND)
            ledger.held = anyio.Event()
            group.start_soon(ask, spending, second)
            await until(lambda: ledger.counted)
        # What the first has used is in the journal now, and its reservation is gone.
        ledger.held.set()
    assert refused
    assert not second.calls


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.lists(st.integers(0, BOUND), min_size=2, max_size=12),
    st.integers(MOST, 5 * MOST),
)
def test_however_many_call_at_once_a_cap_is_never_passed(answers: list[int], cap: int) -> None:
    refusals: list[BudgetError] = []

    async def ask(home: House, tokens: int) -> None:
        try:
            await home.ask(uses(tokens))
        except BudgetError as error:
            refusals.append(error)

    async def check(folder: Path) -> None:
        async with house(folder, daily_tokens=cap) as home:
            async with anyio.create_task_group() as group:
                for tokens in answers:
                    group.start_soon(ask, home, tokens)
            total = await home.tokens_used()
            assert total <= cap
            assert await home.reserved() == 0
            # Nobody was refused while there was room for the most that a call may use.
            assert not refusals or total + MOST > cap

    refusals.clear()
    with TemporaryDirectory() as name:
        anyio.run(check, Path(name))


# --- what counts


async def test_a_call_that_breaks_off_in_the_middle_counts_by_what_had_come(tmp_path: Path) -> None:
    parts: Answer = [TextDelta("word " * 80), LLMStreamError("cut")]
    async with house(tmp_path, daily_tokens=MOST) as home:
        with pytest.raises(LLMStreamError):
            await home.ask(FunctionLLM(lambda _: parts))
        assert await home.tokens_used() == 100 + 1
        (line,) = await home.journal.usage.lines(owner="me", by="model")
        assert line.estimated_calls == 1


async def test_what_was_reported_before_a_call_broke_off_counts(tmp_path: Path) -> None:
    parts: Answer = [TokenUsage("m", 700, 1), TextDelta("w"), LLMStreamError("cut")]
    async with house(tmp_path, daily_tokens=MOST) as home:
        with pytest.raises(LLMStreamError):
            await home.ask(FunctionLLM(lambda _: parts))
        assert await home.tokens_used() == 701


async def test_an_answer_that_nobody_could_take_counts(tmp_path: Path) -> None:
    async def fails_afterwards(home: House) -> None:
        async with home.spending.account(owner="me", purpose="answer") as account:
            await account.generate(uses(40), HELLO, prices=None, max_tokens=BOUND)
            raise ZeroDivisionError

    async with house(tmp_path, daily_tokens=MOST) as home:
        with pytest.raises(ZeroDivisionError):
            await fails_afterwards(home)
        assert await home.tokens_used() == 40


async def test_what_all_owners_use_counts_together(tmp_path: Path) -> None:
    async with house(tmp_path, daily_tokens=MOST + 50) as home:
        await home.use(used(51), owner="她")
        with pytest.raises(BudgetError):
            await home.ask(uses(1))


async def test_without_a_bound_an_answer_gets_one_where_there_are_caps_and_only_there(
    tmp_path: Path,
) -> None:
    given_bounds: list[int | None] = []

    class Unbounded(FunctionLLM):
        async def stream(self, messages: Sequence[Message], **options: Any) -> Any:
            given_bounds.append(options["max_tokens"])
            async for part in super().stream(messages, **options):
                yield part

    for cap in (None, 100_000):
        async with (
            house(tmp_path, daily_tokens=cap) as home,
            home.spending.account(owner="me", purpose="answer") as account,
        ):
            await account.generate(Unbounded(lambda _: "Hi."), HELLO, prices=None)
    assert given_bounds == [None, FunctionLLM.context_tokens // 2]


# --- money


async def test_a_cap_in_money_counts_the_price_of_the_longest_answer(tmp_path: Path) -> None:
    async with house(tmp_path, daily_cost=BOUND + 5) as home:
        await home.ask(uses(5), prices=PRICES)
        await home.ask(uses(1), prices=PRICES)
        with pytest.raises(BudgetError) as refused:
            await home.ask(uses(1), prices=PRICES)
    assert "6.00 EUR of 1,005.00 EUR are used" in refused.value.detail
    assert "1,000.00 EUR" in refused.value.detail
    assert "spend.daily_cost" in refused.value.advice


async def test_a_model_without_prices_is_not_asked_under_a_cap_in_money(tmp_path: Path) -> None:
    llm = uses(1)
    async with house(tmp_path, monthly_cost=10) as home:
        with pytest.raises(BudgetError, match="no prices"):
            await home.ask(llm)
    assert not llm.calls


async def test_a_free_model_counts_tokens_and_no_money(tmp_path: Path) -> None:
    class Free(FunctionLLM):
        is_free = True

    free = Free(lambda _: [TextDelta("Hi."), TokenUsage("m", 0, 40)])
    async with house(tmp_path, daily_cost=0, daily_tokens=MOST + 40) as home:
        await home.ask(free)
        await home.ask(free)
        with pytest.raises(BudgetError, match="80 tokens"):
            await home.ask(free)


# --- what lasts


async def test_a_new_process_knows_what_was_used_and_nothing_of_reservations(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, daily_tokens=MOST + 6) as home:
        await home.ask(uses(6))
        lost = home.spending.account(owner="me", purpose="answer")
        await lost.reserve(uses(1), HELLO, prices=None, max_tokens=BOUND)
        assert await home.reserved() == MOST
    async with house(tmp_path, daily_tokens=MOST + 6) as again:
        assert await again.tokens_used() == 6
        assert await again.reserved() == 0
        await again.ask(uses(1))
    async with house(tmp_path, daily_tokens=MOST) as lowered:
        with pytest.raises(BudgetError, match="7 tokens of 1,011"):
            await lowered.ask(uses(1))


async def test_a_call_that_alone_is_over_the_cap_is_told_so(tmp_path: Path) -> None:
    async with house(tmp_path, daily_tokens=MOST - 1) as home:
        with pytest.raises(BudgetError) as refused:
            await home.ask(uses(1))
    assert "No day has room for it" in refused.value.advice
    assert "llm.max_tokens" in refused.value.advice
