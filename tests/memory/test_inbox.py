"""The inbox: what was accepted is given back in its order, and one bad row hurts no other."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.memory.journal.inbox import InboxEntry
from service.memory.journal.sqlite.inbox_table import SCHEMA, InboxTable
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.storage.sqlite_file import SqliteFile

pytestmark = pytest.mark.anyio


def _entry(message_id: str) -> InboxEntry:
    return InboxEntry(message_id=message_id, owner="me", message=Message.user(message_id))


async def test_messages_of_one_moment_come_back_in_the_order_of_acceptance(
    tmp_path: Path,
) -> None:
    clock = iter([10**18, 10**18, 10**18 - 10**12, 10**18])  # it is set back in between
    message_ids = ["d", "b", "c", "a"]
    file = SqliteFile(tmp_path / "inbox.sqlite3", SCHEMA, when_damaged="")
    file.open()
    inbox = InboxTable(file, anyio.Lock(), anyio.CapacityLimiter(1), clock=lambda: next(clock))
    for message_id in message_ids:
        await inbox.accept(_entry(message_id))
    assert [each.message_id for each in await inbox.undelivered()] == message_ids
    file.close()


@pytest.mark.parametrize(
    "request_text",
    ['{"message": {"role": "user"}, "run_loop_id": null, "mode": "whisper"}', "[" * 900, ""],
)
async def test_a_row_that_cannot_be_read_is_left_where_it_is(
    tmp_path: Path, request_text: str
) -> None:
    path = tmp_path / "journal.sqlite3"
    journal = SqliteJournal(path)
    journal.open(lambda commit: None)
    for message_id in ("a", "b", "c"):
        await journal.inbox.accept(_entry(message_id))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE inbox SET request = ? WHERE message_id = 'b'", (request_text,))
    assert [each.message_id for each in await journal.inbox.undelivered()] == ["a", "c"]
    assert await journal.inbox.waiting("b") is None
    waiting = await journal.inbox.waiting("c")
    assert waiting is not None
    assert waiting.message.text == "c"
    assert await journal.inbox.delivery("b") is None
    await journal.aclose()
