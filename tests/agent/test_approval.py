"""A tool that needs a person's yes waits for it, for days and across restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.domain.history.events import MessageReceived
from service.domain.history.human_input import CallDecision, InputReceived
from service.memory.journal.change_feed import Commit
from tests.support.agent.agents import request_of, running_agent, sending, sent, types, until
from tests.support.agent.waiting import (
    Launches,
    asked,
    launch_call,
    request_id,
    rested,
    results_of,
    wanting,
)

pytestmark = pytest.mark.anyio

ROCKET = wanting(launch_call("the rocket"))
TWO = wanting(launch_call("the rocket"), launch_call("the boat", 1))


async def test_an_approval_that_does_not_resume_the_run_waits_across_a_restart(
    tmp_path: Path,
) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        events = await sent(agent, "launch it")
        loop_id = events[0].run_loop_id
        assert request_of(events).tool_calls[0].name == "launch"
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        assert (await agent.run_loop(loop_id)).status == "waiting_for_human_input"
        assert launches.launched == []
        await agent.answer(loop_id, approved=True)
        assert results_of(await rested(agent, loop_id)) == ["the rocket is launched"]
        assert launches.launched == ["the rocket"]


async def test_while_one_loop_waits_others_go_on(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool(), auto_classify=False) as agent:
        first, second = await asked(agent, "one"), await asked(agent, "two")
        await agent.answer(second, approved=True)
        assert (await rested(agent, second)).iterations[-1].response
        assert (await agent.run_loop(first)).status == "waiting_for_human_input"


async def test_what_needs_no_yes_does_not_wait_for_what_does(tmp_path: Path) -> None:
    launches, looks = Launches(), Launches()
    look = launch_call("the sky", 1)
    both = wanting(launch_call("the rocket"), type(look)(1, "c1", "look", look.arguments))
    tools = (launches.tool(), looks.tool("look", needs_approval=False))
    async with running_agent(tmp_path, both, *tools) as agent:
        loop_id = await asked(agent)
        assert (looks.launched, launches.launched) == (["the sky"], [])
        await agent.answer(loop_id, approved=True)
        assert len(results_of(await rested(agent, loop_id))) == 2


# --- what can be answered


async def test_a_no_is_told_to_the_model_with_its_reason_and_nothing_runs(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=False, text="今天是星期天")
        (result,) = (await rested(agent, loop_id)).iterations[0].tool_results
        assert result.is_error
        assert "今天是星期天" in result.content
        assert launches.launched == []


async def test_half_a_character_in_a_reason_does_not_keep_a_no_from_being_written(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool()) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=False, text="no\ud83d")
        assert "no\ufffd" in results_of(await rested(agent, loop_id))[0]


async def test_of_several_calls_one_can_run_and_another_not(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, TWO, launches.tool()) as agent:
        loop_id = await asked(agent)
        no = CallDecision(call_id="c1", approved=False, reason="too wet")
        await agent.answer(loop_id, approved=True, decisions=[no])
        results = {r.id: r for r in (await rested(agent, loop_id)).iterations[0].tool_results}
        assert results["c0"].content == "the rocket is launched"
        assert results["c1"].is_error
        assert "too wet" in results["c1"].content
        assert launches.launched == ["the rocket"]


async def test_a_call_can_be_run_with_other_arguments_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    launches = Launches()
    async with running_agent(tmp_path, TWO, launches.tool()) as agent:
        loop_id = await asked(agent)
        kite = CallDecision(call_id="c0", arguments='{"what": "纸鸢"}')
        await agent.answer(loop_id, approved=True, decisions=[kite])
        results = {r.id: r for r in (await rested(agent, loop_id)).iterations[0].tool_results}
        assert '{"what": "纸鸢"}' in results["c0"].content
        assert results["c0"].content.endswith("纸鸢 is launched")
        assert sorted(launches.launched) == ["the boat", "纸鸢"]


async def test_arguments_that_say_the_same_are_no_edit(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool()) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, arguments='{"what":"the rocket"}')
        assert results_of(await rested(agent, loop_id)) == ["the rocket is launched"]


NO = CallDecision(call_id="c0", approved=False)
UNUSABLE: list[dict[str, Any]] = [
    {},
    {"text": "hmm"},
    {"approved": "true"},
    {"approved": 1},
    {"approved": True, "text": "no, do not"},
    {"approved": True, "text": ""},
    {"choices": ["yes"]},
    {"approved": True, "choices": []},
    {"decisions": [NO]},  # and what of the other call?
    {"approved": True, "decisions": [NO, NO]},
    {"approved": True, "decisions": [CallDecision(call_id="c7")]},
    {"approved": True, "decisions": [CallDecision(call_id="c0", reason="do not")]},
    {"approved": False, "decisions": [CallDecision(call_id="c0", arguments='{"what": "x"}')]},
    {"decisions": [CallDecision(call_id="c0", arguments='{"what": "x"}')]},
    {"approved": True, "arguments": '{"what": "x"}'},  # of which of the two?
    {"approved": False, "remember": "always"},
    {"approved": False, "text": "x" * 1_100_000},
]


@pytest.mark.slow
@pytest.mark.parametrize("answer", UNUSABLE, ids=lambda answer: str(answer)[:60])
async def test_an_answer_that_is_not_clear_is_refused_and_decides_nothing(
    tmp_path: Path, answer: dict[str, Any]
) -> None:
    launches = Launches()
    async with running_agent(tmp_path, TWO, launches.tool()) as agent:
        loop_id = await asked(agent)
        before = await agent.replay(loop_id)
        with pytest.raises(InvalidInputError) as refused:
            await agent.answer(loop_id, **answer)
        assert refused.value.advice
        assert await agent.replay(loop_id) == before
        assert launches.launched == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"what": 7}', "what: input should be a valid string"),
        ('{"wat": "x"}', "Did you mean `what`?"),
        ("{}", "what: missing"),
        ('["x"]', "one JSON object"),
        ('{"what": "x"', "not valid JSON"),
        ('{"what": NaN}', "not valid JSON"),
    ],
)
async def test_arguments_that_the_tool_cannot_take_are_refused_before_anything_is_written(
    tmp_path: Path, arguments: str, words: str
) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool()) as agent:
        loop_id = await asked(agent)
        before = await agent.replay(loop_id)
        with pytest.raises(InvalidInputError, match="c0") as refused:
            await agent.answer(loop_id, approved=True, arguments=arguments)
        assert words in refused.value.detail
        assert await agent.replay(loop_id) == before


async def test_what_is_gone_meanwhile_cannot_be_run_with_other_arguments(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool()) as agent:
        loop_id = await asked(agent)
    async with running_agent(tmp_path, ROCKET) as agent:
        with pytest.raises(InvalidInputError, match="not offered any more"):
            await agent.answer(loop_id, approved=True, arguments='{"what": "x"}')
        await agent.answer(loop_id, approved=True)
        (result,) = results_of(await rested(agent, loop_id))
        assert "There is no tool `launch`" in result


# --- once


async def test_the_same_answer_twice_counts_once(tmp_path: Path) -> None:
    launches = Launches()
    edited = {
        "approved": True,
        "decisions": [
            CallDecision(call_id="c1", approved=False, reason="wet"),
            CallDecision(call_id="c0", arguments='{"what": "a kite"}'),
        ],
    }
    async with running_agent(tmp_path, TWO, launches.tool()) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        await agent.answer(loop_id, request_id=request, **cast(Any, edited))
        await agent.answer(loop_id, request_id=request, **cast(Any, edited))
        first = await rested(agent, loop_id)
        await agent.complete(loop_id)
        await agent.answer(loop_id, request_id=request, **cast(Any, edited))
        assert (await agent.run_loop(loop_id)).iterations == first.iterations
        assert launches.launched == ["a kite"]
        events = await agent.memory.journal.read(run_loop_id=loop_id)
        assert types(events).count("input.received") == 1
    async with running_agent(tmp_path, TWO, launches.tool()) as agent:  # after a restart too
        await agent.answer(loop_id, request_id=request, **cast(Any, edited))


async def test_another_answer_after_the_first_is_a_conflict(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        await agent.answer(loop_id, approved=False, request_id=request)
        for other in ({"approved": True}, {"approved": False, "text": "so there"}, {"text": "?"}):
            with pytest.raises(ConflictError, match="answered already"):
                await agent.answer(loop_id, request_id=request, **cast(Any, other))
        with pytest.raises(ConflictError, match="has not asked"):
            await agent.answer(loop_id, approved=True, request_id="another")
        await rested(agent, loop_id)
        with pytest.raises(ConflictError, match="asks nothing now"):
            await agent.answer(loop_id, approved=True)
        assert launches.launched == []


async def test_of_two_different_answers_at_once_exactly_one_counts(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        taken: list[bool] = []
        refused: list[bool] = []

        async def answer(approved: bool) -> None:
            try:
                await agent.answer(loop_id, approved=approved, request_id=request)
            except ConflictError:
                refused.append(approved)
            else:
                taken.append(approved)

        async with anyio.create_task_group() as group:
            for approved in (True, False):
                group.start_soon(answer, approved)
        await rested(agent, loop_id)
        assert len(taken) == len(refused) == 1
        assert launches.launched == (["the rocket"] if taken[0] else [])


async def test_what_comes_in_meanwhile_does_not_make_a_good_answer_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        append = agent.memory.journal.append
        raced = 0

        async def race(run_loop_id: str, *bodies: Any, **options: Any) -> Commit:
            nonlocal raced
            if isinstance(bodies[0], InputReceived) and raced < 3:
                raced += 1
                late = MessageReceived(message_id=f"m{raced}", message=Message.user("hurry"))
                await append(run_loop_id, late)
            return await append(run_loop_id, *bodies, **options)

        monkeypatch.setattr(agent.memory.journal, "append", race)
        await agent.answer(loop_id, approved=True)
        await until(lambda: launches.launched == ["the rocket"])
        assert raced == 3


async def test_an_answer_without_an_id_is_for_the_question_that_was_open_when_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else answers first, and the next question must not get this one's yes."""
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        first = request_id(agent, loop_id)
        append = agent.memory.journal.append
        raced = False

        async def race(run_loop_id: str, *bodies: Any, **options: Any) -> Commit:
            nonlocal raced
            if isinstance(bodies[0], InputReceived) and not raced:
                raced = True
                await agent.answer(loop_id, approved=False, request_id=first)
                await rested(agent, loop_id)
                await sent(agent, "launch it again", loop_id)
            return await append(run_loop_id, *bodies, **options)

        monkeypatch.setattr(agent.memory.journal, "append", race)
        with pytest.raises(ConflictError, match="answered already"):
            await agent.answer(loop_id, approved=True)
        assert request_id(agent, loop_id) != first
        assert launches.launched == []


async def test_a_caller_that_is_cancelled_leaves_no_loop_standing_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        append = agent.memory.journal.append
        async with anyio.create_task_group() as group:

            async def leave(run_loop_id: str, *bodies: Any, **options: Any) -> Commit:
                group.cancel_scope.cancel()
                return await append(run_loop_id, *bodies, **options)

            monkeypatch.setattr(agent.memory.journal, "append", leave)
            await agent.answer(loop_id, approved=True)
        assert results_of(await rested(agent, loop_id)) == ["the rocket is launched"]


# --- what else is said while a loop waits


async def test_a_message_in_the_answers_place_drops_the_question(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        async with sending(agent, "never mind", loop_id, mode="interrupt"):
            await until(lambda: request_id_or_none(agent, loop_id) != request)
            with pytest.raises(ConflictError, match="does not wait for this answer any more"):
                await agent.answer(loop_id, approved=True, request_id=request)
        assert launches.launched == []


def request_id_or_none(agent: Agent, run_loop_id: str) -> str | None:
    state = agent.memory.short_term.state(run_loop_id)
    return state.awaiting.request_id if state and state.awaiting else None


async def test_a_yes_to_what_a_message_has_withdrawn_is_refused_in_words(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        events = await sent(agent, "please hurry", loop_id)
        assert request_of(events).request_id != request
        with pytest.raises(ConflictError, match="something else was said in the answer's place"):
            await agent.answer(loop_id, approved=True, request_id=request)
        assert launches.launched == []
        assert (await agent.run_loop(loop_id)).iterations[1].user_message == "please hurry"


async def test_a_loop_that_was_cancelled_takes_no_answer(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool()) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        await agent.cancel(loop_id)
        with pytest.raises(ConflictError):
            await agent.answer(loop_id, approved=True, request_id=request)


async def test_nobody_answers_for_somebody_else(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool()) as agent:
        loop_id = await asked(agent, owner="ada")
        with pytest.raises(NotFoundError):
            await agent.answer(loop_id, approved=True, owner="me")
