"""Why messages are in their run loops, told from journals of all ages."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import (
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RouteDecided,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.routes import Route
from service.server.route_explanations import decided_routes, lines_of
from tests.support.agent.agents import running_agent, sent
from tests.support.agent.moving import message_ids, opened

pytestmark = pytest.mark.anyio

ROUTE = Route(decision="new", confidence=1.0, method="fallback", reason="no run loop is active")


async def test_in_older_journals_a_message_was_observed_by_the_first_iteration_after_it(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        journal = agent.memory.journal
        await journal.append("old", RunLoopStarted(goal="Hello"), owner="me")
        for number in range(3):
            name = f"message {number}"
            await journal.append(
                "old",
                MessageReceived(message_id=name, message=Message.user(name)),
                RouteDecided(message_id=name, route=ROUTE),
                IterationStarted(index=number, message_ids=None),
                MessageCompleted(message=Message.assistant("Yes.")),
                RunLoopIdle(),
            )
        routes = await decided_routes(journal, "old", until=1_000_000)
        assert [(each.message_id, each.iteration) for each in routes] == [
            ("message 0", 0),
            ("message 1", 1),
            ("message 2", 2),
        ]


async def test_a_list_tells_of_the_newest_message_also_when_an_earlier_one_was_moved(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        loop, other = await opened(agent, "The bill"), await opened(agent, "A trip")
        for words in ("By train", "It is due on Monday"):
            await sent(agent, words, loop)
        first, second, third = await message_ids(agent, loop)

        async def line() -> tuple[bool, str | None]:
            summaries = await agent.memory.journal.run_loops.summaries(owner="me")
            lines = await lines_of(agent.memory.journal, summaries, why=True)
            line = next(each for each in lines if each.id == loop)
            return line.route is not None, line.moved_to

        await agent.reroute(loop, message_id=second, to=other)
        assert await line() == (True, None)
        await agent.reroute(loop, message_id=third, to=other)
        assert await line() == (False, other)
        await agent.reroute(loop, message_id=first, to=other)
        assert await line() == (False, other)
