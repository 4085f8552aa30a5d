"""Imported run loops in the journal: histories of their own kind, whole batches, no noise."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import StorageError
from service.domain.history.events import (
    MessageReceived,
    RunLoopImported,
    RunLoopResumed,
    RunLoopStarted,
)
from service.domain.history.fold import fold
from service.domain.history.imported import NO_RESULT
from service.domain.run_loops import RunLoop
from service.memory.memory import Memory
from tests.support.memory.exchanging import (
    at_work,
    bring_in,
    counts,
    loop,
    turn,
)

pytestmark = pytest.mark.anyio

WEATHER = turn(
    "Will it rain in 成都 tomorrow? ☔",
    "Yes, from noon. 下午有雨。",
    reasoning="I should look.",
    tool_calls=[{"id": "c1", "name": "weather", "arguments": '{"city": "成都"}'}],
    tool_results=[{"id": "c1", "content": "rain from noon", "is_error": False}],
    metadata={"channel": "phone"},
)


def received(text: str) -> MessageReceived:
    return MessageReceived(
        message_id=f"m {text}", message=Message.user(text), metadata={"place": "home"}
    )


async def test_two_imports_of_the_same_file_at_once_bring_in_each_loop_once(
    tmp_path: Path,
) -> None:
    file = [loop(f"loop {number}", turn(f"Number {number}")) for number in range(30)]
    reports = []
    async with at_work(tmp_path) as memory:

        async def bring() -> None:
            reports.append(await bring_in(memory, *file, batch_loops=3))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(bring)
        assert sum(report.imported for report in reports) == 30
        assert sum(report.unchanged for report in reports) == 60
        assert memory.journal.last_seq == 30


async def test_the_history_of_an_imported_loop_is_well_formed(tmp_path: Path) -> None:
    calls = [{"id": "c1", "name": "a", "arguments": "{}"}, {"id": "c2", "name": "b"}]
    odd = turn(
        "Do it",
        tool_calls=[*calls, calls[0]],
        tool_results=[
            {"id": "c2", "content": "first"},
            {"id": "c2", "content": "second"},
            {"id": "stray", "content": "of nobody"},
        ],
    )
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", odd, WEATHER, status="failed"))
        state = await memory.journal.replay("a")
        assert [(message.role, message.tool_call_id) for message in state.history] == [
            ("user", None),
            ("assistant", None),
            ("tool", "c1"),
            ("tool", "c2"),
            ("user", None),
            ("assistant", None),
            ("tool", "c1"),
        ]
        assert [message.text for message in state.history][2:4] == [NO_RESULT, "first"]
        assert state.history[5].reasoning == "I should look."
        assert state.iterations[1].metadata == {"channel": "phone"}


async def test_a_failed_loop_that_came_in_can_be_taken_up_again(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", turn("One?", "Uno."), status="failed"))
        commit = await memory.journal.append("a", RunLoopResumed(), received("And two?"))
        assert commit.state.is_active
        assert [unseen.message.text for unseen in commit.state.unseen] == ["And two?"]
        again = loop("a", turn("One?", "Uno."), status="failed")
        assert counts(await bring_in(memory, again)) == (0, 0, 1, 0)
        grown = loop("a", turn("One?", "Uno."), turn("Elsewhere"), status="failed")
        assert counts(await bring_in(memory, grown)) == (0, 0, 0, 1)


async def test_the_state_is_the_fold_of_what_is_journaled(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", WEATHER, completed_at="2026-05-04T12:00:00.123999+08:00"))
        await bring_in(memory, loop("a", WEATHER, turn("More")))
        events = await memory.journal.read(run_loop_id="a")
        assert [type(event.body) for event in events] == [RunLoopImported] * 2
        state = fold(events)
        assert state is not None
        assert state == await memory.journal.replay("a")
    async with at_work(tmp_path) as memory:
        assert await memory.journal.replay("a") == state


async def test_what_had_grown_is_archived_after_a_crash_before_that(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", turn("One?")))
        await memory.archivist.drain()
    # Killed between the journal's commit and the archiving:
    async with Memory(tmp_path, None) as memory:
        memory.append_imports = memory.journal.imports.append  # type: ignore[method-assign]
        await bring_in(memory, loop("a", turn("One?"), turn("Two walruses?")))
    async with at_work(tmp_path) as memory:
        with anyio.fail_after(10):
            while not (await memory.long_term.search("walruses", owner="me")).hits:
                await anyio.sleep(0.01)
            while memory.long_term.pending.all():
                await anyio.sleep(0.01)


async def test_imports_are_not_announced_to_those_who_watch_all(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        with anyio.fail_after(10):
            await bring_in(memory, *(loop(f"l{number}") for number in range(20)))
            await memory.journal.append("new", RunLoopStarted(goal="News"), owner="me")
            async for event in memory.feed.events(owner="me", after=0):
                assert event.run_loop_id == "new"
                break
            async for event in memory.feed.events(run_loop_id="l3", after=0):
                assert isinstance(event.body, RunLoopImported)
                break


async def test_what_could_not_be_archived_at_first_is_archived_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(tmp_path) as memory:
        archive, failures = memory.long_term.archive, 5

        async def failing(run_loop: RunLoop) -> int:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise StorageError("the disk is full")
            return await archive(run_loop)

        monkeypatch.setattr(memory.long_term, "archive", failing)
        await bring_in(memory, *(loop(f"l{number}", turn("Walrus")) for number in range(5)))
        with anyio.fail_after(20):
            while (await memory.long_term.stats()).run_loops < 5:
                await anyio.sleep(0.02)
