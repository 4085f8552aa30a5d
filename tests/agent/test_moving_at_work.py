"""Messages are moved out of run loops, and into them, while these are at work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import ConflictError
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    call,
    sending,
    sent,
    types,
    until,
)
from tests.support.agent.moves import answers, heard, whole
from tests.support.agent.moving import at_rest, message_ids, opened, running, unseen

pytestmark = pytest.mark.anyio


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


async def test_what_went_on_after_a_message_was_moved_away_goes_with_the_one_that_it_answers(
    tmp_path: Path,
) -> None:
    ready = anyio.Event()

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "seen"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Wait":
            return [ready, call("look")]
        return f"You said: {messages[-1].text}"

    async with running(tmp_path, respond, look) as agent:
        async with sending(agent, "Wait") as events:
            await until(lambda: "iteration.started" in types(events))
            source_id = events[0].run_loop_id
            await agent.accept("Another matter", run_loop_id=source_id)
            await until(lambda: unseen(agent, source_id) == 1)
            ready.set()
        first, second = await message_ids(agent, source_id)
        other = await agent.reroute(source_id, message_id=second)
        await at_rest(agent, source_id)
        answered = await whole(agent, source_id)
        assert [each.moved_to for each in answered.iterations] == [None, other.to_run_loop_id, None]

        moved = await agent.reroute(source_id, message_id=first)

        source, target = await whole(agent, source_id), await whole(agent, moved.to_run_loop_id)
        assert [each.moved_to for each in source.iterations] == [
            target.id,
            other.to_run_loop_id,
            target.id,
        ]
        assert not source.history
        assert heard(target) == ["Wait", None]
        assert answers(target) == [None, answers(answered)[2]]
        assert target.iterations[0].tool_results[0].content == "seen"
        roles = [message.role for message in target.history]
        assert roles == ["user", "assistant", "tool", "assistant"]
