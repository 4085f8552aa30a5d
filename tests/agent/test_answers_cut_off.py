"""An answer that is not whole says so; one whose tokens were used up goes on by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.agent_settings import options_from_settings
from service.agent.callbacks import Callbacks
from service.config import AgentSettings, LLMSettings, Settings
from service.domain.anchors import AnchorRef
from service.domain.conversation.instructions import CallLLM, Finish, Instruction
from service.domain.conversation.messages import FinishReason, Message
from service.domain.conversation.stream_parts import ResponseInfo, TextDelta
from service.domain.errors import LLMStatusError
from service.domain.history.events import (
    ErrorOccurred,
    Event,
    IterationStarted,
    MessageCompleted,
    ToolFinished,
)
from service.domain.history.fold import fold
from service.domain.history.outcome import Spoken
from service.loop.brain import DefaultBrain, Limits
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    call,
    running_agent,
    sending,
    sent,
    types,
    until,
)
from tests.support.agent.waiting import rested

pytestmark = pytest.mark.anyio

CUT = ResponseInfo(finish_reason="length")


def cut(text: str, reason: FinishReason = "length") -> Answer:
    return [TextDelta(text), ResponseInfo(finish_reason=reason)]


def playing(*answers: Answer | Callable[[], Answer]) -> FunctionLLM:
    left = list(answers)

    def respond(messages: Sequence[Message]) -> Answer:
        answer = left.pop(0)
        return answer() if callable(answer) else answer

    return FunctionLLM(respond)


def spoken(events: Sequence[Event]) -> Spoken:
    answer = Spoken()
    for event in events:
        if isinstance(event.body, IterationStarted):
            answer.begin(event.body)
        elif isinstance(event.body, MessageCompleted):
            answer.say(event.body)
    return answer


async def _events(agent: Agent, loop_id: str) -> list[Event]:
    return await agent.memory.journal.read(run_loop_id=loop_id)


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
        journal = [e.wire() for e in await _events(agent, events[0].run_loop_id)]
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
        assert fold(await _events(agent, loop_id)) == agent.memory.short_term.state(loop_id)
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


# --- together with other things


async def test_it_is_not_looked_over_where_it_was_too_long_once(tmp_path: Path) -> None:
    llm = playing(cut("One, "), "two.")
    async with running_agent(tmp_path, llm, auto_enhance=True) as agent:
        await sent(agent, "Count.")
    assert len(llm.calls) == 2


async def test_a_follow_up_waits_for_the_whole_answer(tmp_path: Path) -> None:
    free = anyio.Event()
    llm = playing([TextDelta("One, "), free, CUT], "two.", "You are welcome.")
    async with running_agent(tmp_path, llm) as agent:
        async with sending(agent, "Count.") as events:
            await until(lambda: any(e.type == "message.delta" for e in events))
            loop_id = events[0].run_loop_id
            async with sending(agent, "Thanks!", loop_id, mode="followup") as later:
                await until(lambda: any(e.type == "message.received" for e in later))
                free.set()
        loop = await agent.run_loop(loop_id)
    turns = [(each.user_message, each.response) for each in loop.iterations]
    assert turns == [("Count.", "One, "), (None, "two."), ("Thanks!", "You are welcome.")]


async def test_a_message_meanwhile_is_heard_instead_of_the_rest(tmp_path: Path) -> None:
    free = anyio.Event()
    llm = playing([TextDelta("One, "), free, CUT], "I stop.")
    async with running_agent(tmp_path, llm) as agent, sending(agent, "Count.") as events:
        await until(lambda: any(e.type == "message.delta" for e in events))
        loop_id = events[0].run_loop_id
        async with sending(agent, "Stop!", loop_id) as later:
            await until(lambda: any(e.type == "message.received" for e in later))
            free.set()
    assert llm.calls[-1][-1].text == "Stop!"
    assert len(llm.calls) == 2


async def test_it_can_be_cancelled_while_it_goes_on(tmp_path: Path) -> None:
    llm = playing(cut("One, "), [TextDelta("two, "), anyio.Event()], "three.")
    async with running_agent(tmp_path, llm) as agent:
        async with sending(agent, "Count.") as events:
            await until(lambda: sum(e.type == "message.delta" for e in events) == 2)
            loop_id = events[0].run_loop_id
            await agent.cancel(loop_id)
        assert types(events)[-1] == "run_loop.cancelled"
        assert len(llm.calls) == 2
        loop = await agent.run_loop(loop_id)
        assert [each.response for each in loop.iterations] == ["One, ", "two,"]
        await agent.resume(loop_id)
        loop = await rested(agent, loop_id)
        assert [each.response for each in loop.iterations][-1] == "three."


@pytest.mark.parametrize("streamed", [False, True], ids=["before a word", "within a part"])
async def test_after_a_crash_it_goes_on(tmp_path: Path, streamed: bool) -> None:
    waiting: Answer = [*([TextDelta("tw")] if streamed else []), anyio.Event()]
    async with (
        running_agent(tmp_path, playing(cut("One, "), waiting)) as agent,
        anyio.create_task_group() as group,
        sending(agent, "Count.") as events,
    ):
        deltas = 2 if streamed else 1
        await until(lambda: sum(e.type == "message.delta" for e in events) == deltas)
        await until(lambda: types(events).count("iteration.started") == 2)
        loop_id = events[0].run_loop_id
        group.cancel_scope.cancel()
    llm = playing("two.")
    async with running_agent(tmp_path, llm) as agent:
        loop = await rested(agent, loop_id)
    assert [each.response for each in loop.iterations] == ["One, ", "two."]
    assert [each.role for each in llm.calls[0][1:]] == ["user", "assistant", "user"]


async def test_what_is_next_follows_from_what_is_journaled(tmp_path: Path) -> None:
    """Killed between two parts, it goes on; killed after the last one, it rests."""
    llm = playing(cut("One, "), cut("two, "), cut("three, "))
    async with running_agent(tmp_path, llm, max_continuations=2) as agent:
        events = await sent(agent, "Count.")
        journal = await _events(agent, events[0].run_loop_id)
    brain = DefaultBrain(lambda state, call: False, limits=Limits(max_continuations=2))
    instructions: list[Instruction] = []
    for number, event in enumerate(journal, start=1):
        if isinstance(event.body, MessageCompleted):
            state = fold(journal[:number])
            assert state is not None
            instructions.append(brain.next(state))
    assert instructions == [CallLLM(continues=True), CallLLM(continues=True), Finish()]


async def test_a_program_is_given_the_whole_answer(tmp_path: Path) -> None:
    heard: list[str] = []
    completed: list[str] = []
    llm = playing(cut("One, "), "two.")
    async with running_agent(tmp_path, llm) as agent:
        calls = Callbacks(on_text=heard.append, on_complete=completed.append)
        assert await agent.ask("Count.", callbacks=calls) == "One, two."
    assert ("".join(heard), completed) == ("One, two.", ["One, two."])


async def test_a_program_is_told_that_repeated_words_do_not_count(tmp_path: Path) -> None:
    heard: list[str] = []
    dropped: list[str] = []
    llm = playing(cut("One, two"), cut("One, two"))
    async with running_agent(tmp_path, llm) as agent:
        calls = Callbacks(
            on_text=heard.append, on_retry=lambda problem: dropped.append(problem.title)
        )
        assert await agent.ask("Count.", callbacks=calls) == "One, two"
    assert (heard, dropped) == (["One, two"] * 2, ["The last answer stands as it is"])


# --- tool calls


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("arguments", ['{"what": "mil', "", '{"what": "milk"'])
async def test_half_a_call_is_not_run_and_the_model_is_told(
    tmp_path: Path, reason: FinishReason, arguments: str
) -> None:
    ran: list[str] = []

    @tool(effect="side_effects")
    async def buy(what: str = "anything") -> str:
        """Buy."""
        ran.append(what)
        return "bought"

    answers: list[Any] = [
        [
            call("buy", '{"what": "bread"}'),
            call("buy", arguments, index=1),
            ResponseInfo(finish_reason=reason),
        ],
        [call("buy", '{"what": "milk"}', index=2)],
        "Both.",
    ]
    llm = playing(*answers)
    async with running_agent(tmp_path, llm, buy) as agent:
        events = await sent(agent, "Buy bread and milk.")
        loop = await agent.run_loop(events[0].run_loop_id)
    assert ran == ["bread", "milk"]
    results = [each for each in llm.calls[1] if each.role == "tool"]
    assert [(each.tool_call_id, each.is_error) for each in results] == [("c0", False), ("c1", True)]
    assert "in the middle of this call" in results[1].text
    assert loop.iterations[0].finish_reason == reason
    finished = [e.body for e in events if isinstance(e.body, ToolFinished)]
    assert [each.notice for each in finished if each.is_error] == [True]
    assert spoken(events).text == "Both."


async def test_a_whole_call_without_arguments_runs_though_the_next_one_broke_off(
    tmp_path: Path,
) -> None:
    ran: list[str] = []

    @tool(effect="side_effects")
    async def ring() -> str:
        """Ring."""
        ran.append("ring")
        return "rung"

    llm = playing([call("ring", ""), call("ring", "{", index=1), CUT], "Once.")
    async with running_agent(tmp_path, llm, ring) as agent:
        await sent(agent, "Ring twice.")
    assert ran == ["ring"]


# --- the provider's id


async def test_the_providers_id_of_an_answer_is_kept_with_the_step(tmp_path: Path) -> None:
    first: Answer = [ResponseInfo(id="resp_1"), TextDelta("One, "), CUT]
    llm = playing(first, [ResponseInfo(id="resp_2"), TextDelta("two.")], "Three.")
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Count.")
        loop_id = events[0].run_loop_id
        await sent(agent, "Go on.", loop_id)
        loop = await agent.run_loop(loop_id)
    assert [each.response_id for each in loop.iterations] == ["resp_1", "resp_2", None]
    response_ids = [e.body.response_id for e in events if isinstance(e.body, MessageCompleted)]
    assert response_ids == ["resp_1", "resp_2"]
