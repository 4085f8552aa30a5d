"""When enough is enough: the model is stopped that fails, repeats itself, or calls nonsense."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta, TokenUsage
from service.domain.history.events import ToolFinished
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    running_agent,
    sent,
    types,
)

pytestmark = pytest.mark.anyio


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
    llm = FunctionLLM(lambda m: "Sorry." if m[-1].role == "tool" else [call("look", deep)])
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
