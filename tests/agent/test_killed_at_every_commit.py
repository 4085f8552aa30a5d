"""``kill -9`` between any two writes of the journal: the loop ends as it would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import ResponseInfo, TextDelta
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.memory import Memory
from tests.support.agent.agents import Answer
from tests.support.agent.mortal import WORDS, Moment, live

pytestmark = pytest.mark.slow

UNKNOWN = "whether it did its work is unknown"


def what_is_journaled(folder: Path) -> tuple[RunLoop, RunLoopState]:
    async def look() -> RunLoopState:
        async with Memory(folder / "home", None) as memory:
            [state] = memory.short_term.states()
            return state

    state = anyio.run(look)
    return state.run_loop(), state


def times(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text()) if path.exists() else 0


def assert_ended_as_it_would_have(folder: Path) -> None:
    loop, state = what_is_journaled(folder)
    assert state.status == "idle"
    assert loop.iterations[0].user_message == WORDS
    assert loop.iterations[-1].response == "Done."
    calls = [call.name for iteration in loop.iterations for call in iteration.tool_calls]
    assert calls == ["look", "stamp", "post", "pay"]
    ids = [call.id for message in state.history for call in message.tool_calls]
    answered = [message.tool_call_id for message in state.history if message.role == "tool"]
    assert sorted(ids) == sorted(str(each) for each in answered)
    by_name = dict(
        zip(
            calls,
            [
                next(r.content for r in iteration.tool_results if r.id == call.id)
                for iteration in loop.iterations
                for call in iteration.tool_calls
            ],
            strict=True,
        )
    )
    assert by_name["look"] == "seen"
    assert by_name["stamp"] == "stamped"
    assert len(list(folder.glob("stamp *"))) == 1
    for name, done, traces in (("post", "posted", "letters"), ("pay", "paid", "payments")):
        # At most once in the world; and where nobody can know, the model is told so.
        assert times(folder, traces) <= 1
        if by_name[name] == done:
            assert times(folder, traces) == 1
        else:
            assert UNKNOWN in by_name[name]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_loop_killed_at_any_commit_ends_as_it_would_have(tmp_path: Path, moment: Moment) -> None:
    walked = 0
    while True:
        folder = tmp_path / str(walked)
        folder.mkdir()
        if live(folder, die_at=walked + 1, moment=moment):
            break
        assert live(folder), "it did not end after the restart"
        assert_ended_as_it_would_have(folder)
        walked += 1
    assert_ended_as_it_would_have(folder)  # never killed: beyond the last commit
    assert walked >= 15


PARTS = ("One, ", "two, ", "three.")


def counts(messages: Sequence[Message]) -> Answer:
    """An answer in parts, of which each but the last is cut off."""
    said = sum(message.role == "assistant" for message in messages)
    last = () if said == len(PARTS) - 1 else (ResponseInfo(finish_reason="length"),)
    return [TextDelta(PARTS[said]), *last]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_answer_in_parts_killed_at_any_commit_comes_whole(
    tmp_path: Path, moment: Moment
) -> None:
    walked = 0
    while True:
        folder = tmp_path / str(walked)
        folder.mkdir()
        died = not live(folder, die_at=walked + 1, moment=moment, respond=counts)
        if died:
            assert live(folder, respond=counts), "it did not end after the restart"
        loop, state = what_is_journaled(folder)
        assert state.status == "idle"
        assert tuple(each.response for each in loop.iterations) == PARTS
        if not died:
            break
        walked += 1
    assert walked >= 8


def test_a_loop_killed_twice_ends_as_it_would_have(tmp_path: Path) -> None:
    for first in range(2, 14, 3):
        for second in (2, 3, 5):
            folder = tmp_path / f"{first} {second}"
            folder.mkdir()
            assert not live(folder, die_at=first, moment="after")
            live(folder, die_at=second, moment="before")
            assert live(folder)
            assert_ended_as_it_would_have(folder)
