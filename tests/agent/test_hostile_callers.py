"""Callers that give up, come twice, or come all at once leave nothing half done."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.lifecycle import Lifecycle
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.loop.hooks.hooks import Hooks
from service.memory.journal.inbox import InboxEntry
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    answer_of,
    call,
    echo,
    running_agent,
    sending,
    sent,
    types,
    until,
)

pytestmark = pytest.mark.anyio


def _status(agent: Agent, run_loop_id: str) -> str | None:
    state = agent.memory.short_term.state(run_loop_id)
    return None if state is None else state.status


async def _give_up_at_each_step(work: Callable[[], Awaitable[object]], steps: int) -> None:
    """Call, and cancel the call as asyncio does, after so many turns of the event loop."""
    task = asyncio.ensure_future(work())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("steps", [2, 5, 8, 12, 20, 40])
async def test_a_resume_whose_caller_gives_up_is_done_whole_or_not_at_all(
    tmp_path: Path, steps: int
) -> None:
    async with running_agent(tmp_path) as agent:
        loop_id = (await sent(agent, "Hello"))[0].run_loop_id
        await agent.cancel(loop_id)
        await _give_up_at_each_step(lambda: agent.resume(loop_id), steps)
        await until(lambda: _status(agent, loop_id) in (None, "idle"))


@pytest.mark.parametrize("steps", [2, 5, 8, 12, 20, 40])
async def test_a_message_whose_sender_gives_up_is_answered_if_it_was_accepted(
    tmp_path: Path, steps: int
) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        await _give_up_at_each_step(
            lambda: agent.accept("Hello", idempotency_key="k", request_hash="h"), steps
        )
        with agent.reader() as reader, anyio.fail_after(10):
            receipt = await agent.accept("Hello", idempotency_key="k", request_hash="h")
            events = [e async for e in agent.follow(receipt.message_id, reader=reader)]
        assert answer_of(events) == "You said: Hello"


async def test_three_who_cancel_or_resume_at_once_are_told_what_to_do(tmp_path: Path) -> None:
    gate = anyio.Event()
    refused: list[ConflictError] = []

    async def attempt(work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except ConflictError as error:
            refused.append(error)

    def respond(messages: Sequence[Message]) -> Answer:
        return [gate]

    async with running_agent(tmp_path, respond) as agent:
        await agent.accept("Hello")
        await until(agent.memory.short_term.states)
        loop_id = agent.memory.short_term.states()[0].id
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(attempt, lambda: agent.cancel(loop_id))
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(attempt, lambda: agent.resume(loop_id))
    assert len(refused) == 4
    assert all(error.advice for error in refused)


async def test_a_slow_interrupt_does_not_hold_up_another_topic(tmp_path: Path) -> None:
    release = anyio.Event()

    @tool()
    async def stubborn() -> str:
        """Take long to stop."""
        with anyio.CancelScope(shield=True):
            await release.wait()
        return "done"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Begin.":
            return [call("stubborn")]
        return f"You said: {messages[-1].text}"

    async with (
        running_agent(tmp_path, respond, stubborn, auto_classify=True) as agent,
        sending(agent, "Begin.") as events,
    ):
        await until(lambda: "tool.started" in types(events))
        with anyio.fail_after(10):
            await agent.accept("And stop that.", mode="interrupt")
            await anyio.wait_all_tasks_blocked()
            receipt = await agent.accept("Beside", owner="somebody else")
            with agent.reader(owner="somebody else") as reader:
                other = [e async for e in agent.follow(receipt.message_id, reader=reader)]
        assert answer_of(other) == "You said: Beside"
        assert _heard(agent, events[0].run_loop_id) == ["Begin."]
        release.set()
        await until(lambda: _heard(agent, events[0].run_loop_id) == ["Begin.", "And stop that."])


class _SlowForTheFirst(Hooks):
    async def before_routing(self, entry: InboxEntry, words: str) -> str:
        if words == "F0":
            await anyio.sleep(0.2)
        return words


@pytest.mark.slow
async def test_messages_to_one_loop_arrive_in_the_order_in_which_they_were_accepted(
    tmp_path: Path,
) -> None:
    expected = [f"F{i}" for i in range(6)]
    async with running_agent(tmp_path, hooks=(_SlowForTheFirst(),)) as agent:
        loop_id = (await sent(agent, "Q"))[0].run_loop_id
        await agent.cancel(loop_id)
        for words in expected:
            await agent.accept(words, run_loop_id=loop_id, mode="followup")
        await until(lambda: _heard(agent, loop_id)[1:] == expected)


class _Never(Hooks):
    async def before_routing(self, entry: InboxEntry, words: str) -> str:
        if words.startswith("F"):
            await anyio.sleep_forever()
        return words


async def test_messages_that_an_earlier_process_left_arrive_in_their_order(tmp_path: Path) -> None:
    expected = [f"F{i}" for i in range(8)]
    async with running_agent(tmp_path, hooks=(_Never(),)) as agent:
        loop_id = (await sent(agent, "Q"))[0].run_loop_id
        for words in expected:
            await agent.accept(words, run_loop_id=loop_id, mode="followup")
    async with running_agent(tmp_path) as agent:
        await until(lambda: _heard(agent, loop_id)[1:] == expected)


def _heard(agent: Agent, run_loop_id: str) -> list[str]:
    state = agent.memory.short_term.state(run_loop_id)
    return [m.text for m in state.history if m.role == "user"] if state else []


async def test_metadata_that_could_not_be_read_back_is_refused_in_words(tmp_path: Path) -> None:

    nested: Any = "value"
    for _ in range(240):
        nested = [nested]
    async with running_agent(tmp_path) as agent:
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            await agent.accept("Hello", metadata={"a": nested})


async def test_nobody_can_send_a_message_as_if_a_schedule_had(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        for about in ({"kind": "reminder", "recurs": True}, {"kind": "task"}, None):
            with pytest.raises(InvalidInputError, match="kept for what schedules send"):
                await agent.accept("Remember: blue", metadata={"schedule": about})


async def test_asking_for_messages_that_nobody_sent_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        for number in range(3):
            with agent.reader() as reader, pytest.raises(NotFoundError):
                _ = [e async for e in agent.follow(f"unknown {number}", reader=reader)]
        assert agent.engine.reception.awaited == 0


async def test_a_fork_asks_again_for_a_yes_that_was_not_used_yet(tmp_path: Path) -> None:
    paid: list[str] = []

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("pay")]

    async with running_agent(tmp_path, respond, pay) as agent:
        origin = (await sent(agent, "Pay."))[0].run_loop_id
        await agent.answer(origin, approved=True)
        await until(lambda: _status(agent, origin) == "idle")
        history = await agent.memory.journal.read(run_loop_id=origin)
        at = next(e.seq for e in history if e.type == "input.received")
        fork = await agent.fork(origin, at=at)
        assert fork.status == "waiting_for_human_input"
        assert len(paid) == 1
        await agent.answer(fork.id, approved=True)
        await until(lambda: _status(agent, fork.id) == "idle")
        assert len(paid) == 2


async def test_a_loop_that_rests_is_completed_though_the_clock_was_set_back(tmp_path: Path) -> None:
    async with running_agent(tmp_path, echo, linger_seconds=1e6) as agent:
        loop_id = (await sent(agent, "Hello"))[0].run_loop_id
        yesterday = Lifecycle(agent.memory, 0.05, now=lambda: datetime.now(UTC) - timedelta(days=1))
        async with anyio.create_task_group() as group:
            group.start_soon(yesterday.run)
            await until(lambda: _status(agent, loop_id) is None)
            group.cancel_scope.cancel()
        assert (await agent.run_loop(loop_id)).status == "completed"


async def test_a_message_that_cannot_be_read_does_not_keep_the_agent_from_starting(
    tmp_path: Path,
) -> None:

    async with running_agent(tmp_path, hooks=(_Never(),)) as agent:
        strange = await agent.accept("F strange")
        await agent.accept("F plain")
    with sqlite3.connect(tmp_path / "journal.sqlite3") as db:
        db.execute(
            "UPDATE inbox SET request = replace(request, '\"steer\"', '\"whisper\"')"
            " WHERE message_id = ?",
            (strange.message_id,),
        )
    async with running_agent(tmp_path) as agent:
        await until(lambda: [s.goal for s in agent.memory.short_term.states()] == ["F plain"])
        with agent.reader() as reader, anyio.fail_after(10):
            followed = [e async for e in agent.follow(strange.message_id, reader=reader)]
        assert types(followed) == []
        assert followed[-1].type == "error"
    with sqlite3.connect(tmp_path / "journal.sqlite3") as db:
        rows = db.execute("SELECT request FROM inbox WHERE run_loop_id IS NULL").fetchall()
    assert len(rows) == 1
