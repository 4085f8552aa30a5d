"""An answer that is not whole says so; one whose tokens were used up goes on by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.agent.agent_settings import options_from_settings
from service.config import AgentSettings, LLMSettings, Settings
from service.domain.anchors import AnchorRef
from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import LLMStatusError
from service.domain.history.events import (
    ErrorOccurred,
)
from service.domain.history.fold import fold
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    call,
    running_agent,
    sent,
    types,
)
from tests.support.agent.cut_answers import CUT, cut, events_of, playing, spoken

pytestmark = pytest.mark.anyio


# --- going on


async def test_an_answer_that_was_cut_off_goes_on_to_its_end(tmp_path: Path) -> None:
    llm = playing(cut("One, two, thr"), cut("ee, four, fi"), "ve.")
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Count.")
        loop = await agent.run_loop(events[0].run_loop_id)
    answer = spoken(events)
    assert (answer.text, answer.finish_reason) == ("One, two, three, four, five.", None)
    parts = [(each.response, each.finish_reason) for each in loop.iterations]
    assert parts == [("One, two, thr", "length"), ("ee, four, fi", "length"), ("ve.", None)]
    assert [each.user_message for each in loop.iterations] == ["Count.", None, None]


async def test_the_model_is_shown_where_it_stopped_and_asked_to_go_on(tmp_path: Path) -> None:
    llm = playing(cut("One, two, thr"), "ee.", "You are welcome.")
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Count.")
        await sent(agent, "Thanks!", events[0].run_loop_id)
    *_, said, asked = llm.calls[1]
    assert (said.role, said.text) == ("assistant", "One, two, thr")
    assert (asked.role, asked.text) == ("user", "")
    assert "exactly where it stopped" in asked.notes
    assert [each.text for each in llm.calls[2][1:]] == [
        "Count.",
        "One, two, thr",
        "",
        "ee.",
        "Thanks!",
    ]


async def test_that_it_was_asked_to_go_on_is_nobodys_words(tmp_path: Path) -> None:
    llm = playing(cut("一二三"), "四五六。")
    async with running_agent(tmp_path, llm, auto_classify=False) as agent:
        loop_id = (await sent(agent, "从一数到六。"))[0].run_loop_id
        await agent.complete(loop_id)
        await agent.memory.archivist.drain()
        window = await agent.memory.long_term.expand(AnchorRef(loop_id, 0, 0), owner="me", after=9)
        segments = [
            (each.anchor.segment_type, each.content) for each in (window.focus, *window.after)
        ]
    assert segments == [
        ("user_message", "从一数到六。"),
        ("response", "一二三"),
        ("response", "四五六。"),
    ]


async def test_after_the_limit_the_answer_is_marked_as_cut(tmp_path: Path) -> None:
    parts = [cut(f"Part {n}. ") for n in range(9)]
    async with running_agent(tmp_path, playing(*parts), max_continuations=2) as agent:
        events = await sent(agent, "Tell all.")
    answer = spoken(events)
    assert (answer.text, answer.finish_reason) == ("Part 0. Part 1. Part 2. ", "length")
    assert types(events)[-1] == "run_loop.idle"


async def test_where_it_is_not_to_go_on_it_is_marked_at_once(tmp_path: Path) -> None:
    async with running_agent(tmp_path, playing(cut("Half a")), max_continuations=0) as agent:
        events = await sent(agent, "Tell all.")
        loop = await agent.run_loop(events[0].run_loop_id)
    assert spoken(events).finish_reason == loop.iterations[-1].finish_reason == "length"


async def test_the_limit_of_iterations_holds_for_going_on_too(tmp_path: Path) -> None:
    llm = playing(*(cut(f"Part {n}. ") for n in range(9)))
    async with running_agent(tmp_path, llm, max_iterations=2, max_continuations=9) as agent:
        events = await sent(agent, "Tell all.")
    assert len(llm.calls) == 2
    assert (spoken(events).finish_reason, types(events)[-1]) == ("length", "run_loop.idle")


async def test_a_budget_that_is_used_up_ends_the_answer_and_not_the_loop(tmp_path: Path) -> None:
    llm = playing(cut("Half a"), "n answer")
    async with running_agent(tmp_path, llm, budget_tokens=1) as agent:
        events = await sent(agent, "Tell all.")
    assert spoken(events).text == "Half a"
    assert types(events)[-1] == "run_loop.idle"


async def test_what_a_filter_stopped_is_marked_and_not_gone_on_with(tmp_path: Path) -> None:
    llm = playing(cut("It begins with", "content_filter"))
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Tell me.")
    answer = spoken(events)
    assert (answer.text, answer.finish_reason) == ("It begins with", "content_filter")
    assert len(llm.calls) == 1


async def test_an_answer_that_is_whole_is_not_marked(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        events = await sent(agent, "Hi")
        journal = [e.wire() for e in await events_of(agent, events[0].run_loop_id)]
    assert spoken(events).finish_reason is None
    assert not any("finish_reason" in each["data"] for each in journal)


@pytest.mark.parametrize(
    ("provider", "chosen", "times"),
    [("openai", None, 3), ("anthropic", None, 3), ("embedded", None, 0), ("embedded", 2, 2)],
)
def test_the_embedded_model_is_asked_to_go_on_only_where_that_is_set(
    provider: Any, chosen: int | None, times: int
) -> None:
    settings = Settings(
        llm=LLMSettings(provider=provider), agent=AgentSettings(max_continuations=chosen)
    )
    assert options_from_settings(settings).limits.max_continuations == times


async def test_words_of_the_house_are_no_answer_that_could_go_on(tmp_path: Path) -> None:
    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "nothing"

    llm = playing([call("look")], [call("look", "{", index=1), CUT])
    async with running_agent(tmp_path, llm, look, max_iterations=2) as agent:
        events = await sent(agent, "Look.")
    assert spoken(events).text.startswith("I have used all the steps")
    assert spoken(events).finish_reason is None


# --- a model that does not go on


LONG = (
    "The quick brown fox jumps over the lazy dog, and the dog does not mind it in the least. " * 2
)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param(cut("One, two"), cut("One, two"), id="the same again"),
        pytest.param(cut("One, two"), "two", id="its last words"),
        pytest.param(cut(LONG), LONG + "Then", id="all anew"),
    ],
)
async def test_a_model_that_repeats_itself_is_not_asked_again(
    tmp_path: Path, first: Answer, again: Answer
) -> None:
    llm = playing(first, again)
    async with running_agent(tmp_path, llm, max_iterations=9) as agent:
        events = await sent(agent, "Count.")
        loop_id = events[0].run_loop_id
        assert fold(await events_of(agent, loop_id)) == agent.memory.short_term.state(loop_id)
    answer = spoken(events)
    assert len(llm.calls) == 2
    assert (answer.text, answer.finish_reason) == ("".join(_texts(first)), "length")
    assert any(isinstance(e.body, ErrorOccurred) for e in events)
    assert types(events)[-2:] == ["iteration.abandoned", "run_loop.idle"]


def _texts(answer: Answer) -> list[str]:
    assert not isinstance(answer, str)
    return [part.text for part in answer if isinstance(part, TextDelta)]


async def test_words_that_resemble_earlier_ones_are_kept(tmp_path: Path) -> None:
    llm = playing(cut("Row, row, row your boat. "), "Row, row, row your canoe.")
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Sing.")
    assert spoken(events).text == "Row, row, row your boat. Row, row, row your canoe."


async def test_a_failure_while_it_goes_on_leaves_the_answer_as_it_is(tmp_path: Path) -> None:
    broken: Answer = [TextDelta("n ans"), LLMStatusError(500, "down")]
    llm = playing(cut("Half a"), broken, "Fine.")
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Tell all.")
        answer = spoken(events)
        assert (answer.text, answer.finish_reason) == ("Half a", "length")
        assert types(events)[-3:] == ["error", "iteration.abandoned", "run_loop.idle"]
        await sent(agent, "And you?", events[0].run_loop_id)
    assert [each.text for each in llm.calls[-1][1:]] == ["Tell all.", "Half a", "And you?"]
