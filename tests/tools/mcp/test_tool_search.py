"""More tools of MCP servers than a model's window bears: they are searched for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.ids import new_id
from service.tools.builtins.tool_search import best_tools
from tests.support.agent.agents import Answer, FunctionLLM, call, sent
from tests.support.tools.connections import HttpClock
from tests.support.tools.server_agents import agent_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def painting(messages: Sequence[Message]) -> Answer:
    """Look for a tool, use what was found, and answer."""
    last = messages[-1]
    if last.role == "user":
        return [call("tool_search", json.dumps({"query": last.text}))]
    if "found" in last.text:
        return [call("clock__send_post", '{"city": "Lisbon"}')]
    return "done"


async def test_tool_descriptions_that_eat_the_context(server: HttpClock, tmp_path: Path) -> None:
    (server.folder / "many").touch()
    llm = FunctionLLM(painting)
    llm.context_tokens = 32_000
    async with agent_of(server, tmp_path, llm) as agent:
        tokens = sum(agent.tools.tokens_of(each) for each in agent.tools.definitions())
        assert tokens > 10_000, "all together"
        events = await sent(agent, "send a letter")
        first, second, third = llm.offered
        assert "tool_search" in first
        assert not any(name.startswith("clock__") for name in first)
        assert second[: len(first)] == first, "what was offered stays where it was"
        assert "clock__send_post" in second[len(first) :]
        assert third == second
        results = [e.body.content for e in events if e.body.type == "tool.finished"]
        assert results[1] == "noon in Lisbon"
        run_loop = events[-1].run_loop_id
        await sent(agent, "寄信", run_loop)
        assert "clock__send_post" in llm.offered[-1]
        await sent(agent, "a new matter, send nothing", "new")
        assert not any(name.startswith("clock__") for name in llm.offered[6])
    async with agent_of(server, tmp_path, llm) as agent:
        offered = llm.offered[5]
        await sent(agent, "again", run_loop)
        assert llm.offered[-3] == offered, "a replay of its history gives the same"


async def test_what_is_found_takes_no_more_than_its_share(
    server: HttpClock, tmp_path: Path
) -> None:
    (server.folder / "many").touch()
    llm = FunctionLLM(painting)
    async with agent_of(server, tmp_path, llm) as agent:
        await sent(agent, "paint a picture of a house")
        await sent(agent, "clock__paint_7")
        found = [name for name in llm.offered[-1] if name.startswith("clock__")]
        definitions = [agent.tools.get(name) for name in found]
        tokens = sum(agent.tools.tokens_of(each.definition) for each in definitions if each)
        assert 0 < tokens <= 820


async def test_few_tools_are_all_offered_and_nothing_is_searched_for(
    server: HttpClock, tmp_path: Path
) -> None:
    llm = FunctionLLM(lambda _: "done")
    llm.context_tokens = 200_000
    async with agent_of(server, tmp_path, llm) as agent:
        await sent(agent, "hello")
    assert "clock__now" in llm.offered[0]
    assert "tool_search" not in llm.offered[0]


async def test_what_is_held_is_not_found(server: HttpClock, tmp_path: Path) -> None:
    (server.folder / "many").touch()
    llm = FunctionLLM(painting)
    async with agent_of(server, tmp_path, llm):
        pass
    (server.folder / "description").write_text("Letters to strangers.")
    async with agent_of(server, tmp_path, llm) as agent:
        events = await sent(agent, "letters to strangers")
        [found, *_] = [e.body.content for e in events if e.body.type == "tool.finished"]
        assert "strangers" not in found


def definition(name: str, description: str) -> ToolDefinition:
    return ToolDefinition(name=name, description=description, parameters={})


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("When is the next train?", "rail__nextDepartures"),
        ("next departures", "rail__nextDepartures"),
        ("查询火车时刻", "bahn__abfahrt"),
        ("use mail__send please", "mail__send"),
        ("信", "mail__send"),
    ],
)
async def test_tools_are_found_by_words_of_both_languages(query: str, name: str) -> None:
    tools = [
        definition("mail__send", "Send a mail to somebody. 寄一封信"),
        definition("rail__nextDepartures", "The trains that leave a station next."),
        definition("bahn__abfahrt", "查询火车的时刻表"),
        definition("mail__list", "List what came in."),
    ]
    assert best_tools(query, tools)[0].name == name
    assert best_tools(f"{new_id()}", tools) == []
