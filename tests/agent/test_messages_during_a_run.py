"""Messages that come while a loop is at work: steer, follow up, interrupt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.history.events import (
    Event,
    IterationStarted,
    MessageCompleted,
    MessageDelta,
    ToolFinished,
)
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    running_agent,
    sending,
    sent,
    types,
    until,
)

pytestmark = pytest.mark.anyio


class Gate:
    """A tool call, or a stream, that waits until it is let through."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.open = anyio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.open.wait()


def landings(events: Sequence[Event]) -> list[tuple[str, ...] | None]:
    return [e.body.message_ids for e in events if isinstance(e.body, IterationStarted)]


def said(events: Sequence[Event]) -> list[str]:
    return [e.body.message.text for e in events if isinstance(e.body, MessageCompleted)]


def quoting(gate: Gate) -> FunctionLLM:
    """Calls `work` once, then quotes all that the person said since it last spoke."""
    called = False

    def respond(messages: Sequence[Message]) -> Answer:
        nonlocal called
        if not called:
            called = True
            return [call("work")]
        new: list[str] = []
        for message in reversed(messages):
            if message.role == "assistant" and not message.tool_calls:
                break
            if message.role == "user":
                new.insert(0, message.text)
        return "You said: " + " + ".join(new)

    return FunctionLLM(respond)


def working(gate: Gate) -> object:
    @tool(effect="side_effects")
    async def work() -> str:
        """Work until told to stop."""
        await gate.wait()
        return "worked"

    return work


async def test_steering_words_are_seen_at_the_next_step(tmp_path: Path) -> None:
    gate = Gate()
    async with (
        running_agent(tmp_path, quoting(gate), working(gate)) as agent,  # type: ignore[arg-type]
        sending(agent, "Cook dinner.") as first,
    ):
        await gate.reached.wait()
        run_loop_id = first[0].run_loop_id
        async with sending(agent, "Vegetarian!", run_loop_id, mode="steer") as second:
            await until(lambda: any(e.type == "message.received" for e in second))
            gate.open.set()
    assert said(first) == ["", "You said: Cook dinner. + Vegetarian!"]
    assert said(second) == ["You said: Cook dinner. + Vegetarian!"]
    ids = [e.body.message_id for e in second if e.body.type == "message.received"]
    assert landings(second) == [tuple(ids)]


async def test_a_follow_up_is_seen_after_the_answer_and_gets_its_own(tmp_path: Path) -> None:
    gate = Gate()
    async with (
        running_agent(tmp_path, quoting(gate), working(gate)) as agent,  # type: ignore[arg-type]
        sending(agent, "Cook dinner.") as first,
    ):
        await gate.reached.wait()
        run_loop_id = first[0].run_loop_id
        receipts = [
            await agent.accept(words, run_loop_id=run_loop_id, mode="followup")
            for words in ("Wash up.", "Dry up.")
        ]
        await until(lambda: len([e for e in first if e.body.type == "message.received"]) == 3)
        gate.open.set()
    assert said(first) == [
        "",
        "You said: Cook dinner.",
        "You said: Wash up.",
        "You said: Dry up.",
    ]
    assert landings(first)[-2:] == [(receipt.message_id,) for receipt in receipts]


async def test_an_interrupt_stops_a_tool_and_is_taken_instead(tmp_path: Path) -> None:
    gate = Gate()
    async with running_agent(
        tmp_path,
        quoting(gate),
        working(gate),  # type: ignore[arg-type]
    ) as agent:
        async with sending(agent, "Cook dinner.") as events:
            await gate.reached.wait()
            run_loop_id = events[0].run_loop_id
            await sent(agent, "No, order pizza!", run_loop_id, mode="interrupt")
        assert "run_loop.interrupted" in types(events)
        assert answer_of(events) == "You said: Cook dinner. + No, order pizza!"
        loop = await agent.run_loop(run_loop_id)
    result = loop.iterations[0].tool_results[0]
    assert result.is_error
    assert "whether the tool did its work is unknown" in result.content
    assert not any(isinstance(e.body, ToolFinished) for e in events)


async def test_an_interrupt_in_mid_answer_keeps_what_was_read_of_it(tmp_path: Path) -> None:
    never = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Stop. And Rome?":
            return "Rome: 3 million."
        return [TextDelta("Paris has "), TextDelta("two mil"), never]

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm) as agent:
        async with sending(agent, "Paris?") as events:
            await until(lambda: sum(e.type == "message.delta" for e in events) == 2)
            run_loop_id = events[0].run_loop_id
            await sent(agent, "Stop. And Rome?", run_loop_id, mode="interrupt")
        assert said(events) == ["Paris has two mil", "Rome: 3 million."]
    shown = llm.calls[-1]
    assert [m.role for m in shown] == ["system", "user", "assistant", "user"]
    assert shown[2].notes == "", "a small model would say it after us"
    assert "stopped your last answer" in shown[3].notes


async def test_words_of_rondo_that_a_model_says_after_it_are_not_its_answer(
    tmp_path: Path,
) -> None:
    pieces = ["[The person", " stopped you ", "here.]", " \n", "Paris has ", "two million."]
    llm = FunctionLLM(lambda messages: [TextDelta(piece) for piece in pieces])
    async with running_agent(tmp_path, llm) as agent:
        async with sending(agent, "Paris?") as events:
            await until(lambda: any(e.type == "message.completed" for e in events))
        assert said(events) == ["Paris has two million."]
        shown = [e.body.text for e in events if isinstance(e.body, MessageDelta)]
        assert "".join(shown) == "Paris has two million."


@pytest.mark.parametrize("own", ["[The person", "[The person stopped you there.] Yes.", "[", " "])
async def test_what_only_begins_like_them_is_kept(tmp_path: Path, own: str) -> None:
    llm = FunctionLLM(lambda messages: [TextDelta(own), TextDelta("!")])
    async with running_agent(tmp_path, llm) as agent:
        assert said(await sent(agent, "Paris?")) == [f"{own}!"]


async def test_an_interrupt_drops_the_question_that_a_loop_waits_with(tmp_path: Path) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("pay")] if messages[-1].text == "Pay." else "Not paid."

    async with running_agent(tmp_path, respond, pay) as agent:
        asked = await sent(agent, "Pay.")
        assert asked[-1].type == "input.required"
        events = await sent(agent, "Never mind.", asked[0].run_loop_id, mode="interrupt")
        assert answer_of(events) == "Not paid."
        loop = await agent.run_loop(asked[0].run_loop_id)
    content = loop.iterations[0].tool_results[0].content
    assert content.startswith("Not run:")
    assert "said something else" in content


async def test_steering_and_interrupting_a_loop_that_rests_are_just_messages(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path) as agent:
        first = await sent(agent, "One")
        for mode in ("steer", "followup", "interrupt"):
            events = await sent(agent, mode, first[0].run_loop_id, mode=mode)
            assert answer_of(events) == f"You said: {mode}"
            assert "run_loop.interrupted" not in types(events)


async def test_messages_lost_while_busy_all_are_answered_whatever_their_mode(
    tmp_path: Path,
) -> None:
    heard: set[str] = set()

    def respond(messages: Sequence[Message]) -> Answer:
        heard.update(message.text for message in messages if message.role == "user")
        return "Noted."

    async with running_agent(tmp_path, respond) as agent:
        first = await sent(agent, "Begin")

        async def send(number: int) -> None:
            mode = ("steer", "followup", "interrupt")[number % 3]
            await sent(agent, f"{mode} {number}", first[0].run_loop_id, mode=mode)

        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(send, number)
        loop = await agent.run_loop(first[0].run_loop_id)
    assert loop.status == "idle"
    assert len(heard) == 31
