"""A server that asks the person in the middle of a call: as our questions, over restarts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
)

from service.agent.agent import Agent
from service.domain.conversation.instructions import RequestHumanSelect
from service.domain.conversation.messages import Message
from service.domain.history.human_input import InputRequired
from service.tools.mcp.elicitation import Elicitation
from service.tools.protocol import ToolFailure
from tests.support.agent.agents import Answer, FunctionLLM, call, until
from tests.support.agent.waiting import asked, rested, results_of
from tests.support.tools.connections import HttpClock, called, connected
from tests.support.tools.server_agents import agent_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def booking(messages: Sequence[Message]) -> Answer:
    """Book in each city that is named."""
    if messages[-1].role != "user":
        return "done"
    arguments = [json.dumps({"city": city}) for city in messages[-1].text.split()]
    return [call("clock__book", each, index=index) for index, each in enumerate(arguments)]


def model() -> FunctionLLM:
    llm = FunctionLLM(booking)
    llm.context_tokens = 200_000
    return llm


def question(agent: Agent, run_loop_id: str) -> InputRequired | None:
    state = agent.memory.short_term.state(run_loop_id)
    return None if state is None else state.awaiting


def _goes_on(agent: Agent, run_loop_id: str, before: InputRequired) -> bool:
    state = agent.memory.short_term.state(run_loop_id)
    if state is None or state.status == "idle":
        return True
    return state.awaiting is not None and state.awaiting != before


async def answer(agent: Agent, run_loop_id: str, *answers: str) -> list[str]:
    """Answer one question after another; what was asked after each."""
    following = []
    for each in answers:
        before = question(agent, run_loop_id)
        assert before is not None
        choices = (each,) if before.kind == "select" else None
        text = None if choices else each
        await agent.answer(run_loop_id, text=text, choices=choices, request_id=before.request_id)
        await until(partial(_goes_on, agent, run_loop_id, before))
        asked_now = question(agent, run_loop_id)
        following.append("" if asked_now is None else asked_now.prompt)
    return following


async def test_what_a_server_asks_is_answered_days_and_restarts_later(
    server: HttpClock, tmp_path: Path
) -> None:
    async with agent_of(server, tmp_path, model()) as agent:
        run_loop = await asked(agent, "Lisbon")
        first = question(agent, run_loop)
        assert first is not None
        assert first.kind == "select"
        assert first.options == ("small", "large", "decline")
        assert "A stay in Lisbon 住宿" in first.prompt
        assert "what you say goes to it" in first.prompt
        [nights] = await answer(agent, run_loop, "large")
        assert "How many nights? (integer) (minimum 1, maximum 9)" in nights
    server.stop()
    async with agent_of(server, tmp_path, model(), is_there=False) as agent:
        still = question(agent, run_loop)
        assert still is not None
        assert still.prompt == nights
        wrong, breakfast, wish = await answer(agent, run_loop, "many", "3", "yes")
        assert wrong.startswith("That cannot be used: a whole number is asked for.")
        assert "breakfast" in breakfast
        assert "To leave out this" in wish
        server.start()  # what is left to do waits for it
        await answer(agent, run_loop, "-")
        [result] = results_of(await rested(agent, run_loop))
    assert result == "Lisbon: room='large' nights=3 breakfast=True wish=''"
    assert (server.folder / "booked").read_text() == "Lisbon\n", "once"


async def test_several_calls_that_ask_are_answered_one_after_another(
    server: HttpClock, tmp_path: Path
) -> None:
    async with agent_of(server, tmp_path, model()) as agent:
        run_loop = await asked(agent, "Lisbon Porto")
        answers = {"Lisbon": ["large", "1", "no", "a view"], "Porto": ["decline"]}
        while (now := question(agent, run_loop)) is not None:
            city = "Lisbon" if "Lisbon" in now.prompt else "Porto"
            await answer(agent, run_loop, answers[city].pop(0))
        lisbon, porto = sorted(results_of(await rested(agent, run_loop)))
    assert lisbon == "Lisbon: room='large' nights=1 breakfast=False wish='a view'"
    assert porto == "Porto: decline"


async def test_something_else_that_is_said_ends_the_call(server: HttpClock, tmp_path: Path) -> None:
    async with agent_of(server, tmp_path, model()) as agent:
        run_loop = await asked(agent, "Lisbon")
        await agent.accept(Message.user("Porto"), run_loop_id=run_loop, mode="interrupt")
        await until(
            lambda: (now := question(agent, run_loop)) is not None and "Porto" in now.prompt
        )
        await answer(agent, run_loop, "decline")
        first, second = results_of(await rested(agent, run_loop))
    assert "said something else instead" in first
    assert second == "Porto: decline"


async def test_where_nobody_can_be_asked_the_call_fails(server: HttpClock, tmp_path: Path) -> None:
    async with connected(server.at(), tmp_path) as connection:
        result = await called(connection, "book", city="Lisbon")
    assert result.is_error
    assert "cannot be done here" in result.content


def form(schema: dict[str, Any]) -> InputRequiredResult:
    params = ElicitRequestFormParams(message="Well?", requested_schema=schema)
    return InputRequiredResult(input_requests={"a": ElicitRequest(params=params)})


@pytest.mark.parametrize(
    ("schema", "given", "value"),
    [
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Apple", "Bear"]}, "Bear", "b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "苹果"}]}, "苹果", "a"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "a\nb", ["a", "b"]),
        ({"type": "number", "maximum": 2}, "1.5", 1.5),
        ({"type": "string", "maxLength": 3}, "再见", "再见"),
        ({"type": "boolean"}, "no", False),
    ],
)
async def test_answers_become_values_of_the_form(
    schema: dict[str, Any], given: str, value: object
) -> None:
    asked = Elicitation.of("clock", form({"properties": {"x": schema}, "required": ["x"]}))
    asked = Elicitation.from_json(json.loads(json.dumps(asked.as_json())))
    if schema["type"] != "boolean":
        asked.take("far too long, and none of them")
        assert asked.wrong
    asked.take(given)
    assert asked.question() is None
    [response] = asked.responses().values()
    assert response.model_dump()["content"] == {"x": value}


async def test_an_address_is_shown_and_never_opened() -> None:
    params = ElicitRequestURLParams(message="Pay", url="https://example.org/pay")
    asked = Elicitation.of(
        "clock", InputRequiredResult(input_requests={"a": ElicitRequest(params=params)})
    )
    shown = asked.question()
    assert isinstance(shown, RequestHumanSelect)
    assert "https://example.org/pay" in shown.prompt
    asked.take("yes")
    [response] = asked.responses().values()
    assert (response.model_dump()["action"], response.model_dump()["content"]) == ("accept", None)


@pytest.mark.parametrize(
    "asks",
    [
        form({"properties": {"x": {"type": "object"}}}),
        form({"properties": {"x": {"type": "string", "enum": ["decline", "pay"]}}}),
        form({"properties": {f"x{number}": {"type": "string"} for number in range(50)}}),
        InputRequiredResult(
            input_requests={
                "a": CreateMessageRequest(
                    params=CreateMessageRequestParams(messages=[], max_tokens=1)
                )
            }
        ),
        InputRequiredResult(request_state="x" * 200_000),
    ],
)
async def test_what_nobody_can_be_asked_is_refused(asks: InputRequiredResult) -> None:
    with pytest.raises(ToolFailure):
        Elicitation.of("clock", asks)
