"""A step: the model's answer, its tool calls, and when enough is enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta, TokenUsage
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


# --- enough is enough


def _asks_for(name: str, arguments: str = "{}") -> FunctionLLM:
    """Calls a tool whenever it may, and answers when it may not."""
    llm = FunctionLLM(
        lambda _: [call(name, arguments)] if llm.offered[-1] else "I could not find out."
    )
    return llm


async def test_after_failures_in_a_row_the_model_must_answer_and_is_told_why(
    tmp_path: Path,
) -> None:
    count = 0

    @tool()
    async def knock() -> str:
        """Knock."""
        nonlocal count
        count += 1
        raise RuntimeError(f"nobody is at home ({count})")

    llm = _asks_for("knock")
    async with running_agent(tmp_path, llm, knock, max_consecutive_tool_failures=2) as agent:
        events = await sent(agent, "Knock.")
    assert count == 2
    assert answer_of(events) == "I could not find out."
    assert "failed again and again" in llm.calls[-1][0].text


@pytest.mark.parametrize("same", [True, False])
async def test_a_call_that_always_fails_beside_one_that_works_is_stopped_too(
    tmp_path: Path, same: bool
) -> None:
    count = 0

    @tool()
    async def knock(door: int) -> str:
        """Knock."""
        nonlocal count
        count += 1
        raise RuntimeError(f"nobody is at home ({count})")

    @tool(effect="read_only")
    async def look(where: int) -> str:
        """Look."""
        return f"a house ({count})"

    def respond(messages: Sequence[Message]) -> Answer:
        if not llm.offered[-1]:
            return "Nobody."
        door = 1 if same else count
        return [
            call("knock", f'{{"door": {door}}}'),
            call("look", f'{{"where": {count}}}', index=1),
        ]

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm, knock, look) as agent:
        events = await sent(agent, "Knock.")
        state = await agent.replay(events[0].run_loop_id)
    assert count == 3
    assert answer_of(events) == "Nobody."
    assert "failed again and again" in llm.calls[-1][0].text
    assert (state.failures, state.failing) == (0, {"knock": 3})


async def test_a_tool_that_works_in_between_or_beside_itself_is_not_stopped(
    tmp_path: Path,
) -> None:
    turns: list[tuple[str, ...]] = [
        ("bad",), ("good",), ("bad",), ("bad", "good"), ("bad",), ("other",), ("bad",), ("bad",)
    ]  # fmt: skip

    @tool()
    async def attempt(how: str, turn: int) -> str:
        """Try."""
        if how == "bad":
            raise RuntimeError(f"no ({turn})")
        return f"yes ({turn})"

    @tool()
    async def other(turn: int) -> str:
        """Do something else."""
        return f"yes ({turn})"

    def respond(_: Sequence[Message]) -> Answer:
        if not turns:
            return "Done."
        left = len(turns)
        return [
            call("other", f'{{"turn": {left}}}', index=index)
            if how == "other"
            else call("attempt", f'{{"how": "{how}", "turn": {left}}}', index=index)
            for index, how in enumerate(turns.pop(0))
        ]

    async with running_agent(tmp_path, respond, attempt, other) as agent:
        assert answer_of(await sent(agent, "Try.")) == "Done."
    assert not turns


async def test_one_success_makes_good_for_failures_before_it(tmp_path: Path) -> None:
    outcomes = [False, False, True, False, False, True]

    @tool()
    async def attempt() -> str:
        """Try."""
        if not outcomes.pop(0):
            raise RuntimeError(f"no ({len(outcomes)})")
        return f"yes ({len(outcomes)})"

    llm = FunctionLLM(lambda _: [call("attempt")] if outcomes else "Done.")
    async with running_agent(tmp_path, llm, attempt, max_consecutive_tool_failures=3) as agent:
        assert answer_of(await sent(agent, "Try.")) == "Done."


async def test_the_same_call_with_the_same_result_again_and_again_is_stopped(
    tmp_path: Path,
) -> None:
    count = 0

    @tool(effect="read_only")
    async def poll(job: int) -> str:
        """Ask how a job is doing."""
        nonlocal count
        count += 1
        return "still running"

    llm = _asks_for("poll", '{"job": 1}')
    async with running_agent(tmp_path, llm, poll, max_repeated_calls=3) as agent:
        events = await sent(agent, "Poll.")
    assert count == 3
    assert "came to the same result" in llm.calls[-1][0].text
    assert answer_of(events) == "I could not find out."


async def test_the_same_call_with_another_result_each_time_goes_on(tmp_path: Path) -> None:
    count = 0

    @tool(effect="read_only")
    async def poll() -> str:
        """Ask how far it is."""
        nonlocal count
        count += 1
        return f"{count} %"

    llm = FunctionLLM(lambda _: [call("poll")] if count < 6 else "Six percent.")
    async with running_agent(tmp_path, llm, poll, max_repeated_calls=2) as agent:
        assert answer_of(await sent(agent, "Poll.")) == "Six percent."


async def test_a_person_who_speaks_gives_new_credit(tmp_path: Path) -> None:
    @tool()
    async def knock() -> str:
        """Knock."""
        raise RuntimeError("nobody is at home")

    llm = _asks_for("knock")
    async with running_agent(
        tmp_path, llm, knock, max_consecutive_tool_failures=1, max_repeated_calls=2
    ) as agent:
        first = await sent(agent, "Knock.")
        again = await sent(agent, "Again.", first[0].run_loop_id)
    assert types(again).count("tool.started") == 1


async def test_nothing_runs_that_is_called_where_no_tools_were_offered(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    async def stamp() -> str:
        """Set a stamp."""
        ran.append("stamp")
        return "stamped"

    async with running_agent(
        tmp_path, lambda _: [call("stamp"), TextDelta("Stamped?")], stamp, max_iterations=1
    ) as agent:
        events = await sent(agent, "Stamp.")
    assert answer_of(events) == "Stamped?"
    assert ran == []


async def test_arguments_nested_beyond_all_measure_come_back_to_the_model_in_words(
    tmp_path: Path,
) -> None:
    @tool(effect="read_only")
    async def look(where: list[int]) -> str:
        """Look."""
        return "seen"

    deep = '{"where": ' + "[" * 5000 + "]" * 5000 + "}"
    llm = FunctionLLM(lambda m: "Sorry." if last_role(m) == "tool" else [call("look", deep)])
    async with running_agent(tmp_path, llm, look) as agent:
        events = await sent(agent, "Look.")
    assert answer_of(events) == "Sorry."
    [finished] = [e.body for e in events if isinstance(e.body, ToolFinished)]
    assert finished.is_error


@pytest.mark.parametrize("count", [10**30, -7])
async def test_an_absurd_report_of_usage_does_not_lose_the_answer(
    tmp_path: Path, count: int
) -> None:
    parts: Answer = [TextDelta("Hello."), TokenUsage("m", input_tokens=count, output_tokens=1)]
    async with running_agent(tmp_path, lambda _: parts) as agent:
        events = await sent(agent, "Hi")
        state = await agent.replay(events[0].run_loop_id)
    assert answer_of(events) == "Hello."
    assert state.input_tokens >= 0


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
