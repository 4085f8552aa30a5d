"""What an inbox promises: `Inbox`, whatever engine stands behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, NotFoundError
from service.domain.history.events import RunLoopStarted
from service.memory.journal.inbox import Delivery, Inbox, InboxEntry
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from tests.support.histories import received
from tests.support.memory.inbox_in_memory import InboxInMemory
from tests.support.memory.killed_store import killed_after

pytestmark = pytest.mark.anyio


class Engine(Protocol):
    """An inbox, and what lets messages leave it."""

    @property
    def inbox(self) -> Inbox: ...

    async def deliver(self, message_id: str, run_loop_id: str) -> Delivery: ...

    async def aclose(self) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.inbox = InboxInMemory()

    async def deliver(self, message_id: str, run_loop_id: str) -> Delivery:
        delivery = Delivery(run_loop_id, 1)
        self.inbox.deliver(message_id, delivery)
        return delivery

    async def aclose(self) -> None:
        pass


class InSqlite:
    def __init__(self, folder: Path) -> None:
        self.journal = SqliteJournal(folder / "journal.sqlite3")
        self.journal.open(lambda change: None)
        self.inbox = self.journal.inbox
        self.aclose = self.journal.aclose

    async def deliver(self, message_id: str, run_loop_id: str) -> Delivery:
        opening = (RunLoopStarted(goal="?"), received("?"))
        commit = await self.journal.append(
            run_loop_id, *opening, owner="me", durable=True, delivering=message_id
        )
        return Delivery(run_loop_id, commit.events[0].seq or 0)


@pytest.fixture(params=["sqlite", "in memory"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    engine = InSqlite(tmp_path) if request.param == "sqlite" else InMemory()
    yield engine
    await engine.aclose()


def entry(message_id: str, text: str = "hello", owner: str = "me") -> InboxEntry:
    return InboxEntry(message_id, owner, Message.user(text), metadata={"项目": [1, None]})


async def test_an_empty_inbox(engine: Engine) -> None:
    assert await engine.inbox.undelivered() == []
    assert await engine.inbox.waiting("m") is None
    with pytest.raises(NotFoundError):
        await engine.inbox.delivery("m")


async def test_what_was_accepted_is_read_at_once_as_it_was_given(engine: Engine) -> None:
    given = InboxEntry(
        "m", "她", Message.user("你好 👋\n"), "r", {"项目": [1, None]}, "followup", "large"
    )
    receipt = await engine.inbox.accept(given)
    assert (receipt.message_id, receipt.replayed, receipt.parts) == ("m", False, ())
    assert await engine.inbox.undelivered() == [given]
    assert await engine.inbox.waiting("m") == given
    assert await engine.inbox.delivery("m") is None


async def test_messages_wait_in_the_order_in_which_they_were_accepted(engine: Engine) -> None:
    names = [f"{n * 7919 % 100:02}" for n in range(100)]
    for name in names:
        await engine.inbox.accept(entry(name))
    assert [each.message_id for each in await engine.inbox.undelivered()] == names


async def test_a_message_and_its_parts_are_accepted_together(engine: Engine) -> None:
    receipt = await engine.inbox.accept(
        entry("m"), entry("m.2"), entry("m.3"), idempotency_key="k", request_hash="h"
    )
    assert receipt.parts == ("m.2", "m.3")
    again = await engine.inbox.accept(entry("n"), idempotency_key="k", request_hash="h")
    assert (again.message_id, again.replayed, again.parts) == ("m", True, ("m.2", "m.3"))
    assert [each.message_id for each in await engine.inbox.undelivered()] == ["m", "m.2", "m.3"]


async def test_a_key_stands_for_one_request_of_one_owner(engine: Engine) -> None:
    await engine.inbox.accept(entry("m"), idempotency_key="k", request_hash="h")
    with pytest.raises(ConflictError):
        await engine.inbox.accept(entry("n"), idempotency_key="k", request_hash="other")
    assert await engine.inbox.waiting("n") is None, "nothing of it was accepted"
    other = await engine.inbox.accept(
        entry("o", owner="她"), idempotency_key="k", request_hash="other"
    )
    assert not other.replayed


async def test_a_message_is_delivered_once(engine: Engine) -> None:
    await engine.inbox.accept(entry("m"), idempotency_key="k", request_hash="h")
    delivery = await engine.deliver("m", "a")
    assert await engine.inbox.delivery("m") == delivery
    assert await engine.inbox.waiting("m") is None
    assert await engine.inbox.undelivered() == []
    with pytest.raises(ConflictError):
        await engine.deliver("m", "b")
    assert await engine.inbox.delivery("m") == delivery
    again = await engine.inbox.accept(entry("n"), idempotency_key="k", request_hash="h")
    assert (again.message_id, again.replayed) == ("m", True), "its key outlives the delivery"


async def test_a_huge_message(engine: Engine) -> None:
    text = "长" * 2_000_000
    await engine.inbox.accept(entry("m", text))
    waiting = await engine.inbox.waiting("m")
    assert waiting is not None
    assert waiting.message.text == text


async def test_many_accept_and_deliver_while_others_read(engine: Engine) -> None:
    seen: list[int] = []

    async def come(name: str) -> None:
        await engine.inbox.accept(entry(name))
        await engine.deliver(name, f"loop of {name}")

    async def look() -> None:
        seen.append(len(await engine.inbox.undelivered()))

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(come, f"m{number}")
            group.start_soon(look)
    assert len(seen) == 30
    assert await engine.inbox.undelivered() == []


@pytest.mark.slow
async def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    acknowledged = killed_after(20, "inbox", tmp_path)
    engine = InSqlite(tmp_path)
    there = [each.message.text for each in await engine.inbox.undelivered()]
    assert there[:acknowledged] == [f"message 第{number}" for number in range(acknowledged)]
    assert len(there) <= acknowledged + 1
    await engine.aclose()
