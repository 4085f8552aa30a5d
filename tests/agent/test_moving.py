"""A person moves a message, and what followed from it, to the run loop where it belongs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.moving import mover
from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.domain.events import Event, MessageReceived, RouteDecided, Usage
from service.domain.messages import Message
from service.domain.stream import TextDelta
from service.domain.tools import ToolContext
from service.tools.decorator import tool
from tests.agent.moves import answers, heard, spoken, whole
from tests.agent.support import (
    Answer,
    FunctionLLM,
    call,
    running_agent,
    sending,
    sent,
    types,
    until,
)

pytestmark = pytest.mark.anyio


async def opened(agent: Agent, words: str) -> str:
    """A loop that has answered these words."""
    events = await sent(agent, words)
    return events[-1].run_loop_id


async def message_ids(agent: Agent, run_loop_id: str) -> list[str]:
    events = await agent.memory.journal.read(run_loop_id=run_loop_id)
    return [e.body.message_id for e in events if isinstance(e.body, MessageReceived)]


async def at_rest(agent: Agent, run_loop_id: str) -> None:
    await until(
        lambda: (
            (state := agent.memory.short_term.state(run_loop_id)) is not None
            and state.status == "idle"
        )
    )


def unseen(agent: Agent, run_loop_id: str) -> int:
    state = agent.memory.short_term.state(run_loop_id)
    assert state is not None
    return len(state.unseen)


def running(folder: Path, *args: object, **options: object):  # type: ignore[no-untyped-def]
    return running_agent(folder, *args, auto_classify=False, **options)  # type: ignore[arg-type]


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


async def test_an_unobserved_message_simply_leaves(tmp_path: Path) -> None:
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "The bill":
            return [ready, TextDelta("Paid.")]
        return f"You said: {messages[-1].text}"

    async with running(tmp_path, respond) as agent:
        trip = await opened(agent, "A trip to Rome")
        async with sending(agent, "The bill") as events:
            await until(lambda: "iteration.started" in types(events))
            bill = events[-1].run_loop_id
            receipt = await agent.accept("By train", run_loop_id=bill, mode="followup")
            await until(lambda: unseen(agent, bill) == 1)
            moved = await agent.reroute(bill, to=trip)
            assert moved.message_ids == (receipt.message_id,)
            await at_rest(agent, trip)
            ready.set()
        assert heard(await whole(agent, bill)) == ["The bill"]
        assert answers(await whole(agent, bill)) == ["Paid."]
        assert answers(await whole(agent, trip))[-1] == "You said: By train"


async def test_what_is_going_on_stops_here_and_goes_on_there(tmp_path: Path) -> None:
    began: list[str] = []
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        text = messages[-1].text
        if text == "By train":
            began.append(text)
            return [TextDelta("Let me see"), ready]
        return f"You said: {text}"

    async with running(tmp_path, respond) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        async with sending(agent, "By train", bill) as events:
            await until(lambda: began)
            await agent.reroute(bill, to=trip)
            source = await whole(agent, bill)
            assert (source.status, heard(source)) == ("idle", ["The bill", None])
            ready.set()
        # Who waits for the answer hears it from there.
        assert events[-1].run_loop_id == trip
        assert events[-1].type == "run_loop.idle"
        assert len(began) == 2
        assert answers(await whole(agent, trip)) == ["You said: A trip to Rome", "Let me see"]


async def test_a_call_with_side_effects_that_was_stopped_is_not_run_again(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effect="side_effects")
    async def post() -> str:
        """Post a letter."""
        ran.append("post")
        await anyio.sleep_forever()
        return "never"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return messages[-1].text
        return [call("post")] if messages[-1].text == "Post it" else "Yes."

    async with running(tmp_path, respond, post) as agent:
        letters = await opened(agent, "About letters")
        async with sending(agent, "Post it") as events:
            await until(lambda: ran)
            await agent.reroute(events[0].run_loop_id, to=letters)
        target = await whole(agent, letters)
        assert ran == ["post"]
        assert "whether it did its work is unknown" in target.iterations[1].tool_results[0].content


async def test_an_idempotent_call_keeps_its_key_in_its_new_loop(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(effect="idempotent")
    async def stamp(context: ToolContext) -> str:
        """Set a stamp."""
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            await anyio.sleep_forever()
        return "stamped"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("stamp")]

    async with running(tmp_path, respond, stamp) as agent:
        async with sending(agent, "Stamp it") as events:
            await until(lambda: keys and "tool.started" in types(events))
            moved = await agent.reroute(events[0].run_loop_id, to=None)
        await at_rest(agent, moved.to_run_loop_id)
        assert len(keys) == 2
        assert keys[0] == keys[1]


async def test_what_waits_for_a_yes_waits_there_and_the_old_question_is_gone(
    tmp_path: Path,
) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("pay")]

    async with running(tmp_path, respond, pay) as agent:
        source_id = (await sent(agent, "Pay"))[-1].run_loop_id
        moved = await agent.reroute(source_id)
        target = await whole(agent, moved.to_run_loop_id)
        assert target.status == "waiting_for_human_input"
        assert (await whole(agent, source_id)).status == "cancelled"
        with pytest.raises(ConflictError):
            await agent.answer(source_id, approved=True)
        await agent.answer(moved.to_run_loop_id, approved=True)
        await at_rest(agent, moved.to_run_loop_id)
        target = await whole(agent, moved.to_run_loop_id)
        assert target.iterations[0].tool_results[0].content == "paid"


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
        found: list[object] = []

        async def move() -> None:
            found.append(await agent.reroute(bill, message_id=message_id, to=trip))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(move)
        assert len({str(each) for each in found}) == 1
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


async def test_a_loop_at_work_takes_the_message_when_it_has_answered(tmp_path: Path) -> None:
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Think long":
            return [ready, TextDelta("Thought.")]
        return f"You said: {messages[-1].text}"

    async with running(tmp_path, respond) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "By train")
        async with sending(agent, "Think long", trip) as events, anyio.create_task_group() as group:
            await until(lambda: "iteration.started" in types(events))
            group.start_soon(lambda: agent.reroute(bill, to=trip))
            await anyio.sleep(0.05)
            assert heard(await whole(agent, bill)) == ["By train"]
            ready.set()
        target = await whole(agent, trip)
        assert heard(target) == ["A trip to Rome", "Think long", "By train"]
        assert answers(target)[1:] == ["Thought.", "You said: By train"]


async def test_a_loop_that_works_for_long_is_told_to_be_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "MOVE_PATIENCE_SECONDS", 0.05)
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        return [ready, TextDelta("At last.")] if messages[-1].text == "Think long" else "Yes."

    async with running(tmp_path, respond) as agent:
        bill = await opened(agent, "By train")
        async with sending(agent, "Think long") as events:
            await until(lambda: "iteration.started" in types(events))
            with pytest.raises(ConflictError, match="at work") as refused:
                await agent.reroute(bill, to=events[0].run_loop_id)
            assert refused.value.advice
            assert heard(await whole(agent, bill)) == ["By train"]
            ready.set()


async def test_an_earlier_message_leaves_a_loop_that_goes_on_with_its_work(tmp_path: Path) -> None:
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Think long":
            return [ready, TextDelta("Thought.")]
        return f"You said: {messages[-1].text}"

    llm = FunctionLLM(respond)
    async with running(tmp_path, llm) as agent:
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        second = (await message_ids(agent, bill))[1]
        async with sending(agent, "Think long", bill) as events:
            await until(lambda: "iteration.started" in types(events))
            calls = len(llm.calls)
            moved = await agent.reroute(bill, message_id=second)
            assert (await whole(agent, bill)).thinking
            ready.set()
        assert len(llm.calls) == calls
        source = await whole(agent, bill)
        assert heard(source) == ["The bill", None, "Think long"]
        assert answers(source)[2] == "Thought."
        assert heard(await whole(agent, moved.to_run_loop_id)) == ["By train"]


async def test_a_loop_that_waits_for_a_person_takes_a_bare_message_but_no_answered_one(
    tmp_path: Path,
) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("pay")] if messages[-1].text == "Pay" else "Yes."

    async with running(tmp_path, respond, pay) as agent:
        other = await opened(agent, "By train")
        waiting = (await sent(agent, "Pay"))[-1].run_loop_id
        with pytest.raises(ConflictError, match="waits for an answer"):
            await agent.reroute(other, to=waiting)
        assert heard(await whole(agent, other)) == ["By train"]
        second = (await sent(agent, "Pay"))[-1].run_loop_id
        receipt = await agent.accept("And by plane?", run_loop_id=second)
        await until(lambda: unseen(agent, second) == 1)
        await agent.reroute(second, message_id=receipt.message_id, to=waiting)
        state = await whole(agent, waiting)
        assert state.status == "waiting_for_human_input"
        assert [each.message.text for each in state.unseen] == ["And by plane?"]


async def test_messages_that_were_observed_together_go_together(tmp_path: Path) -> None:
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Wait":
            return [ready, call("look")]
        return f"You said: {messages[-1].text}"

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "seen"

    async with running(tmp_path, respond, look) as agent:
        async with sending(agent, "Wait") as events:
            await until(lambda: "iteration.started" in types(events))
            source_id = events[0].run_loop_id
            for words in ("One", "Two"):
                await agent.accept(words, run_loop_id=source_id)
            await until(lambda: unseen(agent, source_id) == 2)
            ready.set()
        _first, one, two = await message_ids(agent, source_id)
        moved = await agent.reroute(source_id, message_id=one)
        assert moved.message_ids == (one, two)
        target = await whole(agent, moved.to_run_loop_id)
        assert heard(target) == ["One\n\nTwo"]
        # What is left of the first round has no answer any more: it gets one.
        await at_rest(agent, source_id)
        source = await whole(agent, source_id)
        assert heard(source) == ["Wait", None, None]
        assert source.is_answered
        assert answers(source)[2] is not None


async def test_a_message_that_was_interrupted_goes_without_open_calls(tmp_path: Path) -> None:
    started: list[str] = []

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        started.append("look")
        if len(started) == 1:
            await anyio.sleep_forever()
        return "seen"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Look":
            return [call("look")]
        return f"Said: {messages[-1].text[:40]}"

    async with running(tmp_path, respond, look) as agent:
        async with sending(agent, "Look") as events:
            await until(lambda: started)
            source_id = events[0].run_loop_id
            await sent(agent, "Stop", source_id, mode="interrupt")
        first = (await message_ids(agent, source_id))[0]
        moved = await agent.reroute(source_id, message_id=first)
        await at_rest(agent, moved.to_run_loop_id)
        target, source = await whole(agent, moved.to_run_loop_id), await whole(agent, source_id)
        assert started == ["look"]
        assert len(target.iterations[0].tool_results) == 1
        assert heard(source)[0] is None
        assert source.goal == "Stop"


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


async def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        mine = await opened(agent, "Mine")
        yours = (await sent(agent, "Yours", owner="you"))[-1].run_loop_id
        [message_id] = await message_ids(agent, mine)
        with pytest.raises(InvalidInputError):
            await agent.reroute(mine, to=mine)
        with pytest.raises(NotFoundError):
            await agent.reroute("nobody's")
        with pytest.raises(NotFoundError):
            await agent.reroute(mine, to=yours)
        with pytest.raises(NotFoundError):
            await agent.reroute(yours)
        with pytest.raises(NotFoundError):
            await agent.reroute(mine, message_id="other")
        assert heard(await whole(agent, mine)) == ["Mine"]
        await agent.reroute(mine, message_id=message_id)
        with pytest.raises(ConflictError):
            await agent.reroute(mine)


async def test_a_tool_cannot_move_the_message_that_it_works_for(tmp_path: Path) -> None:
    refused: list[str] = []

    @tool(effect="read_only")
    async def move(context: ToolContext) -> str:
        """Move."""
        try:
            await agent.reroute(context.run_loop_id)
        except ConflictError as error:
            refused.append(error.advice)
        return "tried"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("move")]

    async with running(tmp_path, respond, move) as agent:
        with anyio.fail_after(10):
            await sent(agent, "Move")
    assert len(refused) == 1


@pytest.mark.parametrize("first_is_source", [True, False])
async def test_a_tool_cannot_move_anything_to_or_from_its_own_run_loop(
    tmp_path: Path, first_is_source: bool
) -> None:
    refused: list[ConflictError] = []

    @tool(effect="read_only")
    async def move(context: ToolContext) -> str:
        """Move."""
        mine = context.run_loop_id
        source, target = (mine, other) if first_is_source else (other, mine)
        try:
            with anyio.fail_after(5):
                await agent.reroute(source, to=target)
        except ConflictError as error:
            refused.append(error)
        return "tried"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("move")] if messages[-1].text == "Move" else "Yes."

    async with running(tmp_path, respond, move) as agent:
        other = await opened(agent, "Other")
        await sent(agent, "Move")
        assert heard(await whole(agent, other)) == ["Other"]
    assert [each.advice for each in refused] == ["Move it from outside of tools and hooks."]


async def test_a_loop_whose_tool_moves_the_messages_of_others_can_itself_be_moved(
    tmp_path: Path,
) -> None:
    began, may_move = anyio.Event(), anyio.Event()

    @tool(effect="side_effects")
    async def tidy() -> str:
        """Tidy."""
        with anyio.CancelScope(shield=True):
            began.set()
            await may_move.wait()
            await agent.reroute(left, to=right)
        return "tidied"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("tidy")] if messages[-1].text == "Tidy" else "Yes."

    async with running(tmp_path, respond, tidy) as agent:
        left, right, third = [await opened(agent, name) for name in ("left", "right", "third")]
        async with sending(agent, "Tidy") as events, anyio.create_task_group() as group:
            await began.wait()
            source = events[0].run_loop_id
            with anyio.fail_after(10):
                moves: list[object] = []

                async def move() -> None:
                    moves.append(await agent.reroute(source, to=third))

                group.start_soon(move)
                await anyio.wait_all_tasks_blocked()
                # Its work does not end yet, and others need not wait for that.
                spare = await opened(agent, "spare")
                await agent.reroute(spare)
                assert not moves
                may_move.set()
                await until(lambda: bool(moves))
        assert heard(await whole(agent, right)) == ["right", "left"]
        assert heard(await whole(agent, third))[:2] == ["third", "Tidy"]


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


async def test_a_loop_at_work_is_not_stopped_for_a_move_that_is_refused(tmp_path: Path) -> None:
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return [ready, TextDelta("Looked.")]
        return [call("look")] if "Look" in messages[-1].text else [call("ask")]

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "seen"

    @tool(effect="side_effects", needs_approval=True)
    async def ask() -> str:
        """Ask."""
        return "asked"

    llm = FunctionLLM(respond)
    async with running(tmp_path, llm, look, ask) as agent:
        waiting = await opened(agent, "Ask")
        async with sending(agent, "Look") as events:
            await until(lambda: len(llm.calls) == 3)
            with pytest.raises(ConflictError):
                await agent.reroute(events[0].run_loop_id, to=waiting)
            ready.set()
        assert len(llm.calls) == 3
        assert answers(await whole(agent, events[0].run_loop_id))[-1] == "Looked."


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
