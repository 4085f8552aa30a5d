"""A brain or an executor that could not work is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.domain.conversation.instructions import (
    CallLLM,
    Finish,
    Instruction,
)
from service.domain.errors import ConfigurationError
from service.domain.history.state import RunLoopState
from service.memory.memory import Memory
from service.tools.registry import ToolRegistry
from tests.support.agent.agents import (
    FunctionLLM,
    echo,
    running_agent,
    sent,
)
from tests.support.agent.brains import Thinks, problem_of

pytestmark = pytest.mark.anyio


class Asleep:
    async def next(self, state: RunLoopState) -> Instruction:
        return Finish()


@pytest.mark.parametrize(
    ("brain", "words"),
    [
        (Asleep(), "has an async `next`"),
        (Thinks, "is a class"),
        (object(), "has no method `next`"),
        (lambda state: Finish(), "has no method `next`"),
    ],
)
def test_what_is_no_brain_is_refused_at_once(tmp_path: Path, brain: Any, words: str) -> None:
    llm, tools, memory = FunctionLLM(echo), ToolRegistry(), Memory(tmp_path, None)
    with pytest.raises(ConfigurationError) as refused:
        create_agent(llm, tools, memory, brain=brain)
    assert words in refused.value.detail
    assert refused.value.advice
    with pytest.raises(ConfigurationError):
        AgentOptions(brain=brain)


async def _executor(instruction: Any, loop: Any) -> None: ...


@pytest.mark.parametrize(
    ("executors", "words"),
    [
        ({"cal_llm": _executor}, "'cal_llm'"),
        ({"cal_llm": _executor}, "did you mean call_llm?"),
        ({"request_approve": _executor}, "did you mean request_human_approve?"),
        ({"call_llm": "words"}, "the executor for call_llm is of the type str"),
        ({"call_llm": lambda instruction, loop: None}, "not an async function"),
    ],
)
def test_an_executor_that_would_never_be_called_is_refused_at_once(
    tmp_path: Path, executors: Any, words: str
) -> None:
    llm, tools, memory = FunctionLLM(echo), ToolRegistry(), Memory(tmp_path, None)
    with pytest.raises(ConfigurationError) as refused:
        create_agent(llm, tools, memory, executors=executors)
    assert words in refused.value.detail
    with pytest.raises(ConfigurationError) as refused:
        AgentOptions(executors=executors)
    assert words in refused.value.detail


async def test_an_executor_of_mine_that_raises_is_told_as_mine(tmp_path: Path) -> None:
    async def opening_hours(instruction: CallLLM, loop: Any) -> None:
        raise KeyError("hours")

    agent: Agent
    async with running_agent(tmp_path, echo, executors={"call_llm": opening_hours}) as agent:
        problem = problem_of(await sent(agent, "When are you open?"))
    assert problem.kind == "own-code"
    assert "opening_hours of yours, for call_llm, raised KeyError: 'hours'" in problem.detail
    assert "report" not in problem.in_words()
