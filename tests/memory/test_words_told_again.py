"""What memory tells again is kept where it was said, and told from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.events import Event, MemoryRecalled, ToolFinished
from service.memory.memory import Memory
from tests.support.memory import journal_file
from tests.support.memory.secrets import (
    Loop,
    archived,
    forget,
    piece,
    record_exchange,
    working_memory,
)

QUESTION = "Which plumage has the wryneck?"
SAID = "A brown one, like bark.\nIt is called 蚁䴕 in Chinese."
OTHER = "Owls are awake at night."
pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def rows(memory: Memory, kind: str) -> list[str]:
    query = "SELECT body FROM events WHERE instr(body, ?) = 1 ORDER BY seq"
    path = memory.folder / "journal.sqlite3"
    return [row[0] for row in journal_file.rows(path, query, (f'{{"type":"{kind}"',))]


def events(memory: Memory, run_loop_id: str) -> list[Event]:
    return memory.journal.read_blocking(run_loop_id=run_loop_id)


async def tell_again(memory: Memory) -> None:
    """Two run loops, and a third that is told what was said there."""
    await record_exchange(memory, "birds", QUESTION, SAID)
    await record_exchange(memory, "owls", "And owls?", OTHER)
    await archived(memory)
    third = Loop(memory, "third")
    pieces = [piece("birds", 0, SAID, "response"), piece("owls", 0, OTHER, "response")]
    await third.say("Tell me of both.", recalled=pieces)
    quoted = SAID.replace("\n", "\n> ")
    result = (
        f"Found in memory.\n\n[birds:0.1] 2026-05-04 12:00, response\n> {quoted}\n\n"
        f"[owls:0.1] 2026-05-04 12:00, response\n> {OTHER}"
    )
    await third.use("memory_search", '{"query": "birds"}', result)
    window = (
        f"From the conversation of 2026-05-04 (completed) that began with:\n> {QUESTION}\nOf it:\n"
        f"\n[birds:0.1] response, asked for\n> {quoted}"
    )
    await third.use("memory_expand", '{"anchor": "birds:0.1"}', window)
    await third.answer("Thank you.")


async def test_no_row_but_that_of_who_said_it_holds_the_words(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await tell_again(memory)
        before = events(memory, "third")
        for row in (*rows(memory, "memory.recalled"), *rows(memory, "tool.finished")):
            assert "bark" not in row
            assert "蚁䴕" not in row
            assert "wryneck" not in row
            assert "awake" not in row
        told_again = [e.body for e in before if isinstance(e.body, ToolFinished | MemoryRecalled)]
        assert all("bark" in str(body) for body in told_again)
        assert len(told_again) == 3
    async with working_memory(tmp_path) as memory:
        assert [each.wire() for each in events(memory, "third")] == [each.wire() for each in before]


async def test_what_is_forgotten_is_told_nowhere_and_nothing_else_is_written(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await tell_again(memory)
        kept = [*rows(memory, "memory.recalled"), *rows(memory, "tool.finished")]
        receipt = await forget(memory, ForgetRequest(run_loop_ids=("birds",)))
        assert receipt.copies == {"third": 3}
        assert receipt.removed.rewritten == 0
        assert [*rows(memory, "memory.recalled"), *rows(memory, "tool.finished")] == kept
        state = memory.journal.state("third")
        assert state is not None
        assert [each.content for each in state.recollections] == [OTHER]
        results = [e.body.content for e in events(memory, "third") if e.type == "tool.finished"]  # type: ignore[union-attr]
        assert f"response\n> {FORGOTTEN}\n\n[owls:0.1]" in results[0]
        assert OTHER in results[0]
        assert results[1].endswith(f"> {FORGOTTEN}")
        assert "wryneck" not in results[1]
        shown = "\n".join(message.text for message in state.history)
        assert "bark" not in shown
        assert OTHER in shown


async def test_a_part_that_is_forgotten_is_told_no_more(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        birds = Loop(memory, "birds")
        await birds.say(QUESTION)
        await birds.answer(SAID)
        await birds.say("And swifts?")
        await birds.answer("They sleep on the wing.")
        await archived(memory)
        third = Loop(memory, "third")
        swifts = piece("birds", 1, "They sleep on the wing.", "response")
        await third.say("Of both.", recalled=[piece("birds", 0, SAID, "response"), swifts])
        await third.answer("Thank you.")
        await forget(memory, ForgetRequest(anchors=(AnchorRef("birds", 0, 0),)))
        state = memory.journal.state("third")
        assert state is not None
        assert [each.content for each in state.recollections] == [swifts.content]


async def test_a_result_with_a_note_on_what_goes_goes_whole(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "birds", QUESTION, SAID)
        await record_exchange(memory, "owls", "And owls?", OTHER)
        await archived(memory)
        third = Loop(memory, "third")
        await third.say("Tell me of both.")
        result = (
            f"Found in memory.\n\n[owls:0.1] 2026-05-04 12:00, response\n> {OTHER}\n\nNotes on"
            " this.\nWryneck (topic), written 2026-05-04:\n- It looks like bark. [birds:0.1]"
        )
        await third.use("memory_search", '{"query": "birds"}', result)
        await third.answer("Thank you.")
        await forget(memory, ForgetRequest(run_loop_ids=("birds",)))
        assert all("bark" not in row for row in rows(memory, "tool.finished"))
        [last] = [e.body for e in events(memory, "third") if isinstance(e.body, ToolFinished)]
        assert last.content == FORGOTTEN


async def test_a_page_of_a_long_result_goes_with_the_result(tmp_path: Path) -> None:
    page = "Page two: the wryneck's plumage is like bark."
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "long")
        await loop.say("What is known of birds?")
        await loop.use("look_up", "{}", "x" * 3000 + page + "y" * 3000)
        await loop.answer("Much.")
        await loop.say("And then?")
        head = "[Characters 3,000 to 3,045 of 6,045 of the result call1]"
        await loop.use("read_result", '{"call_id": "call1"}', f"{head}\n\n{page}\n\n[Its end.]")
        await loop.answer("I see.")
        [long, read] = rows(memory, "tool.finished")
        assert page in long
        assert "bark" not in read
        await forget(memory, ForgetRequest(anchors=(AnchorRef("long", 0, 0),)))
        [_, last] = [e.body for e in events(memory, "long") if isinstance(e.body, ToolFinished)]
        assert last.content == f"{head}\n\n{FORGOTTEN}\n\n[Its end.]"
        state = memory.journal.state("long")
        assert state is not None
        assert "bark" not in "".join(message.text for message in state.history)


async def test_one_piece_after_the_other_can_be_forgotten(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        names = ("birds", "owls", "swifts")
        for name in names:
            await record_exchange(memory, name, f"And {name}?", f"The plumage of {name} is brown.")
        await archived(memory)
        third = Loop(memory, "third")
        pieces = [piece(e, 0, f"The plumage of {e} is brown.", "response") for e in names]
        await third.say("Tell me of all.", recalled=pieces)
        await third.answer("Thank you.")
        for number, name in enumerate(names, start=1):
            await forget(memory, ForgetRequest(run_loop_ids=(name,)))
            state = memory.journal.state("third")
            assert state is not None
            left = [each.anchor.run_loop_id for each in state.recollections]
            assert left == list(names[number:])
    async with working_memory(tmp_path) as memory:
        assert memory.journal.states("me")[0].recollections == ()
