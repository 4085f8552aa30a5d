"""A person moves a message, and what followed from it, between run loops at rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from service.agent.moving import mover
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError
from service.domain.history.events import Event, RouteDecided, Usage
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    call,
    sent,
    types,
)
from tests.support.agent.moves import answers, heard, spoken, whole
from tests.support.agent.moving import at_rest, message_ids, opened, running

pytestmark = pytest.mark.anyio


async def test_the_newest_message_goes_with_its_answer_which_is_not_made_again(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(lambda messages: f"You said: {messages[-1].text}")
    async with running(tmp_path, llm) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        asked = len(llm.calls)

        moved = await agent.reroute(bill, to=trip)

        source, target = await whole(agent, bill), await whole(agent, trip)
        assert len(llm.calls) == asked
        assert (moved.from_run_loop_id, moved.to_run_loop_id) == (bill, trip)
        assert moved.message_ids == ((await message_ids(agent, trip))[-1],)
        assert moved.run_loop == target.run_loop()
        assert heard(target) == ["A trip to Rome", "By train"]
        assert answers(target)[-1] == "You said: By train"
        assert heard(source) == ["The bill", None]
        assert source.iterations[1].moved_to == trip
        assert spoken(source) == ["The bill", "You said: The bill"]
        assert (source.status, target.status) == ("idle", "idle")
        await sent(agent, "And back?", trip)
        assert [m.text for m in llm.calls[-1] if m.role == "user"] == [
            "A trip to Rome",
            "By train",
            "And back?",
        ]


async def test_a_message_in_the_middle_leaves_the_others_where_they_were(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        await sent(agent, "It is due on Monday", bill)
        before = await whole(agent, bill)
        second = (await message_ids(agent, bill))[1]

        await agent.reroute(bill, message_id=second, to=trip)

        source = await whole(agent, bill)
        assert heard(source) == ["The bill", None, "It is due on Monday"]
        assert source.iterations[2] == before.iterations[2]
        assert source.iterations[1].timestamp == before.iterations[1].timestamp
        assert spoken(source)[2:] == ["It is due on Monday", "You said: It is due on Monday"]
        await sent(agent, "Thanks", bill)
        assert heard(await whole(agent, bill))[3:] == ["Thanks"]


async def test_when_the_first_message_goes_the_next_one_says_what_the_loop_is_about(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        bill = await opened(agent, "去里斯本的旅行")
        await sent(agent, "发票在哪里？", bill)
        first = (await message_ids(agent, bill))[0]

        moved = await agent.reroute(bill, message_id=first, to=None)

        source, target = await whole(agent, bill), await whole(agent, moved.to_run_loop_id)
        assert source.goal == "发票在哪里？"
        assert target.goal == "去里斯本的旅行"
        assert heard(target) == ["去里斯本的旅行"]
        assert target.status == "idle"
        [listed] = [
            s for s in await agent.memory.journal.run_loops.summaries(owner="me") if s.id == bill
        ]
        assert listed.goal == "发票在哪里？"


async def test_a_loop_with_nothing_left_is_cancelled_and_says_where_its_words_are(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        other = await opened(agent, "By train")
        await agent.reroute(other, to=trip)
        source = await whole(agent, other)
        events = await agent.memory.journal.read(run_loop_id=other)
        assert source.status == "cancelled"
        assert trip in getattr(events[-1].body, "reason", "")
        assert heard(await whole(agent, trip)) == ["A trip to Rome", "By train"]


async def test_the_route_says_that_a_person_decided_and_what_was_weighed_before(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        other = await opened(agent, "By train")
        await agent.reroute(other, to=trip)
        events = await agent.memory.journal.read(run_loop_id=trip, kind="route.decided")
        route = next(e.body.route for e in reversed(events) if isinstance(e.body, RouteDecided))
        assert (route.method, route.confidence, route.decision) == ("person", 1.0, "join")
        assert route.moved_from == other


async def test_tool_calls_go_with_their_results_and_run_once(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effect="side_effects")
    async def post(to: str) -> str:
        """Post a letter."""
        ran.append(to)
        return f"posted to {to}"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool" or "Post" not in messages[-1].text:
            return "Done."
        return [call("post", '{"to": "Ann"}'), call("post", '{"to": "Ben"}', index=1)]

    async with running(tmp_path, respond, post) as agent:
        letters = await opened(agent, "About letters")
        other = await opened(agent, "The bill")
        await sent(agent, "Post them", other)
        await agent.reroute(other, to=letters)
        target, source = await whole(agent, letters), await whole(agent, other)
        assert sorted(ran) == ["Ann", "Ben"]
        assert heard(target) == ["About letters", "Post them", None]
        assert [r.content for r in target.iterations[1].tool_results] == [
            "posted to Ann",
            "posted to Ben",
        ]
        assert not source.iterations[1].tool_calls
        assert not source.iterations[1].tool_results
        assert source.iterations[2].moved_to == letters


async def test_a_yes_for_the_whole_loop_stays_in_that_loop(tmp_path: Path) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("pay")]

    async with running(tmp_path, respond, pay) as agent:
        source_id = (await sent(agent, "Pay"))[-1].run_loop_id
        await agent.answer(source_id, approved=True, remember="run_loop")
        await at_rest(agent, source_id)
        moved = await agent.reroute(source_id)
        again = await sent(agent, "Pay again", moved.to_run_loop_id)
        assert again[-1].type == "input.required"


@pytest.mark.parametrize("ending", ["cancel", "complete"])
async def test_a_loop_that_has_ended_is_taken_up_as_by_a_message(
    tmp_path: Path, ending: str
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        await (agent.cancel(trip) if ending == "cancel" else agent.complete(trip))
        moved = await agent.reroute(bill, to=trip)
        target = await whole(agent, moved.to_run_loop_id)
        if ending == "cancel":
            assert moved.to_run_loop_id == trip
            assert heard(target) == ["A trip to Rome", "By train"]
        else:
            assert target.predecessor_id == trip
            assert heard(target) == ["By train"]
        again = await agent.reroute(bill, message_id=moved.message_ids[0], to=trip)
        assert again.to_run_loop_id == moved.to_run_loop_id
        assert target.status == "idle"


async def test_a_message_can_be_moved_out_of_a_loop_that_has_ended(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        await agent.complete(bill)
        await agent.reroute(bill, to=trip)
        source = await whole(agent, bill)
        assert (source.status, heard(source)) == ("completed", ["The bill", None])
        assert heard(await whole(agent, trip))[-1] == "By train"


async def test_there_and_back_again(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        there = await agent.reroute(bill, to=trip)
        back = await agent.reroute(trip, message_id=there.message_ids[0], to=bill)
        assert back.message_ids == there.message_ids
        assert heard(await whole(agent, bill)) == ["The bill", None, "By train"]
        assert heard(await whole(agent, trip)) == ["A trip to Rome", None]
        await agent.reroute(bill, to=trip)
        assert heard(await whole(agent, bill)) == ["The bill", None, None]
        assert heard(await whole(agent, trip)) == ["A trip to Rome", None, "By train"]
        assert spoken(await whole(agent, trip))[-1] == "You said: By train"


async def test_the_same_wish_again_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        first = await agent.reroute(bill, to=None)
        seq = agent.memory.journal.last_seq
        again = await agent.reroute(bill, message_id=first.message_ids[0], to=None)
        assert again == first
        assert agent.memory.journal.last_seq == seq
        with pytest.raises(ConflictError, match=first.to_run_loop_id):
            await agent.reroute(bill, message_id=first.message_ids[0], to=trip)


async def test_two_who_move_the_same_message_at_once_move_it_once(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        message_id = (await message_ids(agent, bill))[-1]
        outcomes: list[object] = []

        async def move() -> None:
            outcomes.append(await agent.reroute(bill, message_id=message_id, to=trip))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(move)
        assert len({str(each) for each in outcomes}) == 1
        assert heard(await whole(agent, trip)) == ["A trip to Rome", "By train"]


async def test_two_loops_that_exchange_messages_at_once_both_get_them(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        left, right = await opened(agent, "left"), await opened(agent, "right")
        await sent(agent, "to the right", left)
        await sent(agent, "to the left", right)
        async with anyio.create_task_group() as group:
            for source, target in ((left, right), (right, left)):
                [*_, last] = await message_ids(agent, source)
                group.start_soon(partial(agent.reroute, source, message_id=last, to=target))
        assert heard(await whole(agent, left)) == ["left", None, "to the left"]
        assert heard(await whole(agent, right)) == ["right", None, "to the right"]


async def test_nothing_that_was_used_is_counted_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        before = await agent.memory.journal.usage.total(owner="me")
        used = (await whole(agent, bill)).input_tokens
        await agent.reroute(bill, to=trip)
        assert await agent.memory.journal.usage.total(owner="me") == before
        assert (await whole(agent, bill)).input_tokens == used
        events = await agent.memory.journal.read(run_loop_id=trip)
        assert sum(isinstance(event.body, Usage) for event in events) == 1


async def test_a_long_history_is_read_and_copied_where_it_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work: dict[str, threading.Thread] = {}
    for name in ("round_of", "plan"):
        work = getattr(mover, name)

        def noted(
            *args: object,
            _name: str = name,
            _work: Callable[..., object] = work,
            **named: object,
        ) -> object:
            at_work[_name] = threading.current_thread()
            return _work(*args, **named)

        monkeypatch.setattr(mover, name, noted)
    async with running(tmp_path) as agent:
        await agent.reroute(await opened(agent, "The bill"))
    assert at_work.keys() == {"round_of", "plan"}
    assert threading.current_thread() not in at_work.values()


async def test_a_fork_before_the_move_has_the_message_and_one_after_it_has_not(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        resting = (await sent(agent, "By train", bill))[-1].seq
        await agent.reroute(bill, to=trip)
        before = await agent.fork(bill, at=resting)
        after = await agent.fork(bill)
        assert heard(await whole(agent, before.id)) == ["The bill", "By train"]
        assert heard(await whole(agent, after.id)) == ["The bill", None]
        assert heard(await agent.replay(bill, at=resting)) == ["The bill", "By train"]


async def test_a_restart_finds_both_loops_as_they_were_left(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        await agent.reroute(bill, to=trip)
        states = [await whole(agent, each) for each in (trip, bill)]
    async with running(tmp_path) as agent:
        assert [await whole(agent, each) for each in (trip, bill)] == states
        await sent(agent, "And back?", trip)
        assert heard(await whole(agent, trip))[-1] == "And back?"


async def test_watchers_of_both_loops_see_what_happened(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        seen: list[Event] = []
        with agent.reader() as reader:
            await agent.reroute(bill, to=trip)
            async for event in reader.events():
                seen.append(event)
                if event.type == "run_loop.idle" and event.run_loop_id == trip:
                    break
    assert types(e for e in seen if e.run_loop_id == bill) == ["message.moved"]
    assert types(e for e in seen if e.run_loop_id == trip) == [
        "message.received",
        "route.decided",
        "iteration.started",
        "message.completed",
        "run_loop.idle",
    ]
