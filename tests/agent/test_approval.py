"""A tool that needs a person's yes waits for it, for days and across restarts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from service.domain.errors import ConflictError, InvalidInputError
from service.domain.messages import Message
from service.tools.decorator import tool
from tests.agent.support import Answer, call, request_of, running_agent, sent

pytestmark = pytest.mark.anyio


@tool(effect="side_effects", needs_approval=True)
def launch(what: str) -> str:
    """Launch something."""
    return f"{what} is launched"


def launches(messages: Sequence[Message]) -> Answer:
    if messages[-1].role == "tool":
        return f"Result: {messages[-1].text}"
    return [call("launch", '{"what": "the rocket"}')]


async def test_a_tool_that_needs_a_yes_waits_for_it_across_a_restart(tmp_path: Path) -> None:
    async with running_agent(tmp_path, launches, launch) as agent:
        events = await sent(agent, "launch it")
        loop_id = events[0].run_loop_id
        assert request_of(events).tool_calls[0].name == "launch"
    async with running_agent(tmp_path, launches, launch) as agent:
        assert (await agent.run_loop(loop_id)).status == "waiting_for_human_input"
        await agent.answer(loop_id, approved=True)
        async with aclosing(agent.events(run_loop_id=loop_id, after=0)) as stream:
            with anyio.fail_after(20):
                async for event in stream:
                    if event.type == "run_loop.idle":
                        break
        loop = await agent.run_loop(loop_id)
        assert loop.iterations[0].tool_results[0].content == "the rocket is launched"


async def test_a_no_is_told_to_the_model_with_its_reason_and_nothing_runs(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, launches, launch) as agent:
        events = await sent(agent, "launch it")
        loop_id, asked = events[0].run_loop_id, request_of(events).request_id
        await agent.answer(loop_id, approved=False, text="not on a Sunday", request_id=asked)
        with pytest.raises(ConflictError):
            await agent.answer(loop_id, approved=True, request_id=asked)
        async with aclosing(agent.events(run_loop_id=loop_id, after=0)) as stream:
            with anyio.fail_after(20):
                async for event in stream:
                    if event.type == "run_loop.idle":
                        break
        result = (await agent.run_loop(loop_id)).iterations[0].tool_results[0]
        assert result.is_error
        assert "not on a Sunday" in result.content


async def test_an_answer_without_a_yes_or_a_no_is_refused(tmp_path: Path) -> None:
    async with running_agent(tmp_path, launches, launch) as agent:
        events = await sent(agent, "launch it")
        with pytest.raises(InvalidInputError):
            await agent.answer(events[0].run_loop_id, text="hmm")
