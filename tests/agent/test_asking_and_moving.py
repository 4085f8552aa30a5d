"""Asking with callbacks while a person moves the message: nothing is lost, nothing told twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.callbacks import Callbacks
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import Problem
from service.domain.history.human_input import InputRequired
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, call, running_agent, until
from tests.support.agent.moving import opened
from tests.support.agent.noted_callbacks import Notes

pytestmark = pytest.mark.anyio


@tool(needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


@tool(effect="read_only")
async def look() -> str:
    """Look."""
    return "seen"


class Asking:
    """Asks beside the test, and notes what comes of it."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.asked: list[str] = []
        self.retries: list[Problem] = []
        self.answers: list[str] = []

    async def ask(self, agent: Agent, words: str, run_loop_id: str) -> None:
        def on_input_required(request: InputRequired) -> bool:
            self.asked.append(request.request_id)
            return True

        def on_retry(problem: Problem) -> None:
            self.notes.told.append("retry")
            self.retries.append(problem)

        callbacks: Callbacks = self.notes.callbacks(
            on_input_required=on_input_required, on_retry=on_retry
        )
        self.answers.append(await agent.ask(words, run_loop_id, callbacks=callbacks))

    async def until_answered(self) -> str:
        await until(lambda: self.answers)
        return self.answers[0]


async def test_an_answer_is_told_when_the_message_was_moved_after_it_was_approved(
    tmp_path: Path,
) -> None:
    began, ready = anyio.Event(), anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            began.set()
            return [ready, TextDelta("Paid it all.")]
        return [TextDelta("I pay. "), call("pay")] if messages[-1].text == "Pay" else "Yes."

    asking = Asking()
    async with (
        running_agent(tmp_path, respond, pay, auto_classify=False) as agent,
        anyio.create_task_group() as group,
    ):
        loop = await opened(agent, "Hello")
        group.start_soon(asking.ask, agent, "Pay", loop)
        await began.wait()
        await agent.reroute(loop)
        ready.set()
        assert await asking.until_answered() == "Paid it all."
    assert len(asking.asked) == 1
    assert asking.notes.told == [
        "I pay. ",
        "start pay {}",
        "end pay: paid",
        "Paid it all.",
        "complete: Paid it all.",
    ]


async def test_what_had_streamed_is_taken_back_when_the_message_is_moved_and_the_rest_told_once(
    tmp_path: Path,
) -> None:
    ready = anyio.Event()
    begun: list[str] = []

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            begun.append("answer")
            return [TextDelta("I have "), ready, TextDelta("seen it.")]
        return [TextDelta("I look. "), call("look")] if messages[-1].text == "Look" else "Yes."

    asking = Asking()
    async with (
        running_agent(tmp_path, respond, look, auto_classify=False) as agent,
        anyio.create_task_group() as group,
    ):
        loop = await opened(agent, "Hello")
        group.start_soon(asking.ask, agent, "Look", loop)
        await until(lambda: "I have " in asking.notes.told)
        moved = await agent.reroute(loop)
        await until(lambda: len(begun) == 2)
        ready.set()
        assert await asking.until_answered() == "I have seen it."
    assert asking.notes.told == [
        "I look. ",
        "start look {}",
        "end look: seen",
        "I have ",
        "retry",
        "I have ",
        "seen it.",
        "complete: I have seen it.",
    ]
    assert moved.to_run_loop_id in asking.retries[0].detail


async def test_a_question_whose_message_is_moved_before_it_is_answered_is_answered_there(
    tmp_path: Path,
) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return "Paid it all."
        return [call("pay")] if messages[-1].text == "Pay" else "Yes."

    notes, moved = Notes(), list[str]()
    async with running_agent(tmp_path, respond, pay, auto_classify=False) as agent:
        loop = await opened(agent, "Hello")

        async def on_input_required(request: InputRequired) -> bool:
            if not moved:
                moved.append((await agent.reroute(loop)).to_run_loop_id)
            return True

        callbacks: Callbacks = notes.callbacks(on_input_required=on_input_required)
        with anyio.fail_after(20):
            assert await agent.ask("Pay", loop, callbacks=callbacks) == "Paid it all."
        state = agent.memory.short_term.state(moved[0])
        assert state is not None
        assert state.status == "idle"
    assert notes.told == [
        "start pay {}",
        "end pay: paid",
        "Paid it all.",
        "complete: Paid it all.",
    ]
