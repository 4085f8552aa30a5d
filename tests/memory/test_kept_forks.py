"""A fork refers to what it began with: the words stand in the run loop that it came from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.events import CompactionFinished, Event
from service.domain.history.fold import fold
from service.memory.exchange.importing import Importing
from service.memory.memory import Memory
from tests.memory.test_forgetting_copies import fork
from tests.support.memory import journal_file
from tests.support.memory.exchanging import counts, exported, pieces
from tests.support.memory.secrets import (
    Loop,
    archived,
    forget,
    piece,
    record_exchange,
    traces,
    working_memory,
)

QUESTION = "Where has Zwibbelquast hidden the sextant?"
ANSWER = "In 青瓷密匣, says Ombrelune."
PLUMAGE = "A brown one, like bark."
pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def make(memory: Memory) -> None:
    """A run loop, its fork, and a fork of that; each goes on by itself."""
    await record_exchange(memory, "birds", "Which plumage has the wryneck?", PLUMAGE)
    await archived(memory)
    parent = Loop(memory, "parent")
    await parent.say(QUESTION, recalled=[piece("birds", 0, PLUMAGE, "response")])
    await parent.use("jot", '{"note": "Krasvingel"}', "Jotted: Krasvingel", thought="Dorvaal?")
    await parent.answer(ANSWER)
    await (await parent.say("And tulips?")).answer("They like sun.")
    child = await fork(memory, "parent", "child")
    await (await child.say("And crocuses?")).answer("They, too.")
    grandchild = await fork(memory, "child", "grandchild")
    await (await grandchild.say("And owls?")).answer("They are awake at night.")
    await archived(memory)


def rows(memory: Memory, run_loop_id: str) -> str:
    path = memory.folder / "journal.sqlite3"
    query = "SELECT body FROM events WHERE run_loop_id = ?"
    return "\n".join(row[0] for row in journal_file.rows(path, query, (run_loop_id,)))


def events(memory: Memory, run_loop_id: str) -> list[Event]:
    return memory.journal.read_blocking(run_loop_id=run_loop_id)


def said(memory: Memory, run_loop_id: str) -> list[str | None]:
    state = memory.short_term.state(run_loop_id)
    assert state is not None
    read = fold(events(memory, run_loop_id))
    assert read is not None
    assert state.iterations == read.iterations
    return [each.user_message for each in state.iterations if each.user_message]


async def test_the_rows_of_forks_hold_their_own_words_alone(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await make(memory)
        for each in ("child", "grandchild"):
            for words in (QUESTION, "青瓷密匣", "Krasvingel", "Dorvaal", "tulips", "bark"):
                assert words not in rows(memory, each)
        assert "crocuses" in rows(memory, "child")
        assert "crocuses" not in rows(memory, "grandchild")
        parent, child = events(memory, "parent"), events(memory, "child")
        copied = [event.body for event in parent[1:] if event.type != "usage"]
        assert [event.body for event in child[1 : len(copied) + 1]] == copied
        assert [event.at for event in child[1:3]] == [event.at for event in parent[1:3]]
    async with working_memory(tmp_path) as memory:
        assert said(memory, "grandchild") == [
            QUESTION,
            "And tulips?",
            "And crocuses?",
            "And owls?",
        ]


async def test_a_parent_that_is_forgotten_takes_what_forks_have_inherited_along(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await make(memory)
        request = ForgetRequest(run_loop_ids=("parent",), stop=True)
        preview = await memory.forgetting.preview(request, owner="me")
        assert {each.run_loop_id: each.kinds for each in preview.copies} == {
            "child": ("fork",),
            "grandchild": ("fork",),
        }
        await Loop(memory, "parent").end()
        await forget(memory, ForgetRequest(run_loop_ids=("parent",)))
        hidden = ("Zwibbelquast", "青瓷密匣", "Ombrelune", "Krasvingel", "Dorvaal", "tulips")
        assert traces(tmp_path, *hidden) == []
        assert said(memory, "child") == [FORGOTTEN, FORGOTTEN, "And crocuses?"]
        assert said(memory, "grandchild")[2:] == ["And crocuses?", "And owls?"]


async def test_the_fork_between_takes_along_what_is_its_own_alone(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await make(memory)
        await Loop(memory, "child").end()
        await forget(memory, ForgetRequest(run_loop_ids=("child",)))
        assert traces(tmp_path, "crocuses") == []
        assert said(memory, "parent") == [QUESTION, "And tulips?"]
        assert said(memory, "grandchild") == [FORGOTTEN, FORGOTTEN, FORGOTTEN, "And owls?"]


async def test_a_fork_of_what_was_forgotten_in_part_begins_with_what_is_left(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await make(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("parent", 0, 0),)))
        assert traces(tmp_path, "Zwibbelquast", "Krasvingel") == []
        late = await fork(memory, "parent", "late")
        await (await late.say("And herons?")).answer("They stand in water.")
        for each in ("parent", "child", "late"):
            assert said(memory, each)[:2] == [FORGOTTEN, "And tulips?"]
        await forget(memory, ForgetRequest(anchors=(AnchorRef("parent", 2, 0),)))
        assert traces(tmp_path, "tulips", "like sun") == []
        assert said(memory, "late")[-1] == "And herons?"


async def test_what_is_written_anew_in_the_parent_is_read_so_in_its_forks(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(
            memory, "shed", "Which code has it?", "The code of the padlock is 4711."
        )
        await archived(memory)
        parent = Loop(memory, "parent")
        answer = piece("shed", 0, "The code of the padlock is 4711.", "response")
        await (await parent.say("Which was it?", recalled=[answer])).answer("It is 4711.")
        await fork(memory, "parent", "child")
        await archived(memory)
        await forget(memory, ForgetRequest(run_loop_ids=("shed",), with_answers=True))
        assert traces(tmp_path, "4711") == []
        state = memory.short_term.state("child")
        assert state is not None
        assert state.iterations[0].response == FORGOTTEN
        assert state.recollections == ()
        assert '"same_as":' in rows(memory, "child")


async def test_a_fork_of_what_was_summarised_holds_neither_words_nor_summary(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        parent = Loop(memory, "parent")
        await (await parent.say(QUESTION)).answer(ANSWER)
        await (await parent.say("And tulips?")).answer("They like sun.")
        summary = Message.user("Somebody hid Zwibbelquast's sextant.")
        await parent.add(
            CompactionFinished(
                messages=2, replacement=(summary,), method="model", tokens_before=9, tokens_after=2
            )
        )
        await fork(memory, "parent", "child")
        assert "Somebody" not in rows(memory, "child")
        states = [memory.short_term.state(each) for each in ("parent", "child")]
        assert states[0] is not None
        assert states[1] is not None
        assert list(states[0].history) == list(states[1].history)
        await archived(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("parent", 0, 0),)))
        assert traces(tmp_path, "Zwibbelquast", "Somebody") == []
        assert said(memory, "child") == [FORGOTTEN, "And tulips?"]


async def test_a_fork_is_exported_with_all_its_words(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await make(memory)
        loops = {
            each["id"]: each for each in map(json.loads, (await exported(memory)).splitlines())
        }
        there = [each["user_message"] for each in loops["grandchild"]["iterations"]]
        assert there[0] == QUESTION
        assert there[-1] == "And owls?"


async def test_an_imported_fork_stands_by_itself_and_its_copies_are_named(tmp_path: Path) -> None:
    async with working_memory(tmp_path / "here") as memory:
        await make(memory)
        for each in ("parent", "child", "grandchild"):
            await Loop(memory, each).end()
        await archived(memory)
        out = await exported(memory)
    for order in (1, -1):  # a fork may come in before the run loop that it came from
        folder = tmp_path / str(order)
        async with working_memory(folder) as memory:
            report = await Importing(memory, owner="me").take(
                pieces(b"".join(out.splitlines(keepends=True)[::order]))
            )
            assert counts(report) == (4, 0, 0, 0)
            await archived(memory)
            assert sorted((await exported(memory)).splitlines()) == sorted(out.splitlines())
            hits = (await memory.long_term.search("the sextant of Zwibbelquast", owner="me")).hits
            assert hits[0].content == QUESTION
            request = ForgetRequest(run_loop_ids=("parent",))
            preview = await memory.forgetting.preview(request, owner="me")
            assert preview.copies == ()
            assert {(each.run_loop_id, each.by) for each in preview.repeated} == {
                ("child", "import"),
                ("grandchild", "import"),
            }
            await forget(memory, request)
            child = await memory.journal.replay("child", owner="me")
            assert [each.user_message for each in child.iterations if each.user_message] == [
                QUESTION,
                "And tulips?",
                "And crocuses?",
            ]
            await forget(memory, ForgetRequest(run_loop_ids=("child", "grandchild")))
            assert traces(folder, "Zwibbelquast", "青瓷密匣", "Krasvingel", "Dorvaal") == []
