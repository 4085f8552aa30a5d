"""An answer that was cut off, and messages, crashes, programs and tool calls meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.callbacks import Callbacks
from service.domain.conversation.instructions import CallLLM, Finish, Instruction
from service.domain.conversation.messages import FinishReason
from service.domain.conversation.stream_parts import ResponseInfo, TextDelta
from service.domain.history.events import (
    MessageCompleted,
    ToolFinished,
)
from service.domain.history.fold import fold
from service.loop.brain import DefaultBrain, Limits
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    call,
    running_agent,
    sending,
    sent,
    types,
    until,
)
from tests.support.agent.cut_answers import CUT, cut, events_of, playing, spoken
from tests.support.agent.waiting import rested

pytestmark = pytest.mark.anyio


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
        journal = await events_of(agent, events[0].run_loop_id)
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
