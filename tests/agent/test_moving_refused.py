"""Moves that are refused, in words that say what to do; nothing has changed then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.agent.agent_options import Waits
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    call,
    sending,
    sent,
    types,
    until,
)
from tests.support.agent.moves import answers, heard, whole
from tests.support.agent.moving import at_rest, message_ids, opened, running, unseen

pytestmark = pytest.mark.anyio


async def test_a_loop_that_works_for_long_is_told_to_be_waited_for(tmp_path: Path) -> None:
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        return [ready, TextDelta("At last.")] if messages[-1].text == "Think long" else "Yes."

    async with running(tmp_path, respond, waits=Waits(move=0.05)) as agent:
        bill = await opened(agent, "By train")
        async with sending(agent, "Think long") as events:
            await until(lambda: "iteration.started" in types(events))
            with pytest.raises(ConflictError, match="at work") as refused:
                await agent.reroute(bill, to=events[0].run_loop_id)
            assert refused.value.advice
            assert heard(await whole(agent, bill)) == ["By train"]
            ready.set()


async def test_a_loop_that_waits_for_a_person_takes_a_message_but_not_what_was_done_for_it(
    tmp_path: Path,
) -> None:
    @tool(effect="side_effects", needs_approval=False)
    async def book() -> str:
        """Book."""
        return "booked"

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Think long":
            return [ready, TextDelta("At last.")]
        if messages[-1].text == "By train":
            return [call("book")]
        return [call("pay")] if messages[-1].text == "Pay" else "Yes."

    async with running(tmp_path, respond, pay, book) as agent:
        other = await opened(agent, "By train")
        waiting = (await sent(agent, "Pay"))[-1].run_loop_id
        with pytest.raises(ConflictError, match="waits for an answer"):
            await agent.reroute(other, to=waiting)
        assert heard(await whole(agent, other)) == ["By train", None]
        async with sending(agent, "Think long") as events:
            await until(lambda: "iteration.started" in types(events))
            busy = events[0].run_loop_id
            receipt = await agent.accept("And by plane?", run_loop_id=busy, mode="followup")
            await until(lambda: unseen(agent, busy) == 1)
            await agent.reroute(busy, message_id=receipt.message_id, to=waiting)
            ready.set()
        # It is heard there at once, in place of the yes that was asked for.
        await at_rest(agent, waiting)
        state = await whole(agent, waiting)
        assert heard(state) == ["Pay", "And by plane?"]
        assert state.iterations[-1].response == "Yes."


async def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        mine = await opened(agent, "Mine")
        yours = (await sent(agent, "Yours", owner="you"))[-1].run_loop_id
        [message_id] = await message_ids(agent, mine)
        with pytest.raises(InvalidInputError):
            await agent.reroute(mine, to=mine)
        with pytest.raises(NotFoundError):
            await agent.reroute("nobody's")
        with pytest.raises(NotFoundError):
            await agent.reroute(mine, to=yours)
        with pytest.raises(NotFoundError):
            await agent.reroute(yours)
        with pytest.raises(NotFoundError):
            await agent.reroute(mine, message_id="other")
        assert heard(await whole(agent, mine)) == ["Mine"]
        await agent.reroute(mine, message_id=message_id)
        with pytest.raises(ConflictError):
            await agent.reroute(mine, to=await opened(agent, "Another"))


async def test_a_tool_cannot_move_the_message_that_it_works_for(tmp_path: Path) -> None:
    refused: list[str] = []

    @tool(effect="read_only")
    async def move(context: ToolContext) -> str:
        """Move."""
        try:
            await agent.reroute(context.run_loop_id)
        except ConflictError as error:
            refused.append(error.advice)
        return "tried"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("move")]

    async with running(tmp_path, respond, move) as agent:
        with anyio.fail_after(10):
            await sent(agent, "Move")
    assert len(refused) == 1


@pytest.mark.parametrize("first_is_source", [True, False])
async def test_a_tool_cannot_move_anything_to_or_from_its_own_run_loop(
    tmp_path: Path, first_is_source: bool
) -> None:
    refused: list[ConflictError] = []

    @tool(effect="read_only")
    async def move(context: ToolContext) -> str:
        """Move."""
        mine = context.run_loop_id
        source, target = (mine, other) if first_is_source else (other, mine)
        try:
            with anyio.fail_after(5):
                await agent.reroute(source, to=target)
        except ConflictError as error:
            refused.append(error)
        return "tried"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("move")] if messages[-1].text == "Move" else "Yes."

    async with running(tmp_path, respond, move) as agent:
        other = await opened(agent, "Other")
        await sent(agent, "Move")
        assert heard(await whole(agent, other)) == ["Other"]
    assert [each.advice for each in refused] == ["Move it from outside of tools and hooks."]


async def test_a_loop_at_work_is_not_stopped_for_a_move_that_is_refused(tmp_path: Path) -> None:
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return [ready, TextDelta("Looked.")]
        return [call("look")] if "Look" in messages[-1].text else [call("ask")]

    @tool(effect="side_effects", needs_approval=False)
    async def look() -> str:
        """Look."""
        return "seen"

    @tool(effect="side_effects", needs_approval=True)
    async def ask() -> str:
        """Ask."""
        return "asked"

    llm = FunctionLLM(respond)
    async with running(tmp_path, llm, look, ask) as agent:
        waiting = await opened(agent, "Ask")
        async with sending(agent, "Look") as events:
            await until(lambda: len(llm.calls) == 3)
            with pytest.raises(ConflictError):
                await agent.reroute(events[0].run_loop_id, to=waiting)
            ready.set()
        assert len(llm.calls) == 3
        assert answers(await whole(agent, events[0].run_loop_id))[-1] == "Looked."
