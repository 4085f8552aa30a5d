"""A sender who says that a message is a new topic: no router can think otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import RouteDecided
from service.memory.journal.inbox import InboxEntry
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import running_agent, sent
from tests.support.memory.exchanging import bring_in

pytestmark = pytest.mark.anyio

JOINING = RouterOptions(use_llm=False)


async def test_a_message_said_to_be_new_opens_a_run_loop_however_near_another_one_is(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, router=JOINING) as agent:
        first = (await sent(agent, "Please find a hotel in Bonn for Friday."))[0].run_loop_id
        again = "Please find a hotel in Bonn for Friday."
        joined = await sent(agent, "And is breakfast included in the hotel in Bonn?")
        assert joined[0].run_loop_id == first

        events = await sent(agent, again, "new")

        assert events[0].run_loop_id != first
        [route] = [e.body.route for e in events if isinstance(e.body, RouteDecided)]
        assert (route.decision, route.method, route.confidence) == ("new", "explicit", 1.0)
        assert "new" in route.reason
        assert len((await agent.run_loop(first)).iterations) == 2
        assert await agent.ask("又一个新话题", "new") == "You said: 又一个新话题"
        assert len(agent.memory.short_term.states()) == 3


async def test_a_message_said_to_be_new_stays_new_when_the_process_dies_before_it_is_delivered(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, router=JOINING) as agent:
        first = (await sent(agent, "Please find a hotel in Bonn for Friday."))[0].run_loop_id
        receipt = await agent.accept("A hotel in Bonn for Friday", run_loop_id="new")
        entry = InboxEntry(
            "m-left", "me", Message.user("Please find a hotel in Bonn for Friday."), "new"
        )
        await agent.memory.journal.inbox.accept(entry)  # as one that dies right after that
        await agent.delivery(receipt.message_id)
    async with running_agent(tmp_path, router=JOINING) as agent:
        delivery = await agent.delivery("m-left")
        assert getattr(delivery, "run_loop_id", first) != first


async def test_a_moved_message_may_be_said_to_be_new_by_the_same_word(tmp_path: Path) -> None:
    async with running_agent(tmp_path, router=JOINING) as agent:
        first = (await sent(agent, "Please find a hotel in Bonn for Friday."))[0].run_loop_id
        await sent(agent, "Sing a song", first)
        moved = await agent.reroute(first, to="new")
        assert moved.run_loop.goal == "Sing a song"


async def test_no_run_loop_can_come_in_whose_id_is_the_word_for_a_new_one(tmp_path: Path) -> None:
    line = {
        "id": "new",
        "goal": "Rome",
        "status": "completed",
        "created_at": "2026-01-01T00:00:00Z",
        "completed_at": "2026-01-01T00:00:00Z",
        "iterations": [],
    }
    async with running_agent(tmp_path) as agent:
        report = await bring_in(agent.memory, line)
        assert (report.imported, report.failures) == (0, 1)
        assert "“new”" in report.failed[0].problem
