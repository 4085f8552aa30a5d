"""What the model is told of itself: Rondo's words with the owner's, or the owner's alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from service.agent.agent_options import AgentOptions
from service.agent.agent_settings import options_from_settings
from service.config import Settings
from service.domain.conversation.messages import Message
from service.domain.errors import ConfigurationError
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, FunctionLLM, answer_of, call, running_agent, sent

pytestmark = pytest.mark.anyio

PROMPT = "You are HAL. 用中文回答。"


@tool()
def look(where: str) -> str:
    """Look."""
    return f"nothing in the {where}"


async def test_a_prompt_of_ones_own_can_stand_alone_with_tools_and_memory_still_there(
    tmp_path: Path,
) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool" or not llm.offered[-1]:
            return "Done."
        return [call("look", '{"where": "box"}')]

    llm = FunctionLLM(respond)
    options: dict[str, Any] = {
        "system_prompt": PROMPT,
        "system_prompt_mode": "replace",
        "auto_classify": False,
        "max_iterations": 2,
    }
    async with running_agent(tmp_path, llm, look, **options) as agent:
        first = await sent(agent, "The padlock of the shed opens with 4711.")
        await agent.complete(first[0].run_loop_id)
        await agent.memory.archivist.drain()
        second = await sent(agent, "What opens the padlock of the shed?")
    assert answer_of(second) == "Done."
    first_call, last_call = llm.calls[-2:]
    assert first_call[0] == Message.system(PROMPT)
    assert llm.offered[-2] == ("look",)
    assert "4711" in first_call[1].notes
    assert last_call[0].text.startswith(f"{PROMPT}\n\nAll steps that you may take are used up")


async def test_by_default_it_is_added(tmp_path: Path) -> None:
    llm = FunctionLLM(lambda _: "Hello.")
    async with running_agent(tmp_path, llm, system_prompt=PROMPT) as agent:
        await sent(agent, "Hello")
    system = llm.calls[-1][0].text
    assert system.startswith("You are Rondo")
    assert PROMPT in system


def test_nothing_in_the_place_of_the_built_in_prompt_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="system_prompt is empty"):
        AgentOptions(system_prompt=" ", system_prompt_mode="replace")
    settings = Settings.model_validate({"agent": {"system_prompt_mode": "replace"}})
    with pytest.raises(ConfigurationError):
        options_from_settings(settings)
