"""Asking with callbacks: told as the answer comes, and given the last words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from service.agent.agent import Agent
from service.agent.callbacks import Callbacks
from service.agent.human_input.answer_reading import Answer as PersonsAnswer
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import (
    ConflictError,
    InvalidInputError,
    LLMStatusError,
    LLMStreamError,
    RondoError,
)
from service.domain.history.human_input import InputRequired
from service.loop.execution import Loop
from service.loop.hooks.hooks import Hooks
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, call, running_agent, sent, until
from tests.support.agent.noted_callbacks import Notes

pytestmark = pytest.mark.anyio


@tool(effect="read_only")
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def adds(messages: Sequence[Message]) -> Answer:
    if messages[-1].role == "tool":
        return [TextDelta("It is "), TextDelta(f"{messages[-1].text}.")]
    return [TextDelta("I add. "), call("add", '{"a": 1, "b": 2}')]


async def test_each_thing_is_told_as_it_comes_and_the_last_words_are_given(tmp_path: Path) -> None:
    notes = Notes()
    async with running_agent(tmp_path, adds, add) as agent:
        assert await agent.ask("1+2?", callbacks=notes.callbacks()) == "It is 3."
    assert notes.told == [
        "I add. ",
        'start add {"a": 1, "b": 2}',
        "end add: 3",
        "It is ",
        "3.",
        "complete: It is 3.",
    ]


async def test_asking_needs_no_callbacks_and_can_name_the_run_loop(tmp_path: Path) -> None:
    async with running_agent(tmp_path, lambda messages: f"{len(messages)} messages") as agent:
        first = await sent(agent, "one")
        again = await agent.ask("two", first[0].run_loop_id)
    assert again == "4 messages"  # the system's, and three of the conversation


@pytest.mark.slow
async def test_a_retry_takes_back_what_had_streamed(tmp_path: Path) -> None:
    answers: list[Answer] = [
        [TextDelta("Half an ans"), LLMStreamError("cut")],
        [TextDelta("A whole "), TextDelta("answer.")],
    ]
    notes = Notes()
    async with running_agent(tmp_path, lambda _: answers.pop(0), max_retries=1) as agent:
        assert await agent.ask("hello", callbacks=notes.callbacks()) == "A whole answer."
    assert notes.told == [
        "Half an ans",
        "retry: llm-stream",
        "A whole ",
        "answer.",
        "complete: A whole answer.",
    ]


async def test_words_that_did_not_stream_are_told_once_they_are_whole(tmp_path: Path) -> None:
    class Signs(Hooks):
        async def after_model_call(self, loop: Loop, message: Message) -> Message:
            return Message.assistant(message.text + " Yours, Rondo")

    notes = Notes()
    async with running_agent(tmp_path, lambda _: "Hello.", hooks=[Signs()]) as agent:
        await agent.ask("hello", callbacks=notes.callbacks())
    assert notes.told == ["Hello.", " Yours, Rondo", "complete: Hello. Yours, Rondo"]


async def test_a_callback_that_raises_breaks_neither_the_asking_nor_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*arguments: object) -> None:
        raise ValueError("a bug")

    async def breaks_later(*arguments: object) -> None:
        raise ValueError("a later bug")

    notes = Notes()
    broken = notes.callbacks(on_text=breaks, on_tool_end=breaks_later, on_complete=breaks)
    async with running_agent(tmp_path, adds, add) as agent:
        assert await agent.ask("1+2?", callbacks=broken) == "It is 3."
        assert agent.memory.short_term.states()[0].status == "idle"
    assert notes.told == ['start add {"a": 1, "b": 2}']
    reported = [each for each in caplog.records if each.name == "service.agent.callbacks"]
    assert len(reported) == 5  # three pieces of text, the tool's end, and the end of it all


async def test_a_loop_that_fails_raises_its_problem(tmp_path: Path) -> None:
    notes = Notes()
    answers: list[Answer] = [[LLMStatusError(401, "wrong key", advice="Check the key.")]]
    async with running_agent(tmp_path, lambda _: answers.pop(0)) as agent:
        with pytest.raises(RondoError) as raised:
            await agent.ask("hello", callbacks=notes.callbacks())
    assert raised.value.problem().kind == "llm-status"
    assert raised.value.advice == "Check the key."
    assert notes.told == []


async def test_a_loop_that_is_cancelled_raises_a_conflict(tmp_path: Path) -> None:
    raised: list[RondoError] = []

    async def ask(agent: Agent) -> None:
        try:
            await agent.ask("hello")
        except RondoError as error:
            raised.append(error)

    answers: list[Answer] = [[anyio.Event()]]
    async with (
        running_agent(tmp_path, lambda _: answers.pop(0)) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(ask, agent)
        await until(lambda: agent.memory.short_term.states())
        await agent.cancel(agent.memory.short_term.states()[0].id)
    assert [error.problem().kind for error in raised] == ["conflict"]


async def test_who_stops_asking_cancels_nothing(tmp_path: Path) -> None:
    go_on = anyio.Event()
    answers: list[Answer] = [[go_on, TextDelta("Done all the same.")]]
    async with running_agent(tmp_path, lambda _: answers.pop(0)) as agent:
        with anyio.move_on_after(0.1):
            await agent.ask("hello")
        go_on.set()
        await until(lambda: agent.memory.short_term.states()[0].status == "idle")
        loop = await agent.run_loop(agent.memory.short_term.states()[0].id)
    assert loop.iterations[0].response == "Done all the same."


# --- questions


@tool(needs_approval=True)
async def launch(what: str) -> str:
    """Launch something."""
    return f"{what} is launched"


def launches(messages: Sequence[Message]) -> Answer:
    last = messages[-1]
    return last.text if last.role == "tool" else [call("launch", '{"what": "Ariane"}')]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (True, "Ariane is launched"),
        (False, "did not allow this call."),
        ("It rains.", "did not allow this call. They said: It rains."),
        (PersonsAnswer(approved=True, arguments='{"what": "Vega"}'), "Vega is launched"),
    ],
)
async def test_what_a_callback_gives_answers_the_question(
    tmp_path: Path, reply: bool | str | PersonsAnswer, words: str
) -> None:
    asked: list[InputRequired] = []

    async def on_input_required(request: InputRequired) -> bool | str | PersonsAnswer:
        asked.append(request)
        return reply

    notes = Notes()
    async with running_agent(tmp_path, launches, launch) as agent:
        with anyio.fail_after(20):
            callbacks = notes.callbacks(on_input_required=on_input_required)
            answer = await agent.ask("Go!", callbacks=callbacks)
    assert words in answer
    assert [request.kind for request in asked] == ["approve"]
    assert notes.told[-1] == f"complete: {answer}"


async def test_several_questions_are_answered_one_after_another(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        done = sum(message.role == "tool" for message in messages)
        return "All up." if done == 3 else [call("launch", f'{{"what": "{done}"}}', index=done)]

    asked: list[str] = []

    def on_input_required(request: InputRequired) -> bool:
        asked.append(request.tool_calls[0].arguments)
        return True

    async with running_agent(tmp_path, respond, launch) as agent:
        with anyio.fail_after(20):
            callbacks = Callbacks(on_input_required=on_input_required)
            assert await agent.ask("Go!", callbacks=callbacks) == "All up."
    assert asked == ['{"what": "0"}', '{"what": "1"}', '{"what": "2"}']


@pytest.mark.parametrize("answers", ["no callback", "None", "a number", "raises"])
async def test_without_an_answer_the_loop_waits_and_says_so(tmp_path: Path, answers: str) -> None:
    def on_input_required(request: InputRequired) -> Any:
        if answers == "raises":
            raise ValueError("a bug")
        return None if answers == "None" else 1  # neither is an answer

    callbacks = None
    if answers != "no callback":
        callbacks = Callbacks(on_input_required=on_input_required)
    async with running_agent(tmp_path, launches, launch) as agent:
        with pytest.raises(ConflictError, match=r"waits for a person: .*launch"):
            await agent.ask("Go!", callbacks=callbacks)
        state = agent.memory.short_term.states()[0]
        assert state.status == "waiting_for_human_input"
        # Nothing is lost: it can be answered, and asked on.
        await agent.answer(state.id, approved=True)
        await until(lambda: agent.memory.short_term.states()[0].status == "idle")


async def test_an_answer_that_is_none_is_refused_and_decides_nothing(tmp_path: Path) -> None:
    callbacks = Callbacks(
        on_input_required=lambda request: PersonsAnswer(approved=True, choices=("a",))
    )
    async with running_agent(tmp_path, launches, launch) as agent:
        with pytest.raises(InvalidInputError):
            await agent.ask("Go!", callbacks=callbacks)
        assert agent.memory.short_term.states()[0].status == "waiting_for_human_input"


async def test_when_somebody_else_answers_first_the_loop_is_followed_on(tmp_path: Path) -> None:
    async with running_agent(tmp_path, launches, launch) as agent:

        async def on_input_required(request: InputRequired) -> bool:
            run_loop_id = agent.memory.short_term.states()[0].id
            await agent.answer(run_loop_id, approved=False, text="I was faster.")
            return True

        with anyio.fail_after(20):
            callbacks = Callbacks(on_input_required=on_input_required)
            answer = await agent.ask("Go!", callbacks=callbacks)
    assert "I was faster." in answer
