"""A message that lists several requests: each goes to its own run loop, once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import ImageUrlPart, Message, TextPart
from service.domain.errors import Problem
from service.domain.history.state import RunLoopState
from service.domain.routes import Route
from service.domain.run_loops import RunLoop
from service.memory.journal.inbox import InboxEntry, Receipt
from service.memory.memory import Memory
from service.routing.router import Router
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import answer_of, running_agent, sent, until

pytestmark = pytest.mark.anyio

SPLITTING = RouterOptions(split_matters=True)
TWO = "Please do these:\n1. What is a lemur?\n2. How do I bake bread?"
LEMUR, BREAD = (
    "Please do these:\n1. What is a lemur?",
    "Please do these:\n2. How do I bake bread?",
)


async def loop_of(agent: Agent, message_id: str) -> RunLoop:
    delivery = await agent.delivery(message_id)
    assert not isinstance(delivery, Problem)
    return await agent.run_loop(delivery.run_loop_id)


async def goals(agent: Agent, receipt: Receipt) -> list[str]:
    return [(await loop_of(agent, each)).goal for each in (receipt.message_id, *receipt.parts)]


def all_goals(agent: Agent) -> list[str]:
    return sorted(state.goal for state in agent.memory.short_term.states())


async def test_it_is_off_by_default(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        receipt = await agent.accept(TWO)
        assert await goals(agent, receipt) == [TWO]


async def test_each_request_goes_to_a_loop_of_its_own(tmp_path: Path) -> None:
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        receipt = await agent.accept(TWO)
        assert await goals(agent, receipt) == [LEMUR, BREAD]


async def test_each_part_is_routed_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def route(
        self: Router, text: str, *, active: Sequence[RunLoopState], **options: Any
    ) -> Route:
        near = [state.id for state in active if "bread" in state.goal and "bread" in text]
        where = near[0] if near else None
        decision: Literal["join", "new"] = "join" if near else "new"
        return Route(
            decision=decision, run_loop_id=where, confidence=1, method="words", reason="bread"
        )

    monkeypatch.setattr(Router, "route", route)
    async with running_agent(tmp_path, router=SPLITTING) as agent:
        events = await sent(agent, "I want to bake bread")
        receipt = await agent.accept(TWO)
        lemur, bread = [await loop_of(agent, each) for each in (receipt.message_id, *receipt.parts)]
        assert lemur.goal == LEMUR
        assert bread.id == events[0].run_loop_id


async def test_the_sender_follows_the_first_and_can_follow_the_others(tmp_path: Path) -> None:
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        with agent.reader() as reader:
            receipt = await agent.accept(TWO)
            first = [e async for e in agent.follow(receipt.message_id, reader=reader)]
        with agent.reader() as reader:
            second = [e async for e in agent.follow(receipt.parts[0], reader=reader)]
        assert answer_of(first) == f"You said: {LEMUR}"
        assert answer_of(second) == f"You said: {BREAD}"


async def test_each_part_says_of_which_message_it_is_a_part(tmp_path: Path) -> None:
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        receipt = await agent.accept(TWO, metadata={"project": "zoo"})
        metadata = []
        for message_id in (receipt.message_id, *receipt.parts):
            delivery = await agent.delivery(message_id)
            assert not isinstance(delivery, Problem)
            events = await agent.memory.journal.read(
                run_loop_id=delivery.run_loop_id, kind="message.received"
            )
            metadata += [e.body.metadata for e in events if e.body.type == "message.received"]
        whole = {"message_id": receipt.message_id, "count": 2}
        assert metadata == [
            {"project": "zoo", "part_of": {**whole, "number": 1}},
            {"project": "zoo", "part_of": {**whole, "number": 2}},
        ]


async def test_the_same_key_again_gives_the_same_parts_and_doubles_nothing(tmp_path: Path) -> None:
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        first = await agent.accept(TWO, idempotency_key="k", request_hash="h")
        again = await agent.accept(TWO, idempotency_key="k", request_hash="h")
        assert again.replayed
        assert (again.message_id, again.parts) == (first.message_id, first.parts)
        await goals(agent, first)
        await until(lambda: all_goals(agent) == [LEMUR, BREAD])


async def test_a_message_that_names_its_loop_stays_whole(tmp_path: Path) -> None:
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        named = (await sent(agent, "Hello"))[0].run_loop_id
        assert (await agent.accept(TWO, run_loop_id=named)).parts == ()


async def test_a_message_with_an_image_stays_whole(tmp_path: Path) -> None:
    image = ImageUrlPart(url="https://example.org/a.png")
    message = Message(role="user", content=(TextPart(text=TWO), image))
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        assert (await agent.accept(message)).parts == ()


async def test_an_interrupting_message_and_a_follow_up_stay_whole(tmp_path: Path) -> None:
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        assert (await agent.accept(TWO, mode="interrupt")).parts == ()
        assert (await agent.accept(TWO, mode="followup")).parts == ()


async def test_parts_that_wait_at_a_kill_are_delivered_once_at_the_next_start(
    tmp_path: Path,
) -> None:
    """All parts are stored in one transaction: the worst that a kill leaves is this."""
    async with Memory(tmp_path, None) as memory:
        parts = (
            InboxEntry("m", "me", Message.user(LEMUR)),
            InboxEntry("m.2", "me", Message.user(BREAD)),
        )
        await memory.journal.inbox.accept(*parts, idempotency_key="k", request_hash="h")
    # Also where the setting was taken back meanwhile.
    async with running_agent(tmp_path, auto_classify=False) as agent:
        await until(lambda: all_goals(agent) == [LEMUR, BREAD])
        again = await agent.accept(TWO, idempotency_key="k", request_hash="h")
        assert (again.message_id, again.parts) == ("m", ("m.2",))
        assert all_goals(agent) == [LEMUR, BREAD]


async def test_parts_are_taken_up_in_their_order_before_what_came_later(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        inbox = memory.journal.inbox
        nine = [InboxEntry(f"m.{n}", "me", Message.user(str(n))) for n in range(2, 10)]
        await inbox.accept(InboxEntry("m", "me", Message.user("1")), *nine)
        await inbox.accept(InboxEntry("a", "me", Message.user("later")))
        waiting = [entry.message.text for entry in await inbox.undelivered()]
        assert waiting == [*map(str, range(1, 10)), "later"]


async def test_two_listing_messages_at_once_come_apart_side_by_side(tmp_path: Path) -> None:
    chinese = "一、蒙古国的首都是哪里？\n二、帮我写一封感谢信"
    async with running_agent(tmp_path, router=SPLITTING, auto_classify=False) as agent:
        receipts: list[Receipt] = []

        async def send(text: str) -> None:
            receipts.append(await agent.accept(text))

        async with anyio.create_task_group() as group:
            group.start_soon(send, TWO)
            group.start_soon(send, chinese)
        opened = [await goals(agent, receipt) for receipt in receipts]
        expected = [[LEMUR, BREAD], ["一、蒙古国的首都是哪里？", "二、帮我写一封感谢信"]]
        assert sorted(opened) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        "Please do these:\n1. Book a table for two at Nico's on Friday\n"
        "2. Remind me to renew my passport in March",
        "请帮我做以下几件事：\n1. 蒙古国的首都是哪里？\n2. 帮我写一封感谢信\n3. 推荐一部老电影",
        # These are near each other, and were told apart all the same.
        "请帮我做以下几件事：\n1. 查一下去苏州的高铁\n2. 查一下去杭州的高铁\n3. 查一下去南京的高铁",
    ],
)
async def test_parts_never_join_a_loop_that_another_part_has_just_opened(
    tmp_path: Path, text: str
) -> None:
    options = RouterOptions(split_matters=True, use_llm=False)
    async with running_agent(tmp_path, router=options) as agent:
        receipt = await agent.accept(text)
        ids = {(await loop_of(agent, each)).id for each in (receipt.message_id, *receipt.parts)}
        assert len(ids) == 1 + len(receipt.parts) > 1


async def test_a_part_is_routed_by_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed: list[str] = []

    async def route(self: Router, text: str, **options: Any) -> Route:
        weighed.append(text)
        return Route(decision="new", confidence=1, method="words", reason="it is new")

    monkeypatch.setattr(Router, "route", route)
    async with running_agent(tmp_path, router=SPLITTING) as agent:
        await goals(agent, await agent.accept(TWO))
    assert weighed == ["What is a lemur?", "How do I bake bread?"]


async def test_what_a_sender_says_of_parts_keeps_no_message_from_its_loop(tmp_path: Path) -> None:
    said = {"part_of": {"message_id": "x", "number": 2, "count": 2}}
    async with running_agent(tmp_path, router=SPLITTING) as agent:
        receipt = await agent.accept("What is a lemur?", metadata=said)
        assert await goals(agent, receipt) == ["What is a lemur?"]
        odd = await agent.accept("What is a lemur?", metadata={"part_of": [1]})
        assert not isinstance(await agent.delivery(odd.message_id), Problem)


async def test_what_a_sender_says_of_parts_changes_no_words_that_are_weighed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed: list[str] = []

    async def route(self: Router, text: str, **options: Any) -> Route:
        weighed.append(text)
        return Route(decision="new", confidence=1, method="words", reason="it is new")

    monkeypatch.setattr(Router, "route", route)
    text = "Please do these:\n1. What is a lemur?"
    async with running_agent(tmp_path, router=SPLITTING) as agent:
        for said in ({"message_id": "x", "number": 1, "count": 2}, "first", None):
            await goals(agent, await agent.accept(text, metadata={"part_of": said}))
    assert weighed == [text] * 3
