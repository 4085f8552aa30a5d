"""Words that are kept once: rows with references, and what is read of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import (
    EventBody,
    IterationStarted,
    MemoryRecalled,
    MessageReceived,
    RunLoopStarted,
    ToolFinished,
)
from service.domain.history.references import Quotation, Quote, Reference, Words
from service.memory.journal.appends import Append
from service.memory.journal.kept_words import SAME_AS
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from tests.support.memory.journal_file import rows, writing
from tests.support.memory.secrets import piece

SAID = "The shed opens with\n4711, and 门 too. 🙂"
FIELD = "message.content.0.text"
pytestmark = pytest.mark.anyio


class FiledJournal(SqliteJournal):
    """A journal that tells where it is."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[FiledJournal]:
    journal = FiledJournal(tmp_path / "journal.sqlite3")
    journal.open(lambda change: None)
    yield journal
    await journal.aclose()


async def source(journal: FiledJournal, *, owner: str = "me", run_loop_id: str = "shed") -> int:
    """A run loop in which it is said; the number of that event."""
    received = MessageReceived(message_id=f"{run_loop_id}-1", message=Message.user(SAID))
    await journal.append(run_loop_id, RunLoopStarted(goal="shed"), received, owner=owner)
    return journal.last_seq


async def write(
    journal: FiledJournal, body: EventBody, *quotations: Quotation, owner: str = "me"
) -> int:
    """A run loop in which something is told again; the number of that event."""
    await journal.append("other", RunLoopStarted(goal="other"), owner=owner)
    started = IterationStarted(index=0, message_ids=())
    await journal.append_together(Append("other", [started, body], quotations={1: quotations}))
    return journal.last_seq


def row(journal: FiledJournal, seq: int) -> str:
    text: str = rows(journal.path, "SELECT body FROM events WHERE seq = ?", (seq,))[0][0]
    return text


def read(journal: FiledJournal, seq: int) -> Any:
    return journal.read_blocking(after=seq - 1, limit=1)[0].body


def whole(seq: int) -> Reference:
    return Reference(event=seq, field=FIELD, start=0, end=len(SAID))


def result(content: str) -> ToolFinished:
    return ToolFinished(call_id="c", name="memory_search", content=content)


def recalled(seq: int) -> tuple[MemoryRecalled, Quotation]:
    body = MemoryRecalled(recollections=(piece("shed", 0, SAID),))
    body = MemoryRecalled.model_validate_json(body.model_dump_json())  # to the millisecond
    return body, Quotation(field="recollections.0.content", words=(whole(seq),))


async def test_words_stand_in_one_row_and_are_read_in_both(journal: FiledJournal) -> None:
    said = await source(journal)
    body, quotation = recalled(said)
    seq = await write(journal, body, quotation)
    assert "4711" in row(journal, said)
    assert "4711" not in row(journal, seq)
    assert read(journal, seq) == body
    state = journal.state("other")
    assert state is not None
    assert state.recollections == body.recollections


async def test_a_quote_is_rendered_line_by_line_between_words_of_its_own(
    journal: FiledJournal,
) -> None:
    said = await source(journal)
    cut = Reference(event=said, field=FIELD, start=4, end=8)
    quotation = Quotation(
        field="content", words=("Found:\n", Quote(words=(whole(said),)), "\nA ", cut, ".")
    )
    body = result("Found:\n> The shed opens with\n> 4711, and 门 too. 🙂\nA shed.")
    seq = await write(journal, body, quotation)
    assert "4711" not in row(journal, seq)
    assert "Found:" in row(journal, seq)
    assert read(journal, seq) == body


async def test_what_does_not_give_the_words_is_kept_in_words(journal: FiledJournal) -> None:
    said = await source(journal)
    body = result("The shed opens otherwise.")
    wrong: Words = (Reference(event=said, field=FIELD, start=0, end=25),)
    seq = await write(journal, body, Quotation(field="content", words=wrong))
    assert "otherwise" in row(journal, seq)
    assert read(journal, seq) == body


@pytest.mark.parametrize("change", ["rewritten", "deleted", "shorter", "of another owner"])
async def test_what_is_gone_is_a_mark_and_a_piece_of_memory_goes(
    journal: FiledJournal, change: str
) -> None:
    said = await source(journal)
    body, quotation = recalled(said)
    again = await write(journal, body, quotation)
    quotation = Quotation(field="content", words=("It is: ", whole(said)))
    again_in_words = Append("other", [result(f"It is: {SAID}")], quotations={0: (quotation,)})
    await journal.append_together(again_in_words)

    with writing(journal.path) as db:
        if change == "deleted":
            db.execute("DELETE FROM events WHERE seq = ?", (said,))
        elif change == "of another owner":
            db.execute("UPDATE events SET owner = 'you' WHERE seq = ?", (said,))
        else:
            left = "[forgotten]" if change == "rewritten" else "Hm."
            message = Message.user(left)
            gone = MessageReceived(message_id="shed-1", message=message).model_dump_json()
            db.execute("UPDATE events SET body = ? WHERE seq = ?", (gone, said))
    assert read(journal, again) == MemoryRecalled(recollections=())
    assert read(journal, again + 1).content == "It is: [forgotten]"


async def test_an_owner_is_not_given_words_of_another(journal: FiledJournal) -> None:
    said = await source(journal, owner="you")
    body, quotation = recalled(said)
    seq = await write(journal, body, quotation)
    assert "4711" in row(journal, seq), "it is kept in the words that it came with"
    assert journal.words.of((whole(said),), "me") == "[forgotten]"
    assert journal.words.of((whole(said),), "you") == SAID


async def test_a_row_can_be_as_another_one_and_so_on(journal: FiledJournal) -> None:
    said = await source(journal)
    seqs = [said]
    for copy in ("one", "two"):
        await journal.append(copy, RunLoopStarted(goal=copy), owner="me")
        left = MessageReceived(message_id="shed-1", message=Message.user("[forgotten]"))
        await journal.append(copy, left)
        seqs.append(journal.last_seq)
        body = json.dumps({**left.model_dump(mode="json"), SAME_AS: seqs[-2]})
        with writing(journal.path) as db:
            db.execute("UPDATE events SET body = ? WHERE seq = ?", (body, seqs[-1]))
    assert read(journal, seqs[-1]).message.text == SAID
    assert journal.words.of((whole(seqs[-1]),), "me") == SAID

    left = MessageReceived(message_id="shed-1", message=Message.user("[forgotten]"))
    body = json.dumps({**left.model_dump(mode="json"), SAME_AS: seqs[-1]})
    with writing(journal.path) as db:
        db.execute("UPDATE events SET body = ? WHERE seq = ?", (body, said))
    assert read(journal, seqs[-1]).message.text == "[forgotten]", "a circle holds no words"


async def test_metadata_may_be_called_as_the_place_of_references(journal: FiledJournal) -> None:
    received = MessageReceived(
        message_id="m", message=Message.user("Hi."), metadata={"references": [1], "same_as": 1}
    )
    await journal.append("loop", RunLoopStarted(goal="Hi."), received, owner="me")
    assert read(journal, journal.last_seq) == received
