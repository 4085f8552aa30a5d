"""What a run loop uses is counted, priced, and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from service.agent.agent import Agent
from service.agent.agent_options import AgentOptions
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta, ThinkDelta, TokenUsage
from service.domain.errors import ConfigurationError
from service.domain.history.events import Event, RunLoopFailed, Usage
from service.domain.usage import Prices
from service.loop.brain import Limits
from service.routing.routing_options import RouterOptions
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

PRICES = Prices(input=2.0, output=8.0, cached_input=0.5)


@tool(effect="read_only")
async def look() -> str:
    """Look."""
    return "a cat"


def used(events: Sequence[Event]) -> list[Usage]:
    return [event.body for event in events if isinstance(event.body, Usage)]


def reports(tokens_in: int, tokens_out: int, cached: int = 0) -> TokenUsage:
    return TokenUsage("m", tokens_in, tokens_out, cached)


async def test_each_call_tells_what_it_used_and_what_it_cost(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return [TextDelta("A cat."), reports(1500, 20, cached=1000)]
        return [call("look"), reports(1000, 50)]

    async with running_agent(tmp_path, respond, look, prices=PRICES) as agent:
        events = await sent(agent, "Look!")
        first, second = used(events)
        assert (first.model, first.purpose, first.estimated) == ("m", "answer", False)
        assert (first.input_tokens, first.output_tokens) == (1000, 50)
        assert first.cost == pytest.approx((1000 * 2.0 + 50 * 8.0) / 1e6)
        assert second.cached_input_tokens == 1000
        assert second.cost == pytest.approx((500 * 2.0 + 1000 * 0.5 + 20 * 8.0) / 1e6)
        state = await agent.replay(events[0].run_loop_id)
        assert (state.input_tokens, state.output_tokens) == (2500, 70)
        assert state.cost == pytest.approx((first.cost or 0) + (second.cost or 0))
        total = await agent.memory.journal.usage.total(owner="me")
        assert (total.calls, total.input_tokens) == (2, 2500)
        assert total.cost == pytest.approx(state.cost)


async def test_without_prices_calls_have_no_cost(tmp_path: Path) -> None:
    async with running_agent(tmp_path, lambda _: [TextDelta("Hi."), reports(10, 2)]) as agent:
        (usage,) = used(await sent(agent, "hello"))
    assert usage.cost is None


@pytest.mark.parametrize("report", [[], [reports(0, 0)]], ids=["nothing", "zeros"])
async def test_what_an_endpoint_does_not_report_is_estimated_and_marked(
    tmp_path: Path, report: list[TokenUsage]
) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        return [ThinkDelta("思考" * 100), TextDelta("words " * 100), *report]

    async with running_agent(tmp_path, respond) as agent:
        events = await sent(agent, "x" * 4000)
        (usage,) = used(events)
        state = await agent.replay(events[0].run_loop_id)
    assert usage.estimated
    assert 1000 < usage.input_tokens < 1300  # the words, and a system prompt
    assert usage.output_tokens == 100 * 6 // 4 + 100 * 6 // 4
    assert state.measured_tokens == 0  # nobody has measured


ASKING = RouterOptions(sure_above=1)


class Judge(FunctionLLM):
    """Is asked where messages belong, and answers as told; reports what that used."""

    verdict = '{"continues": "Plan a trip"}'

    async def stream(
        self, messages: Sequence[Message], *, response_schema: Any = None, **options: Any
    ) -> Any:
        if response_schema is None:
            async for part in super().stream(messages, **options):
                yield part
            return
        yield TextDelta(self.verdict)
        yield reports(300, 10)


@pytest.mark.parametrize(
    ("verdict", "joins"), [(Judge.verdict, True), ('{"continues": "a new matter"}', False)]
)
async def test_what_routing_used_is_counted_where_the_message_went(
    tmp_path: Path, verdict: str, joins: bool
) -> None:
    judge = Judge(lambda _: [TextDelta("Yes."), reports(100, 1)])
    judge.verdict = verdict
    async with running_agent(tmp_path, judge, prices=PRICES, router=ASKING) as agent:
        first = await sent(agent, "Plan a trip")
        second = await sent(agent, "and a hotel")
        assert (second[0].run_loop_id == first[0].run_loop_id) is joins
        routing, answer = used(second)
        assert (routing.purpose, routing.input_tokens) == ("routing", 300)
        assert routing.cost == pytest.approx((300 * 2.0 + 10 * 8.0) / 1e6)
        assert answer.purpose == "answer"
        lines = await agent.memory.journal.usage.lines(owner="me", by="purpose")
        assert {line.key: line.calls for line in lines} == {"routing": 1, "answer": 2}


async def test_a_judgement_that_cannot_be_used_was_paid_for_all_the_same(tmp_path: Path) -> None:
    judge = Judge(lambda _: "Yes.")
    judge.verdict = "the first one, I suppose"
    async with running_agent(tmp_path, judge, router=ASKING) as agent:
        await sent(agent, "Plan a trip")
        events = await sent(agent, "and a hotel")
    assert used(events)[0].purpose == "routing"


async def test_a_fork_does_not_pay_again_for_what_it_has_copied(tmp_path: Path) -> None:
    async with running_agent(tmp_path, lambda _: [TextDelta("Hi."), reports(10, 2)]) as agent:
        events = await sent(agent, "hello")
        fork = await agent.fork(events[0].run_loop_id)
        assert (await agent.replay(fork.id)).input_tokens == 0
        assert (await agent.memory.journal.usage.total(owner="me")).calls == 1


# --- budgets


def looks_for_ever(messages: Sequence[Message]) -> Answer:
    return [call("look", f'{{"n": {len(messages)}}}'), reports(100, 10)]


@tool(name="look", effect="read_only")
async def look_at(n: int) -> str:
    """Look."""
    return f"cat {n}"


async def assert_well_formed(agent: Agent, run_loop_id: str) -> None:
    """Each tool call has exactly one result."""
    history = (await agent.replay(run_loop_id)).history
    calls = sum(len(message.tool_calls) for message in history)
    assert calls == sum(message.role == "tool" for message in history)


def budget(events: Sequence[Event]) -> str:
    """The reason why a loop stopped: that its budget is used up."""
    failed = events[-1].body
    assert isinstance(failed, RunLoopFailed)
    assert failed.problem.kind == "budget"
    return failed.problem.detail


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"budget_tokens": 250}, "it has used 330 tokens of 250"),
        # 280 millionths a call: the third one passes half a thousandth and some.
        ({"budget_cost": 0.0006, "prices": PRICES}, "it has cost 0.00084 of 0.0006"),
    ],
    ids=["tokens", "cost"],
)
async def test_a_loop_stops_at_its_budget_and_goes_on_once_that_is_raised(
    tmp_path: Path, limits: dict[str, Any], reason: str
) -> None:
    limits = {"max_iterations": 50, "max_repeated_calls": 50, **limits}
    async with running_agent(tmp_path, looks_for_ever, look_at, **limits) as agent:
        events = await sent(agent, "Look!")
        run_loop_id = events[0].run_loop_id
        assert reason in budget(events)
        # The call that went over it is not cut off, nor what it asked for.
        assert types(events).count("tool.finished") == 3
        await assert_well_formed(agent, run_loop_id)

        # Whoever asks again is told the same again, and pays nothing.
        again = await sent(agent, "And now?", run_loop_id)
        assert reason in budget(again)
        assert used(again) == []
        await assert_well_formed(agent, run_loop_id)

        # It is this loop's budget: another one has its own.
        agent.models.of(None).llm.respond = lambda _: [TextDelta("A new matter."), reports(1, 1)]  # type: ignore[attr-defined]
        assert answer_of(await sent(agent, "Something else")) == "A new matter."

    raised: dict[str, Any] = {
        name: 10**6 if name.startswith("budget") else each for name, each in limits.items()
    }

    def respond(messages: Sequence[Message]) -> Answer:
        return [TextDelta(f"Now I can answer {messages[-1].text}"), reports(1, 1)]

    async with running_agent(tmp_path, respond, look_at, **raised) as agent:
        events = await sent(agent, "and this", run_loop_id)
        assert answer_of(events) == "Now I can answer and this"
        await assert_well_formed(agent, run_loop_id)


async def test_an_answer_that_goes_over_the_budget_is_still_given(tmp_path: Path) -> None:
    answer: Answer = [TextDelta("Long."), reports(1000, 1000)]
    async with running_agent(tmp_path, lambda _: answer, budget_tokens=10) as agent:
        events = await sent(agent, "hello")
        assert types(events)[-1] == "run_loop.idle"
        assert answer_of(events) == "Long."
        # A follow-up finds nothing left.
        assert "2,000 tokens of 10" in budget(await sent(agent, "more", events[0].run_loop_id))


async def test_a_budget_holds_where_the_endpoint_reports_nothing(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        return [call("look", f'{{"n": {len(messages)}}}')]

    options: dict[str, Any] = {
        "max_iterations": 50,
        "max_repeated_calls": 50,
        "budget_tokens": 500,
    }
    async with running_agent(tmp_path, respond, look_at, **options) as agent:
        assert "of 500" in budget(await sent(agent, "Look!"))


def test_a_budget_in_money_needs_prices() -> None:
    with pytest.raises(ConfigurationError, match="no call would cost anything"):
        AgentOptions(limits=Limits(budget_cost=1.0))
