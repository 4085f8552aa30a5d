"""What Rondo itself says, and what its memory tells, is not remembered as anybody's words."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message, ToolCall, ToolResult
from service.domain.history.events import (
    IterationStarted,
    MessageCompleted,
    RunLoopCancelled,
    ToolFinished,
    ToolStarted,
)
from service.domain.history.state import OUTCOME_UNKNOWN
from service.domain.run_loops import Iteration, RunLoop
from service.memory.exchange.exporting import Exporting
from service.memory.exchange.importing import Importing
from service.memory.ledger.segmenter import segment
from service.memory.memory import Memory
from tests.support.memory.exchanging import at_work, bring_in, pieces
from tests.support.memory.exchanging import loop as line
from tests.support.memory.exchanging import turn as line_turn
from tests.support.memory.remembering import NOON, run_loop
from tests.support.memory.secrets import Loop, archived, working_memory

pytestmark = pytest.mark.anyio

_CALL = ToolCall(id="c1", name="water", arguments='{"bed": 3}')


def _turn(*results: ToolResult, call: ToolCall = _CALL) -> Iteration:
    return Iteration(
        user_message="Water the beds.",
        tool_calls=(call,),
        tool_results=results,
        response="I could not.",
        timestamp=NOON,
    )


def _contents(run_loop: RunLoop) -> dict[str, str]:
    return {str(piece.anchor.ref): piece.content for piece in segment(run_loop)}


async def _texts(memory: Memory, run_loop_id: str) -> dict[str, str]:
    """What long-term memory holds of a loop, by anchor."""
    first = AnchorRef(run_loop_id, 0, 0)
    window = await memory.long_term.expand(first, owner="me", after=50)
    pieces = (window.focus, *window.after)
    return {
        str(piece.anchor.ref).removeprefix(f"{run_loop_id}:"): piece.content for piece in pieces
    }


async def _calling(loop: Loop, *, begun: bool) -> None:
    """A tool is called in a loop; no result yet."""
    await loop.add(MessageCompleted(message=Message.assistant("", tool_calls=(_CALL,))))
    if begun:
        await loop.add(
            ToolStarted(call_id="c1", name="water", arguments=_CALL.arguments, idempotency_key="k")
        )


def _finished(content: str) -> ToolFinished:
    """As a journal of an earlier version has it: without a word on whose words these are."""
    return ToolFinished.model_validate(
        {"call_id": "c1", "name": "water", "content": content, "is_error": True}
    )


# --- what is no memory


def test_a_notice_gives_no_segment_and_the_others_keep_their_anchors() -> None:
    result = ToolResult(id="c1", content="Not run: the hose was away.", is_error=True)
    before = _contents(run_loop("r", _turn(result)))
    after = _contents(run_loop("r", _turn(result.model_copy(update={"notice": True}))))
    assert before.pop("r:0.2") == "Not run: the hose was away."
    assert after == before
    assert after["r:0.3"] == "I could not."


def test_a_long_notice_is_counted_in_all_its_pieces() -> None:
    result = ToolResult(id="c1", content="It was not run. " * 400)
    before = _contents(run_loop("r", _turn(result)))
    after = _contents(run_loop("r", _turn(result.model_copy(update={"notice": True}))))
    assert len(before) > 5
    assert after == {ref: text for ref, text in before.items() if "It was not run" not in text}


@pytest.mark.parametrize("name", ["memory_search", "memory_expand", "read_result"])
def test_what_memory_told_is_remembered_only_where_it_was_said(name: str) -> None:
    call = ToolCall(id="c1", name=name, arguments='{"query": "padlock"}')
    tool_result = ToolResult(id="c1", content="[r:0.0] The padlock's code is 4711.")
    assert "4711" not in str(_contents(run_loop("s", _turn(tool_result, call=call))))
    other = ToolCall(id="c1", name="read_file", arguments="{}")
    assert "4711" in str(_contents(run_loop("s", _turn(tool_result, call=other))))


@pytest.mark.parametrize("begun", [False, True])
async def test_what_a_cancelled_call_came_to_is_not_found(tmp_path: Path, begun: bool) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "r")
        await loop.say("Water the beds.")
        await _calling(loop, begun=begun)
        await loop.add(RunLoopCancelled())
        await archived(memory)
        state = await memory.journal.replay("r")
        (result,) = state.iterations[0].tool_results
        assert "the run loop was cancelled" in result.content, "it is in the history"
        assert result.notice
        assert await _texts(memory, "r") == {"0.0": "Water the beds.", "0.1": 'water {"bed": 3}'}
        response = await memory.long_term.search("Was the run loop cancelled first?", owner="me")
        assert not any("cancelled" in hit.content for hit in response.hits)


# --- what earlier versions wrote


async def test_in_an_older_journal_what_no_tool_and_no_person_said_is_a_notice(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "r")
        await loop.say("Water the beds.")
        await _calling(loop, begun=False)
        await loop.add(_finished("The person did not allow this call."))
        await loop.add(IterationStarted(index=1, message_ids=()))
        await _calling(loop, begun=True)
        await loop.add(_finished(OUTCOME_UNKNOWN))
        await loop.add(IterationStarted(index=2, message_ids=()))
        await _calling(loop, begun=True)
        await loop.add(_finished("The hose is not connected."))
        await loop.add(IterationStarted(index=3, message_ids=()))
        await loop.answer("No water.")
        await loop.end()
        await archived(memory)
        texts = await _texts(memory, "r")
        assert "The hose is not connected." in texts.values(), "a tool's own failure is remembered"
        assert not any("did not allow" in text or "unknown" in text for text in texts.values())


async def test_a_ledger_of_an_earlier_version_loses_its_notices_and_embeds_nothing_again(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "r")
        await loop.say("Water the beds.")
        await _calling(loop, begun=False)
        await loop.add(RunLoopCancelled())
        await archived(memory)
    with sqlite3.connect(tmp_path / "memory.sqlite3") as db:
        db.execute(
            "INSERT INTO segments(owner, run_loop_id, iteration, segment, type, timestamp, at,"
            " text, text_hash, call_id) SELECT owner, run_loop_id, 0, 2, 'tool_result', timestamp,"
            " at, 'Not run: the run loop was cancelled first.', 'hash', 'c1' FROM segments LIMIT 1"
        )
        kept = db.execute("SELECT id FROM segments WHERE segment < 2 ORDER BY id").fetchall()
        db.execute("PRAGMA user_version = 3")
    async with working_memory(tmp_path) as memory:
        await archived(memory)
        assert await _texts(memory, "r") == {"0.0": "Water the beds.", "0.1": 'water {"bed": 3}'}
    with sqlite3.connect(tmp_path / "memory.sqlite3") as db:
        assert db.execute("SELECT id FROM segments ORDER BY id").fetchall() == kept
        assert db.execute("SELECT status FROM run_loops").fetchall() == [("cancelled",)]


# --- on its way elsewhere


async def test_a_notice_that_was_exported_is_no_memory_where_it_is_brought_in(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path / "here") as memory:
        loop = Loop(memory, "r")
        await loop.say("Water the beds.")
        await _calling(loop, begun=False)
        await loop.add(RunLoopCancelled())
        await archived(memory)
        here = await _texts(memory, "r")
        exported = b"".join([each async for each in Exporting(memory, owner="me").lines()])
    async with working_memory(tmp_path / "there") as memory:
        report = await Importing(memory, owner="me").take(pieces(exported))
        assert report.imported == 1
        await archived(memory)
        assert await _texts(memory, "r") == here


async def test_a_file_without_marks_is_taken_as_it_is(tmp_path: Path) -> None:
    called = {
        "tool_calls": [{"id": "c1", "name": "water", "arguments": "{}"}],
        "tool_results": [{"id": "c1", "content": "Bed 3 is wet.", "is_error": False}],
    }
    async with at_work(tmp_path) as memory:
        await bring_in(memory, line("r", line_turn("Water?", "Done.", **called)))
        await memory.archivist.drain()
        assert "Bed 3 is wet." in (await _texts(memory, "r")).values()
        window = await memory.long_term.expand(AnchorRef("r", 0, 2), owner="me")
        assert window.focus.content == "Bed 3 is wet."
