"""A step: the model's answer, its tool calls, their results, and the answer looked over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.errors import LLMStreamError
from service.domain.history.events import IterationStarted, MessageCompleted, ToolFinished
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


def last_role(messages: Sequence[Message]) -> str:
    return messages[-1].role


# --- while the answer still arrives


@pytest.mark.parametrize("effect", ["read_only", "idempotent"])
async def test_what_may_run_twice_runs_while_the_answer_still_arrives(
    tmp_path: Path, effect: ToolEffect
) -> None:
    ran, rest = anyio.Event(), anyio.Event()

    @tool(effect=effect)
    async def look(where: str) -> str:
        """Look."""
        ran.set()
        return f"nothing in the {where}"

    def respond(messages: Sequence[Message]) -> Answer:
        if last_role(messages) == "tool":
            return messages[-1].text
        return [call("look", '{"where": "box"}'), rest, TextDelta("I look.")]

    async with running_agent(tmp_path, respond, look) as agent:
        async with sending(agent, "Look!") as events:
            with anyio.fail_after(5):
                await ran.wait()
            await until(lambda: any(e.type == "iteration.started" for e in events))
            assert "message.completed" not in types(events)
            rest.set()
        order = [name for name in types(events) if name.startswith(("message.c", "tool"))]
        assert order == ["message.completed", "tool.started", "tool.finished", "message.completed"]
        assert answer_of(events) == "nothing in the box"


async def test_that_a_call_began_early_is_journaled_once_and_with_the_answer(
    tmp_path: Path,
) -> None:
    @tool(effect="read_only")
    async def look(where: str) -> str:
        """Look."""
        return f"nothing in the {where}"

    def respond(messages: Sequence[Message]) -> Answer:
        if last_role(messages) == "tool":
            return "Nothing."
        return [call("look", '{"where": "box"}'), call("look", '{"where": "bag"}', index=1)]

    async with running_agent(tmp_path, respond, look) as agent:
        events = await sent(agent, "Look!")
    steps = [e for e in events if e.type in ("message.completed", "tool.started", "tool.finished")]
    assert [e.type for e in steps[:3]] == [
        "message.completed",
        "tool.started",
        "tool.started",
    ]
    assert types(events).count("tool.started") == 2
    assert len({e.at for e in steps[:3]}) == 1, "one commit has one time"


@pytest.mark.slow
async def test_what_has_side_effects_waits_until_the_answer_is_journaled(tmp_path: Path) -> None:
    ran = 0

    @tool(effect="side_effects")
    async def post() -> str:
        """Post."""
        nonlocal ran
        ran += 1
        return "posted"

    broken: Answer = [call("post"), LLMStreamError("cut")]
    answers: list[Answer] = [broken, broken, [call("post")], "Posted."]

    async with running_agent(tmp_path, lambda _: answers.pop(0), post, max_retries=2) as agent:
        events = await sent(agent, "Post it.")
    assert types(events).count("llm.retry") == 2
    assert ran == 1


async def test_an_early_call_of_an_answer_that_broke_off_leaves_no_trace(tmp_path: Path) -> None:
    ran = anyio.Event()
    stopped: list[str] = []

    @tool(effect="read_only")
    async def wait(name: str) -> str:
        """Wait."""
        if name == "second":
            return "done"
        ran.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(name)
        return "never"

    answers: list[Answer] = [
        [call("wait", '{"name": "first"}'), ran, LLMStreamError("cut")],
        [call("wait", '{"name": "second"}')],
        "Good.",
    ]
    async with running_agent(tmp_path, lambda _: answers.pop(0), wait, max_retries=1) as agent:
        events = await sent(agent, "Wait.")
        assert answer_of(events) == "Good."
        assert stopped == ["first"]
    finished = [e.body.content for e in events if isinstance(e.body, ToolFinished)]
    assert finished == ["done"]


async def test_calls_of_one_answer_run_side_by_side(tmp_path: Path) -> None:
    both = anyio.Event()
    running: list[str] = []

    @tool()
    async def meet(name: str) -> str:
        """Wait until the other one is there too."""
        running.append(name)
        if len(running) == 2:
            both.set()
        await both.wait()
        return name

    def respond(messages: Sequence[Message]) -> Answer:
        if last_role(messages) == "tool":
            return "They met."
        return [call("meet", '{"name": "a"}'), call("meet", '{"name": "b"}', index=1)]

    async with running_agent(tmp_path, respond, meet) as agent:
        with anyio.fail_after(5):
            assert answer_of(await sent(agent, "Meet.")) == "They met."


# --- results


async def test_an_over_long_result_is_shown_in_part_and_kept_whole(tmp_path: Path) -> None:
    long = "".join(f"第{number}行\n" for number in range(10_000))

    @tool(effect="read_only")
    async def read() -> str:
        """Read."""
        return long

    llm = FunctionLLM(lambda m: "Long." if last_role(m) == "tool" else [call("read")])
    async with running_agent(tmp_path, llm, read) as agent:
        events = await sent(agent, "Read it.")
        loop = await agent.run_loop(events[0].run_loop_id)
    shown = llm.calls[-1][-1].text
    assert len(shown) < 21_000
    assert "characters were cut out here" in shown
    assert loop.iterations[0].tool_results[0].content == long


# --- auto-enhance


async def test_the_first_answer_is_looked_over_once_where_that_is_wanted(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].notes:
            return "A better answer."
        return f"An answer to {messages[-1].text}"

    async with running_agent(tmp_path, respond, auto_enhance=True) as agent:
        events = await sent(agent, "Question one")
        said = [e.body.message.text for e in events if isinstance(e.body, MessageCompleted)]
        assert said == ["An answer to Question one", "A better answer."]
        nudges = [e.body.nudge for e in events if isinstance(e.body, IterationStarted)]
        assert nudges[0] is None
        assert nudges[1]
        more = await sent(agent, "Question two", events[0].run_loop_id)
        assert answer_of(more) == "A better answer."
        loop = await agent.run_loop(events[0].run_loop_id)
    words = [iteration.user_message for iteration in loop.iterations]
    assert words == ["Question one", None, "Question two", None]


async def test_looking_over_answers_is_switched_while_the_agent_runs_for_one_owner_alone(
    tmp_path: Path,
) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        return "Better." if messages[-1].notes == "Sharper, please." else "An answer."

    options: dict[str, Any] = {"auto_enhance_prompt": "Sharper, please.", "auto_classify": False}
    async with running_agent(tmp_path, respond, **options) as agent:
        loop_id = (await sent(agent, "One"))[0].run_loop_id
        assert not agent.auto_enhance()
        agent.switch_auto_enhance(on=True)
        assert agent.auto_enhance()
        assert not agent.auto_enhance(owner="you")
        assert answer_of(await sent(agent, "Two", loop_id)) == "Better."
        assert answer_of(await sent(agent, "Three", owner="you")) == "An answer."
        agent.switch_auto_enhance(on=False)
        assert answer_of(await sent(agent, "Four", loop_id)) == "An answer."
        assert types(await sent(agent, "Five", loop_id)).count("message.completed") == 1


async def test_an_answer_stands_where_looking_it_over_fails(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].notes:
            raise LLMStreamError("cut")
        return "The answer."

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm, auto_enhance=True) as agent:
        events = await sent(agent, "A question")
        more = await sent(agent, "Another", events[0].run_loop_id)
    assert answer_of(events) == "The answer."
    assert types(events)[-3:] == ["error", "iteration.abandoned", "run_loop.idle"]
    assert answer_of(more) == "The answer."
    asked, nudged = ([message.role for message in each] for each in llm.calls[-2:])
    assert asked == ["system", "user", "assistant", "user"]
    assert nudged == [*asked, "assistant", "user"]


async def test_by_default_an_answer_is_an_answer(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        assert types(await sent(agent, "Hello")).count("message.completed") == 1
