"""What a person has answered stays the answer, also where its loop ends or turns away first."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.agent.agent import Agent
from service.domain.errors import Problem
from service.domain.history.events import (
    EventBody,
    RunLoopCancelled,
    RunLoopFailed,
    RunLoopInterrupted,
    ToolFinished,
)
from service.domain.history.human_input import InputReceived
from service.loop.replies import withdrawn
from service.tools.builtins.ask_user import ask_user, choose
from tests.support.agent.agents import running_agent, sent
from tests.support.agent.moves import whole
from tests.support.agent.waiting import asked, request_id, rested, results_of, tool_call, wanting

pytestmark = pytest.mark.anyio

NAME = wanting(tool_call("ask_user", question="What is your name?"))
DRINKS = wanting(tool_call("choose", question="喝什么？", options=["茶", "咖啡"], multiple=True))
FAILED = RunLoopFailed(problem=Problem(kind="llm", title="The language model failed"))


async def answered(agent: Agent, run_loop_id: str, **answer: object) -> None:
    """An answer is journaled, and its loop is stopped before it has done anything with it."""
    received = InputReceived.model_validate(
        {"request_id": request_id(agent, run_loop_id), **answer}
    )
    await agent.memory.journal.append(run_loop_id, received, durable=True)


@pytest.mark.parametrize("end", [RunLoopCancelled(), FAILED, RunLoopInterrupted(message_id="m")])
async def test_an_answer_is_the_result_also_where_its_loop_is_stopped_right_after_it(
    tmp_path: Path, end: EventBody
) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
        await answered(agent, loop_id, text="under zebra")
        await agent.memory.journal.append(loop_id, end, durable=True)
        (result,) = (await whole(agent, loop_id)).iterations[0].tool_results
        assert (result.content, result.is_error, result.notice) == ("under zebra", False, False)


async def test_an_answer_before_a_cancel_is_read_by_the_model_after_resuming(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, DRINKS, choose) as agent:
        loop_id = await asked(agent)
        await answered(agent, loop_id, choices=["茶", "咖啡"])
        await agent.cancel(loop_id)
        await agent.resume(loop_id)
        now = await rested(agent, loop_id)
        assert results_of(now) == ["茶\n咖啡"]
        assert now.iterations[-1].response == "Results: 茶\n咖啡"
        await whole(agent, loop_id)


async def test_an_empty_answer_is_an_answer_too(tmp_path: Path) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
        await answered(agent, loop_id, text="")
        await agent.cancel(loop_id)
        (result,) = (await whole(agent, loop_id)).iterations[0].tool_results
        assert (result.content, result.is_error, result.notice) == ("", False, False)


async def test_an_answer_is_kept_where_a_message_is_taken_instead_of_going_on(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
        await answered(agent, loop_id, text="under zebra")
        state = await agent.replay(loop_id)
        closed = withdrawn(state, None, "m")[0]
        assert isinstance(closed, ToolFinished)
        assert (closed.content, closed.is_error) == ("under zebra", False)
        await sent(agent, "Leave it.", loop_id, mode="interrupt")
        assert results_of(await agent.run_loop(loop_id))[0] == "under zebra"
        await whole(agent, loop_id)
