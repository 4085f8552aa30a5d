"""A journal, the spending that it counts, and models that use what they are told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta, TokenUsage
from service.domain.history.events import Usage
from service.domain.spend import SpendCaps
from service.domain.usage import Prices
from service.llm.protocol import LLM
from service.llm.spending.accounts import Spending
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from tests.support.agent.agents import FunctionLLM

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 10, 12, tzinfo=BERLIN)
HELLO = (Message.user("hello"),)
BOUND = 1000
"""Tokens that an answer may have in these tests."""
MOST = BOUND + 8 + 3
"""What a call may use: with the prompt's mark, and five bytes."""


class Clock:
    """A clock that is set."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at


class House:
    """A journal, and the spending that it counts."""

    def __init__(self, journal: SqliteJournal, caps: SpendCaps, clock: Clock) -> None:
        self.journal = journal
        self.clock = clock
        self.spending = Spending(journal.usage, caps, currency="EUR", now=clock)

    async def ask(self, llm: LLM, *, prices: Prices | None = None) -> None:
        """A call as the loop makes it: what it used is journaled before the account is closed."""
        async with self.spending.account(owner="me", purpose="answer") as account:
            await account.generate(llm, HELLO, prices=prices, max_tokens=BOUND)
            await self.use(*account.take_usage())

    async def use(self, *used: Usage, at: datetime | None = None, owner: str = "me") -> None:
        for usage in used:
            await self.journal.usage.add(usage, owner=owner, at=at or self.clock())

    async def tokens_used(self) -> int:
        return (await self.spending.status()).day.tokens_used

    async def reserved(self) -> int:
        return (await self.spending.status()).day.tokens_reserved


@asynccontextmanager
async def house(folder: Path, clock: Clock | None = None, **caps: Any) -> AsyncIterator[House]:
    journal = SqliteJournal(folder / "journal.sqlite3")
    journal.open(lambda change: None)
    try:
        yield House(journal, SpendCaps(**caps), clock or Clock(NOON))
    finally:
        await journal.aclose()


def uses(tokens: int, *before: anyio.Event) -> FunctionLLM:
    """A model that waits, and then reports so many tokens of an answer."""
    return FunctionLLM(lambda _: [*before, TextDelta("Hi."), TokenUsage("m", 0, tokens)])


def used(tokens: int, *, cost: float | None = None) -> Usage:
    return Usage(model="m", input_tokens=0, output_tokens=tokens, cost=cost)
