"""Words rare enough to be searched for in the raw bytes of a data folder, and work on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import ForgetRequest
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, call, running_agent, sent
from tests.support.agent.moving import opened
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived, finished

SECRET = "Xylophone heist at the Quixotic Bank"
RESULT = "zugzwang-9913"
SECRETS = (SECRET, "Quixotic", RESULT)


@tool(effect="side_effects")
async def look(at: str) -> str:
    """Look."""
    return f"It says {RESULT}."


def respond(messages: Sequence[Message]) -> Answer:
    if messages[-1].role == "tool":
        return f"I found it: {messages[-1].text}"
    if "heist" in messages[-1].text:
        return [call("look", '{"at": "Quixotic"}')]
    return "Very well."


def house(folder: Path):  # type: ignore[no-untyped-def]
    return running_agent(folder, respond, look, embedder=WordEmbedder(), auto_classify=False)


async def places(agent: Agent, query: str) -> set[tuple[str, int]]:
    await archived(agent.memory)
    results = await agent.memory.long_term.search(query, owner="me", limit=20, fold=False)
    return {hit.anchor.ref[:2] for hit in results.hits if "heist" in hit.content}


async def forget(agent: Agent, request: ForgetRequest) -> None:
    preview = await agent.preview_forgetting(request)
    assert preview.confirm is not None, preview.notice
    await finished(agent.memory, await agent.forget(request, preview.confirm))


async def moved(agent: Agent) -> tuple[str, str]:
    """The ids of a loop about tulips, which the secret left, and of one about banks that has it."""
    bank = await opened(agent, "What is a bank?")
    garden = await opened(agent, "How do tulips grow?")
    await sent(agent, f"Plan the {SECRET}", garden)
    await archived(agent.memory)
    await agent.reroute(garden, to=bank)
    return garden, bank
