"""Replaying a loop's history up to an event, and going another way from there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.history.fold import fold
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    answer_of,
    call,
    running_agent,
    sent,
    types,
    until,
)

pytestmark = pytest.mark.anyio


async def test_a_replay_up_to_each_event_is_the_fold_of_the_events_so_far(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        events = await sent(agent, "One")
        run_loop_id = events[0].run_loop_id
        await sent(agent, "Two", run_loop_id)
        history = await agent.memory.journal.read(run_loop_id=run_loop_id)
        for index, event in enumerate(history):
            state = await agent.replay(run_loop_id, at=event.seq)
            assert state == fold(history[: index + 1])
        assert await agent.replay(run_loop_id) == fold(history)


async def test_a_fork_has_the_history_up_to_the_event_and_a_life_of_its_own(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        return " / ".join(m.text for m in messages if m.role == "user")

    async with running_agent(tmp_path, respond) as agent:
        first = await sent(agent, "Plan a trip to Rome.")
        origin = first[0].run_loop_id
        resting = first[-1].seq
        await sent(agent, "By train.", origin)

        fork = await agent.fork(origin, at=resting)
        assert fork.id != origin
        assert fork.predecessor_id == origin
        assert fork.status == "idle"
        answer = answer_of(await sent(agent, "By plane.", fork.id))
        assert answer == "Plan a trip to Rome. / By plane."

        left_alone = await agent.run_loop(origin)
        state = await agent.replay(fork.id)
    assert [i.user_message for i in left_alone.iterations] == ["Plan a trip to Rome.", "By train."]
    assert state.forked_from is not None
    assert (state.forked_from.run_loop_id, state.forked_from.seq) == (origin, resting)
    assert state.iterations[0].timestamp == left_alone.iterations[0].timestamp


async def test_a_loop_can_be_forked_at_every_one_of_its_events(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    @tool(effect="side_effects")
    async def post() -> str:
        """Post."""
        ran.append("post")
        return "posted"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return "Done."
        return [call("look"), call("post", index=1)]

    async with running_agent(tmp_path, respond, look, post) as agent:
        events = await sent(agent, "Look and post.")
        origin = events[0].run_loop_id
        await agent.cancel(origin)
        history = await agent.memory.journal.read(run_loop_id=origin)
        begun = next(e.seq for e in history if getattr(e.body, "name", "") == "post")
        for seq in [event.seq for event in history]:
            ran.clear()
            fork = await agent.fork(origin, at=seq)
            await until(
                lambda fork=fork: (  # type: ignore[misc]
                    (state := agent.memory.short_term.state(fork.id)) is not None
                    and state.status == "idle"
                )
            )
            state = await agent.replay(fork.id)
            calls = [c.id for m in state.history for c in m.tool_calls]
            results = [m.tool_call_id for m in state.history if m.role == "tool"]
            assert sorted(calls) == sorted(str(each) for each in results)
            assert begun is not None
            assert seq is not None
            # In a fork of the moment between, nobody knows whether it was posted.
            assert ("post" in ran) == (2 <= seq < begun)


async def test_a_fork_of_a_waiting_loop_waits_by_itself(tmp_path: Path) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("pay")]

    async with running_agent(tmp_path, respond, pay) as agent:
        asked = await sent(agent, "Pay.")
        origin = asked[0].run_loop_id
        fork = await agent.fork(origin)
        assert fork.status == "waiting_for_human_input"
        await agent.answer(fork.id, approved=False)
        assert (await agent.run_loop(origin)).status == "waiting_for_human_input"


async def test_a_fork_survives_a_restart(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        events = await sent(agent, "One")
        fork = await agent.fork(events[0].run_loop_id)
    async with running_agent(tmp_path) as agent:
        assert answer_of(await sent(agent, "Two", fork.id)) == "You said: Two"
        loop = await agent.run_loop(fork.id)
    assert [each.user_message for each in loop.iterations] == ["One", "Two"]


async def test_what_cannot_be_forked_is_said(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        events = await sent(agent, "One")
        assert types(events)
        with pytest.raises(InvalidInputError):
            await agent.fork(events[0].run_loop_id, at=0)
        with pytest.raises(NotFoundError):
            await agent.fork("nowhere")
        with pytest.raises(NotFoundError):
            await agent.fork(events[0].run_loop_id, owner="somebody else")
