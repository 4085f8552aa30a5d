"""What a call came to without its tool having spoken is told to the model, and is no memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message, ToolCall
from service.domain.conversation.stream_parts import StreamPart
from service.loop.execution import Loop
from service.loop.hooks.hooks import Hooks
from service.tools.builtins.memory_tools import memory_search_tool
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure
from tests.support.agent.agents import Answer, call, running_agent, sent
from tests.support.agent.waiting import Launches, asked, launch_call, rested, tool_call, wanting

pytestmark = pytest.mark.anyio


async def _remembered(folder: Path, wants: StreamPart, *tools: FunctionTool, **more: Any) -> str:
    """All that memory holds of a loop in which one call was made, once it has ended."""
    async with running_agent(folder, wanting(wants), *tools, auto_classify=False, **more) as agent:
        loop_id = (await sent(agent, "Begin."))[0].run_loop_id
        await agent.complete(loop_id)
        await agent.memory.archivist.drain()
        window = await agent.memory.long_term.expand(AnchorRef(loop_id, 0, 0), owner="me", after=20)
        (result,) = (await agent.run_loop(loop_id)).iterations[0].tool_results
        assert result.notice == (not any(p.content == result.content for p in window.after))
        return "\n".join(p.content for p in window.after if p.anchor.iteration_index == 0)


async def test_a_tool_that_is_not_there_is_no_memory(tmp_path: Path) -> None:
    assert "There is no tool" not in await _remembered(tmp_path, call("fly"))


async def test_arguments_that_do_not_fit_are_no_memory(tmp_path: Path) -> None:
    launch = Launches().tool(needs_approval=False)
    assert "missing" not in await _remembered(tmp_path, call("launch", "{}"), launch)


async def test_a_tool_that_was_given_up_is_no_memory(tmp_path: Path) -> None:
    @tool(effect="read_only", timeout_seconds=0.01)
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return "never"

    assert "given up" not in await _remembered(tmp_path, call("wait"), wait)


async def test_what_a_check_of_the_house_forbids_is_no_memory(tmp_path: Path) -> None:
    class Check(Hooks):
        async def before_tool_call(self, loop: Loop, call: ToolCall) -> str | None:
            return "Not on Sundays."

    launch = Launches().tool(needs_approval=False)
    kept = await _remembered(tmp_path, launch_call("a rocket"), launch, hooks=[Check()])
    assert "Sundays" not in kept


async def test_a_failure_that_a_tool_tells_is_remembered(tmp_path: Path) -> None:
    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        raise ToolFailure("The observatory is closed on Mondays.")

    assert "closed on Mondays" in await _remembered(tmp_path, call("look"), look)


async def test_a_call_that_was_not_allowed_is_no_memory(tmp_path: Path) -> None:
    launches = Launches()
    respond = wanting(launch_call("a rocket"))
    async with running_agent(tmp_path, respond, launches.tool(), auto_classify=False) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=False)
        (result,) = (await rested(agent, loop_id)).iterations[0].tool_results
        assert result.notice
        await agent.complete(loop_id)
        await agent.memory.archivist.drain()
        results = await agent.memory.long_term.search("did not allow this call", owner="me")
        assert not any(hit.anchor.segment_type == "tool_result" for hit in results.hits)


async def test_a_search_that_found_nothing_is_not_what_the_next_one_finds(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return "I do not know."
        return [tool_call("memory_search", query="the code of the padlock")]

    async with running_agent(tmp_path, respond, auto_classify=False) as agent:
        agent.tools.register(memory_search_tool(agent.memory.long_term))
        for _ in range(2):
            loop_id = (await sent(agent, "What is the code?"))[0].run_loop_id
            await agent.complete(loop_id)
            await agent.memory.archivist.drain()
        results = await agent.memory.long_term.search("the code of the padlock", owner="me")
        assert {hit.anchor.segment_type for hit in results.hits} <= {
            "user_message",
            "tool_call",
            "response",
        }
