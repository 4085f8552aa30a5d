"""The model asks a person a question, or for a choice, and waits for the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.run_loops import RunLoop
from service.tools.approval import ApprovalPolicy
from service.tools.builtins.ask_user import ask_user, choose
from service.tools.builtins.read_result import read_result_tool
from service.tools.decorator import tool
from tests.support.agent.agents import (
    FunctionLLM,
    answer_of,
    call,
    request_of,
    running_agent,
    sending,
    sent,
    until,
)
from tests.support.agent.waiting import asked, request_id, rested, results_of, tool_call, wanting

pytestmark = pytest.mark.anyio

WHERE = wanting(tool_call("ask_user", question="Where to?"))
TEA = wanting(tool_call("choose", question="喝什么？", options=["茶", "coffee", "milk"]))
SEVERAL = wanting(tool_call("choose", question="What?", options=["a", "b", "c"], multiple=True))


async def test_the_answer_in_words_is_what_the_model_reads_across_a_restart(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, WHERE, ask_user) as agent:
        events = await sent(agent, "Book a trip.")
        request = request_of(events)
        assert (request.kind, request.prompt, request.call_id) == ("prompt", "Where to?", "c0")
        loop_id = events[0].run_loop_id
    async with running_agent(tmp_path, WHERE, ask_user) as agent:
        await agent.answer(loop_id, text="去里斯本")
        loop = await rested(agent, loop_id)
        assert results_of(loop) == ["去里斯本"]
        assert loop.iterations[-1].response == "Results: 去里斯本"


async def test_a_choice_is_one_of_the_options(tmp_path: Path) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        events = await sent(agent, "Something to drink.")
        request = request_of(events)
        assert (request.kind, request.options) == ("select", ("茶", "coffee", "milk"))
        loop_id = events[0].run_loop_id
        await agent.answer(loop_id, choices=["茶"])
        assert results_of(await rested(agent, loop_id)) == ["茶"]


async def test_several_options_can_be_chosen_where_that_was_asked(tmp_path: Path) -> None:
    async with running_agent(tmp_path, SEVERAL, choose) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, choices=["c", "a", "c"])
        assert results_of(await rested(agent, loop_id)) == ["c\na"]


async def test_the_words_of_an_option_are_a_choice_too(tmp_path: Path) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        await agent.answer(loop_id, text="milk", request_id=request)
        await agent.answer(loop_id, choices=["milk"], request_id=request)  # says the same
        assert results_of(await rested(agent, loop_id)) == ["milk"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "answer", "words"),
    [
        (TEA, {"choices": ["water"]}, "'water' is not among the options"),
        (TEA, {"text": "water"}, "'water' is not among the options"),
        (TEA, {"choices": ["茶", "milk"]}, "2 options are chosen"),
        (TEA, {"choices": []}, "0 options are chosen"),
        (TEA, {}, "0 options are chosen"),
        (TEA, {"choices": ["茶"], "text": "or milk"}, "both"),
        (TEA, {"approved": True}, "a choice is asked for, not `approved`"),
        (SEVERAL, {"choices": ["a", "d"]}, "'d' is not among the options"),
        (WHERE, {}, "an answer in words is asked for"),
        (WHERE, {"text": " "}, "an answer in words is asked for"),
        (WHERE, {"approved": False}, "not `approved`"),
        (WHERE, {"choices": ["there"]}, "nothing to choose"),
        (WHERE, {"text": "there", "remember": "always"}, "not `remember`"),
        (WHERE, {"text": "there", "arguments": "{}"}, "not `arguments`"),
    ],
)
async def test_an_answer_that_is_none_is_refused_and_the_question_stays(
    tmp_path: Path, model: Any, answer: dict[str, Any], words: str
) -> None:
    async with running_agent(tmp_path, model, ask_user, choose) as agent:
        loop_id = await asked(agent)
        before = await agent.replay(loop_id)
        with pytest.raises(InvalidInputError) as refused:
            await agent.answer(loop_id, **answer)
        assert words in refused.value.detail
        assert refused.value.advice
        assert await agent.replay(loop_id) == before


async def test_an_option_that_is_none_is_answered_with_those_there_are(tmp_path: Path) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        with pytest.raises(InvalidInputError) as refused:
            await agent.answer(loop_id, choices=["tea"])
        assert "'茶', 'coffee', 'milk'" in refused.value.advice


async def test_two_questions_are_asked_one_after_another(tmp_path: Path) -> None:
    both = wanting(
        tool_call("ask_user", 0, question="Where to?"), tool_call("ask_user", 1, question="When?")
    )
    async with running_agent(tmp_path, both, ask_user) as agent:
        loop_id = await asked(agent)
        first = request_id(agent, loop_id)
        await agent.answer(loop_id, text="Lisbon")
        await until(lambda: (s := agent.memory.short_term.state(loop_id)) and s.awaiting)
        assert request_id(agent, loop_id) != first
        second = request_id(agent, loop_id)
        await agent.answer(loop_id, text="tomorrow", request_id=second)
        assert results_of(await rested(agent, loop_id)) == ["Lisbon", "tomorrow"]


async def test_a_question_needs_no_yes_of_its_own(tmp_path: Path) -> None:
    strict = ApprovalPolicy(mode="always")
    async with running_agent(tmp_path, WHERE, ask_user, approval=strict) as agent:
        assert request_of(await sent(agent, "Book a trip.")).kind == "prompt"


async def test_a_question_that_cannot_be_asked_comes_back_to_the_model(tmp_path: Path) -> None:
    empty = wanting(tool_call("choose", question="What?", options=["only this"]))
    async with running_agent(tmp_path, empty, choose) as agent:
        events = await sent(agent, "Choose for me.")
        assert events[-1].type == "run_loop.idle"
        assert "at least 2 items" in answer_of(events)


async def test_a_message_in_the_answers_place_is_taken_instead(tmp_path: Path) -> None:
    async with running_agent(tmp_path, WHERE, ask_user) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        async with sending(agent, "forget it", loop_id, mode="interrupt") as events:
            await until(lambda: any(e.type == "input.required" for e in events))
        with pytest.raises(ConflictError):
            await agent.answer(loop_id, text="Lisbon", request_id=request)
        assert "said something else" in results_of(await agent.run_loop(loop_id))[0]


# --- reading on in a long result


async def test_the_model_is_made_ready_for_the_tools_that_a_conversation_begins_with(
    tmp_path: Path,
) -> None:
    ready: list[tuple[str, ...]] = []

    class Prepared(FunctionLLM):
        async def warm_up(
            self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
        ) -> None:
            ready.append(tuple(tool.name for tool in tools))

    async def load(run_loop_id: str) -> RunLoop | None:
        return None

    llm = Prepared(lambda _: "Hello.")
    async with running_agent(tmp_path, llm, ask_user, read_result_tool(load)) as agent:
        await sent(agent, "Hi.")
        await until(lambda: ready)
    assert ready == [("ask_user",)] == llm.offered


async def test_the_model_reads_on_in_a_result_that_was_cut(tmp_path: Path) -> None:
    long = "".join(f"{number:05d}中" for number in range(10_000))

    @tool(effect="read_only")
    async def read() -> str:
        """Read."""
        return long

    def respond(messages: Any) -> Any:
        results = sum(message.role == "tool" for message in messages)
        if results == 0:
            return [call("read")]
        if results == 1:
            return [tool_call("read_result", call_id="c0", start=30_000)]
        return "I have read it."

    llm = FunctionLLM(respond)
    llm.context_tokens = 100_000
    async with running_agent(tmp_path, llm, read) as agent:
        agent.tools.register(read_result_tool(agent.memory.load))
        events = await sent(agent, "Read it.")
        assert answer_of(events) == "I have read it."
        page = results_of(await agent.run_loop(events[0].run_loop_id))[1]
    assert long[30_000:48_000] in page
    assert "start=48000" in page
    offered = ["read_result" in names for names in llm.offered]
    assert offered == [False, True, True], "only where there is something to read on in"
