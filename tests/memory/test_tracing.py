"""Where the words stand that memory gives: each piece of anything that was said is found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.anchors import Segment
from service.domain.conversation.messages import IMAGE_WORDS, ImageUrlPart, Message, TextPart
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import (
    EventBody,
    IterationStarted,
    MemoryRecalled,
    MessageReceived,
    Recollection,
    ToolFinished,
)
from service.domain.history.references import Quote
from service.domain.text import quoted
from service.memory.journal.appends import Append
from service.memory.journal.kept_words import kept
from service.memory.ledger.segmenter import segment
from service.memory.memory import Memory
from service.memory.tracing import trace
from service.tools.builtins.memory_tools import memory_search_tool
from tests.support.memory.exchanging import bring_in, loop, turn
from tests.support.memory.secrets import Loop, archived, forget, working_memory

LONG = " ".join(f"Sentence {n} tells of the wryneck, 它是一种鸟。" for n in range(120))
TEXTS = (
    "A plain line of words that are said once.",
    "Lines\r\nof another machine\r\n\r\nand \u2028 of none",
    '  blanks around, and a "quote", a \\ and a \t tab  ',
    "> a quote of somebody\n> else\n\nand [other:0.1] like an anchor",
    "蚁䴕是一种鸟。🙂 它的颈可以转动。",
    LONG,
)
pytestmark = pytest.mark.anyio


def recalled(piece: Segment) -> MemoryRecalled:
    return MemoryRecalled(recollections=(Recollection(anchor=piece.anchor, content=piece.content),))


def search_result_of(piece: Segment) -> ToolFinished:
    head = f"[{piece.anchor}] 2026-05-04 12:00, {piece.anchor.segment_type}"
    text = f"Found in memory.\n\n{head}\n{quoted(piece.content)}\n\nThat is all."
    return ToolFinished(call_id="c", name="memory_search", content=text)


def in_words(memory: Memory, body: EventBody) -> str | None:
    """What is kept in words of an event's text; None where that is all of it."""
    quotations = trace([body], "elsewhere", "me", memory.journal).get(0, ())
    left = memory.journal.words.checked(body, quotations, "me")
    if not left:
        return None
    row = json.loads(kept(body, left))
    assert row.get("content", "") == ""
    assert all(each["content"] == "" for each in row.get("recollections", ()))
    parts = [part for each in left for part in each.words]
    inner = [part.words if isinstance(part, Quote) else (part,) for part in parts]
    return "".join(each for words in inner for each in words if isinstance(each, str))


async def check(memory: Memory, run_loop_id: str, pieces: int) -> None:
    run_loop = await memory.load(run_loop_id)
    assert run_loop is not None
    segments = segment(run_loop)
    assert len(segments) >= pieces
    for each in segments:
        own = in_words(memory, recalled(each))
        assert own is not None
        assert own.strip() in ("", "look_up", IMAGE_WORDS)
        body = search_result_of(each)
        frame = body.content.replace(quoted(each.content), "")
        assert (in_words(memory, body) or "").replace(own, "") == frame.replace(own, "")


@pytest.mark.parametrize("text", TEXTS)
async def test_each_piece_of_a_run_loop_is_found(tmp_path: Path, text: str) -> None:
    async with Memory(tmp_path) as memory:
        own = Loop(memory, "own")
        await own.say(f"said: {text}")
        arguments = json.dumps({"what": text}, ensure_ascii=False)
        await own.use("look_up", arguments, f"looked up: {text}", thought=f"thought: {text}")
        await own.answer(f"answered: {text}")
        await check(memory, "own", 5)


async def test_what_several_messages_make_up_is_found_in_each_of_them(tmp_path: Path) -> None:
    async with Memory(tmp_path) as memory:
        own = Loop(memory, "own")
        await own.say("The beginning of it all.")
        await own.answer("It began.")
        image = ImageUrlPart(url="https://example.org/bird.png")
        parts = (TextPart(text="What flies over "), image, TextPart(text="the garden there?"))
        messages = (Message(role="user", content=parts), Message.user("And over the house?"))
        for number, message in enumerate(messages):
            await own.add(MessageReceived(message_id=f"more{number}", message=message))
        await own.add(IterationStarted(index=1, message_ids=("more0", "more1")))
        await own.answer("Swifts do, and swallows.")
        await check(memory, "own", 4)


async def test_each_piece_of_an_import_is_found(tmp_path: Path) -> None:
    async with Memory(tmp_path) as memory:
        turns = [turn(f"asked: {each}", f"answered: {each}") for each in TEXTS]
        await bring_in(memory, loop("old", *turns))
        await check(memory, "old", 12)


@pytest.mark.slow
async def test_what_the_tool_gives_is_found_whole(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        own = Loop(memory, "own")
        for text in TEXTS[:5]:
            await own.say(f"wryneck said: {text}")
            await own.answer(f"wryneck answered: {text}")
        await archived(memory)
        tool = memory_search_tool(memory.long_term)
        context = ToolContext(owner="me", run_loop_id="other", idempotency_key="k")
        text = await tool.run('{"query": "wryneck", "limit": 20}', context)
        assert text.count("[own:") == 10
        left = in_words(memory, ToolFinished(call_id="c", name="memory_search", content=text))
        assert left is not None
        assert "Found in memory" in left
        assert "wryneck" not in left


@pytest.mark.slow
async def test_what_is_forgotten_between_tracing_and_writing_is_not_written(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        for name in ("birds", "owls"):
            own = Loop(memory, name)
            await own.say(f"Which plumage have {name}?")
            await own.answer(f"The plumage of {name} is brown.")
            await own.end()
        await archived(memory)
        other = Loop(memory, "other")
        await other.say("Hello.")
        pieces = []
        for name in ("birds", "owls"):
            run_loop = await memory.load(name)
            assert run_loop is not None
            pieces.append(recalled(segment(run_loop)[-1]).recollections[0])
        body = MemoryRecalled(recollections=tuple(pieces))
        quotations = trace([body], "other", "me", memory.journal)
        assert len(quotations[0]) == 2
        await forget(memory, ForgetRequest(run_loop_ids=("birds",)))
        await memory.journal.append_together(Append("other", [body], quotations=quotations))
        state = memory.journal.state("other")
        assert state is not None
        assert [each.anchor.run_loop_id for each in state.recollections] == ["owls"]
        [last] = memory.journal.read_blocking(after=memory.journal.last_seq - 1)
        assert isinstance(last.body, MemoryRecalled)
        assert [each.content for each in last.body.recollections] == [pieces[1].content]


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(max_size=200), st.text(max_size=60))
async def test_no_text_keeps_an_event_from_being_written_or_changes_it(
    tmp_path_factory: pytest.TempPathFactory, text: str, other: str
) -> None:
    async with Memory(tmp_path_factory.mktemp("any")) as memory:
        own = Loop(memory, "own")
        await own.say(f"a {text}".encode("utf-8", "replace").decode())
        reader = Loop(memory, "reader")
        await reader.say("Hello.")
        content = f"[own:0.0] x\n> {text}\n{other}\n> {other}".encode("utf-8", "replace").decode()
        body = ToolFinished(call_id="c", name="memory_expand", content=content)
        await reader.add(body)
        [last] = memory.journal.read_blocking(after=memory.journal.last_seq - 1)
        assert last.body == body
