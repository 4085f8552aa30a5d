"""The journal's inbox: what is accepted waits for its run loop, and comes there once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError
from service.domain.history.events import (
    RunLoopStarted,
)
from service.memory.journal.inbox import InboxEntry
from tests.support.histories import received
from tests.support.memory.opened_journal import Opened

pytestmark = pytest.mark.anyio


def entry(text: str, message_id: str = "m1") -> InboxEntry:
    return InboxEntry(message_id=message_id, owner="me", message=Message.user(text))


async def test_an_accepted_message_waits_across_a_restart_until_it_is_in_a_loop(
    tmp_path: Path,
) -> None:
    journal = Opened(tmp_path / "journal.sqlite3").journal
    await journal.inbox.accept(entry("先说这个", "m1"))
    await journal.inbox.accept(entry("then this", "m2"))
    await journal.aclose()

    journal = Opened(tmp_path / "journal.sqlite3").journal
    waiting = await journal.inbox.undelivered()
    assert [(e.message_id, e.message.text) for e in waiting] == [
        ("m1", "先说这个"),
        ("m2", "then this"),
    ]
    commit = await journal.append(
        "a", RunLoopStarted(goal="x"), received("x"), owner="me", delivering="m1"
    )
    delivery = await journal.inbox.delivery("m1")
    assert delivery is not None
    assert (delivery.run_loop_id, delivery.first_seq) == ("a", commit.events[0].seq)
    assert [e.message_id for e in await journal.inbox.undelivered()] == ["m2"]


async def test_a_message_is_delivered_once(tmp_path: Path) -> None:
    journal = Opened(tmp_path / "journal.sqlite3").journal
    await journal.inbox.accept(entry("x"))
    await journal.append("a", RunLoopStarted(goal="x"), received("x"), owner="me", delivering="m1")
    with pytest.raises(ConflictError, match="delivered before"):
        await journal.append("a", received("x"), delivering="m1")
    assert len(await journal.read()) == 2


async def test_the_words_of_a_delivered_message_are_stored_once(tmp_path: Path) -> None:
    journal = Opened(tmp_path / "journal.sqlite3").journal
    await journal.inbox.accept(entry("singular words"))
    await journal.append(
        "a", RunLoopStarted(goal="x"), received("singular words"), owner="me", delivering="m1"
    )
    await journal.aclose()
    with sqlite3.connect(tmp_path / "journal.sqlite3") as db:
        rows = db.execute("SELECT request FROM inbox").fetchall()
    assert rows == [(None,)]


async def test_an_idempotency_key_accepts_a_request_once(tmp_path: Path) -> None:
    inbox = Opened(tmp_path / "journal.sqlite3").journal.inbox
    first = await inbox.accept(entry("x", "m1"), idempotency_key="k", request_hash="h")
    again = await inbox.accept(entry("x", "m2"), idempotency_key="k", request_hash="h")
    assert (first.replayed, again.replayed) == (False, True)
    assert again.message_id == "m1"
    with pytest.raises(ConflictError, match="idempotency key"):
        await inbox.accept(entry("y", "m3"), idempotency_key="k", request_hash="other")
    assert len(await inbox.undelivered()) == 1
