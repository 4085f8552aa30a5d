"""Caps on spending hold for whatever asks a model, and what they stop can go on later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta, TokenUsage
from service.domain.errors import BudgetError, ConfigurationError, LLMStreamError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import (
    CompactionFinished,
    Event,
    IterationStarted,
    MessageCompleted,
    RouteDecided,
    RunLoopFailed,
    Usage,
)
from service.domain.spend import SpendCaps
from service.domain.usage import Prices
from service.llm.generate import Backoff
from service.llm.named_models import NamedModel
from service.memory.memory import Memory
from service.routing.routing_options import RouterOptions
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
from tests.support.agent.compacting import LIMIT, all_events, conversation, finished, talks
from tests.support.agent.consolidating import NotingLLM, agent_with, facts, remember

pytestmark = pytest.mark.anyio

ROOM = 15_000
"""More tokens than a call of these models may use: a window of 8,192, and an answer of half."""
A_CALL = SpendCaps(daily_tokens=ROOM)


def uses(tokens: int, *before: Any, words: str = "Hi.") -> Answer:
    return [*before, TextDelta(words), TokenUsage("m", 0, tokens)]


def refusal(events: Sequence[Event]) -> str:
    failed = events[-1].body
    assert isinstance(failed, RunLoopFailed)
    assert failed.problem.kind == "budget"
    return failed.problem.in_words()


async def used_today(agent: Agent) -> int:
    return (await agent.spend_status()).day.tokens_used


async def test_runaway_cost_stops_in_words_and_goes_on_once_the_cap_is_raised(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(lambda _: uses(ROOM, words="Expensive."))
    async with running_agent(tmp_path, llm, spend=A_CALL, auto_classify=False) as agent:
        assert answer_of(await sent(agent, "First")) == "Expensive."
        events = await sent(agent, "Second")
        words = refusal(events)
        assert "today 15,000 tokens of 15,000 tokens are used" in words
        assert "spend.daily_tokens" in words
        assert "There is room again from" in words
        assert len(llm.calls) == 1
        # Whoever says more is told the same, and nothing is paid.
        again = await sent(agent, "And now?", events[0].run_loop_id)
        assert "today 15,000 tokens" in refusal(again)
        assert len(llm.calls) == 1

    llm = FunctionLLM(lambda messages: f"Answer to {messages[-1].text}")
    raised = SpendCaps(daily_tokens=10 * ROOM)
    async with running_agent(tmp_path, llm, spend=raised, auto_classify=False) as agent:
        await agent.resume(events[0].run_loop_id)
        state = agent.memory.short_term.state
        await until(lambda: (s := state(events[0].run_loop_id)) and s.status == "idle")
        said = [message.text for message in llm.calls[-1]]
        assert {"Second", "And now?"} <= set(said)


async def test_a_cap_that_was_lowered_holds_from_the_next_start_on(tmp_path: Path) -> None:
    respond = partial(lambda _: uses(ROOM))
    async with running_agent(tmp_path, respond, spend=SpendCaps(daily_tokens=10**6)) as agent:
        await sent(agent, "First")
    async with running_agent(tmp_path, respond, spend=A_CALL) as agent:
        assert "15,000 tokens of 15,000" in refusal(await sent(agent, "Second"))


@tool(effect="read_only")
async def look() -> str:
    """Look."""
    return "a cat"


async def test_a_cap_stops_a_loop_between_its_steps_and_its_history_stays_well_formed(
    tmp_path: Path,
) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        return [call("look"), TokenUsage("m", 0, ROOM)]

    async with running_agent(tmp_path, respond, look, spend=A_CALL) as agent:
        events = await sent(agent, "Look!")
        assert "15,000 tokens of 15,000" in refusal(events)
        assert types(events).count("tool.finished") == 1


async def test_what_a_cancelled_answer_has_used_counts(tmp_path: Path) -> None:
    never = anyio.Event()
    llm = FunctionLLM(lambda _: [TextDelta("word " * 400), never])
    async with running_agent(tmp_path, llm, spend=A_CALL) as agent:
        async with sending(agent, "Tell me") as events:
            await until(lambda: any(each.type == "message.delta" for each in events))
            reserved = (await agent.spend_status()).day.tokens_reserved
            assert 4096 < reserved < ROOM
            await agent.cancel(events[0].run_loop_id)
        assert await used_today(agent) > 500
        assert (await agent.spend_status()).day.tokens_reserved == 0
        (line,) = await agent.memory.journal.usage.lines(owner="me", by="run_loop")
        assert line.key == events[0].run_loop_id
        assert line.estimated_calls == 1


async def test_a_process_that_ends_in_the_middle_of_an_answer_leaves_what_it_used(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(lambda _: [TextDelta("word " * 400), anyio.Event()])
    async with running_agent(tmp_path, llm, spend=A_CALL) as agent:
        await agent.accept("Tell me")
        await until(lambda: llm.calls)
        states = agent.memory.short_term.states
        await until(lambda: states() and states()[0].thinking)
    answers: Answer = uses(3)
    async with running_agent(tmp_path, lambda _: answers, spend=SpendCaps()) as agent:
        await until(lambda: agent.memory.short_term.states()[0].status == "idle")
        status = await agent.spend_status()
        assert status.day.tokens_used > 500
        assert status.day.tokens_reserved == 0


async def test_tries_that_broke_off_and_the_model_that_stood_in_are_counted(
    tmp_path: Path,
) -> None:
    broken = FunctionLLM(lambda _: [TextDelta("word " * 80), LLMStreamError("cut")])
    prices = Prices(input=1e6, output=1e6)
    spare = NamedModel(FunctionLLM(lambda _: uses(7)), max_retries=0, prices=prices)
    async with running_agent(
        tmp_path,
        broken,
        models={"spare": spare},
        fallback=("spare",),
        max_retries=1,
        backoff=Backoff(base_seconds=0),
        spend=SpendCaps(daily_tokens=10 * ROOM),
    ) as agent:
        events = await sent(agent, "hello")
        assert answer_of(events) == "Hi."
        used = [each.body for each in events if isinstance(each.body, Usage)]
        assert [each.output_tokens for each in used] == [100, 100, 7]
        assert [each.estimated for each in used] == [True, True, False]
        assert used[2].cost == 7
        total = await agent.memory.journal.usage.total(owner="me")
        assert await used_today(agent) == total.input_tokens + total.output_tokens


ASKING = RouterOptions(sure_above=1)


class Judging(FunctionLLM):
    """Judges where messages belong, and says how often."""

    judgements = 0

    async def stream(
        self, messages: Sequence[Message], *, response_schema: Any = None, **options: Any
    ) -> Any:
        if response_schema is None:
            async for part in super().stream(messages, **options):
                yield part
            return
        self.judgements += 1
        yield TextDelta('{"continues": "Plan a trip"}')
        yield TokenUsage("m", 0, 5)


async def test_the_judge_of_routes_is_counted_and_not_asked_over_the_cap(tmp_path: Path) -> None:
    answers = [uses(10), uses(ROOM)]
    llm = Judging(lambda _: answers.pop(0))
    async with running_agent(tmp_path, llm, router=ASKING, spend=A_CALL) as agent:
        await sent(agent, "Plan a trip")
        await sent(agent, "and a hotel")
        assert llm.judgements == 1
        assert await used_today(agent) == 10 + 5 + ROOM
        third = await sent(agent, "and a car for the trip")
        assert llm.judgements == 1
        (route,) = [each.body.route for each in third if isinstance(each.body, RouteDecided)]
        assert route.method == "fallback"
        assert "cap on spending" in route.reason
        assert "15,015 tokens" in refusal(third)
        assert (await agent.spend_status()).day.tokens_reserved == 0


async def test_notes_are_counted_and_not_written_over_the_cap(tmp_path: Path) -> None:
    llm = NotingLLM(facts)
    llm.used = (ROOM, 0)
    async with agent_with(tmp_path, llm, spend=A_CALL) as agent:
        await remember(agent, "Ada lives in Basel.")
        await until(lambda: llm.asked)
        await remember(agent, "Bea lives in Bern.")
        before = len(llm.asked)

        async def state() -> str:
            status = await agent.consolidation_status()
            assert status is not None
            return f"{status.state}: {status.problem}"

        with anyio.fail_after(10):
            while "used up: The daily cap" not in await state():
                await anyio.sleep(0.01)
        assert len(llm.asked) == before
        assert await used_today(agent) >= ROOM


async def test_over_the_cap_old_rounds_are_shortened_without_the_model(tmp_path: Path) -> None:
    async with running_agent(tmp_path, talks, context_tokens=LIMIT) as agent:
        loop_id, _ = await conversation(agent, 3)
        before = len(finished(await all_events(agent, loop_id)))
        used = await used_today(agent)
    caps = SpendCaps(daily_tokens=used + 1)
    async with running_agent(tmp_path, talks, context_tokens=LIMIT, spend=caps) as agent:
        summary: CompactionFinished = await agent.compact(loop_id)
        assert summary.method == "extract"
        assert len(finished(await all_events(agent, loop_id))) == before + 1
        assert await used_today(agent) == used


async def test_an_answer_stays_though_it_may_not_be_looked_over(tmp_path: Path) -> None:
    respond = partial(lambda _: uses(ROOM, words="Good enough."))
    async with running_agent(tmp_path, respond, spend=A_CALL, auto_enhance=True) as agent:
        events = await sent(agent, "hello")
        assert types(events)[-1] == "run_loop.idle"
        assert "error" in types(events)
        assert answer_of(events) == "Good enough."


async def asks_elsewhere(instruction: Any, loop: Any) -> None:
    """An executor with a client of its own."""
    index = loop.state.iteration_count
    await loop.emit(IterationStarted(index=index, message_ids=instruction.message_ids))
    used = Usage(model="mine", input_tokens=ROOM, output_tokens=0)
    await loop.emit(MessageCompleted(message=Message.assistant("From elsewhere.")), used)


async def test_an_executor_of_one_s_own_passes_the_same_door(tmp_path: Path) -> None:
    options: dict[str, Any] = {"executors": {"call_llm": asks_elsewhere}, "spend": A_CALL}
    async with running_agent(tmp_path, auto_classify=False, **options) as agent:
        assert answer_of(await sent(agent, "First")) == "From elsewhere."
        assert "15,000 tokens of 15,000" in refusal(await sent(agent, "Second"))


async def test_an_answer_of_one_s_own_executor_stays_though_it_may_not_be_looked_over(
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {"executors": {"call_llm": asks_elsewhere}, "spend": A_CALL}
    async with running_agent(tmp_path, auto_enhance=True, **options) as agent:
        events = await sent(agent, "First")
        assert types(events)[-2:] == ["error", "run_loop.idle"]
        assert answer_of(events) == "From elsewhere."


async def test_forgetting_a_loop_lifts_no_cap(tmp_path: Path) -> None:
    llm = FunctionLLM(lambda _: uses(ROOM))
    async with running_agent(tmp_path, llm, spend=A_CALL, auto_classify=False) as agent:
        events = await sent(agent, "A secret")
        await agent.complete(events[0].run_loop_id)
        request = ForgetRequest(run_loop_ids=(events[0].run_loop_id,))
        preview = await agent.preview_forgetting(request)
        assert preview.confirm is not None, preview.notice
        await agent.forget(request, preview.confirm)
        (line,) = await agent.memory.journal.usage.lines(owner="me", by="run_loop")
        assert line.key == ""
        assert "15,000 tokens of 15,000" in refusal(await sent(agent, "Another"))


def test_a_cap_in_money_beside_a_model_without_prices_is_refused_at_the_start(
    tmp_path: Path,
) -> None:
    options = AgentOptions(prices=Prices(input=1, output=1), spend=SpendCaps(monthly_cost=1))
    llm = FunctionLLM(lambda _: "Hi.")
    with pytest.raises(ConfigurationError, match="the model other has no prices"):
        create_agent(llm, [], Memory(tmp_path), options, models={"other": NamedModel(llm)})


async def test_a_library_hears_of_it_as_an_error(tmp_path: Path) -> None:
    async with running_agent(tmp_path, lambda _: uses(ROOM), spend=A_CALL) as agent:
        await agent.ask("First")
        with pytest.raises(BudgetError) as refused:
            await agent.ask("Second")
    assert "daily cap" in refused.value.title
