"""Who summarises what is old: the model, the built-in rules where it cannot, or nobody."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from service.agent.agent_settings import options_from_settings
from service.config import load_settings
from service.domain.conversation.messages import Message, TextPart
from service.domain.conversation.stream_parts import StreamPart, TextDelta, TokenUsage
from service.domain.errors import LLMConnectionError, LLMContextError
from service.domain.history.events import (
    RunLoopFailed,
)
from service.loop.context.model_context import messages_tokens
from service.loop.execution import Loop
from service.loop.hooks.hooks import Hooks
from service.tuning import COMPACT_AT_ONCE
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    running_agent,
    sent,
    types,
)
from tests.support.agent.compacting import (
    LIMIT,
    all_events,
    conversation,
    finished,
    is_request,
    talks,
)
from tests.support.agent.conversations import WORDS

pytestmark = pytest.mark.anyio


async def test_where_the_model_fails_the_house_summarises_and_says_so(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            return [LLMConnectionError("nobody listens there")]
        return talks(messages)

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT) as agent:
        loop_id, last = await conversation(agent, 5)
        events = await all_events(agent, loop_id)
        assert {each.method for each in finished(events)} == {"extract"}
        assert all(each.tokens_after < LIMIT for each in finished(events))
        problems = [e.body.problem for e in events if e.body.type == "error"]
        assert problems
        assert "nobody listens there" in problems[0].in_words()
        assert last[-1].type == "run_loop.idle"
        assert "Answer to Question 0" in llm.calls[-1][2].notes


@pytest.mark.slow
async def test_a_model_that_cannot_be_reached_is_not_asked_for_each_of_many_rounds(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, talks, context_tokens=100_000) as agent:
        loop_id, _ = await conversation(agent, 20)
    tried = 0

    def respond(messages: Sequence[Message]) -> Answer:
        nonlocal tried
        if is_request(messages):
            tried += 1
            return [LLMConnectionError("nobody listens there")]
        return talks(messages)

    # The same loop with a model of a smaller window: much is to be summarised at once.
    async with running_agent(tmp_path, respond, context_tokens=LIMIT) as agent:
        events = await sent(agent, "And now?", loop_id)
        assert finished(events)[0].messages > 30
        assert 1 <= tried <= COMPACT_AT_ONCE
        assert types(events).count("error") == 1
        assert events[-1].type == "run_loop.idle"


async def test_a_failure_of_the_model_that_passes_is_retried(tmp_path: Path) -> None:
    failed = False

    def respond(messages: Sequence[Message]) -> Answer:
        nonlocal failed
        if is_request(messages) and not failed:
            failed = True
            error = LLMConnectionError("gone for a moment")
            error.retry_after = 0.0
            return [error]
        return talks(messages)

    async with running_agent(tmp_path, respond, context_tokens=LIMIT, max_retries=2) as agent:
        loop_id, _ = await conversation(agent, 5)
        events = await all_events(agent, loop_id)
        assert "llm.retry" in types(events)
        assert {each.method for each in finished(events)} == {"model"}


class Discreet(Hooks):
    """Lets no code word out of the house."""

    async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
        return [Message(role=m.role, content=(TextPart(text=_masked(m.text)),)) for m in messages]


def _masked(text: str) -> str:
    return text.replace("fox", "***")


async def test_the_owners_hooks_see_what_is_given_away_to_be_summarised(tmp_path: Path) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT, hooks=[Discreet()]) as agent:
        await conversation(agent, 5)
        asked = [messages for messages in llm.calls if is_request(messages)]
        assert asked
        assert not any("fox" in message.text for messages in asked for message in messages)


async def test_without_a_model_for_it_rounds_are_shortened_by_rules(tmp_path: Path) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT, compaction="extract") as agent:
        loop_id, _ = await conversation(agent, 5)
        assert {e.method for e in finished(await all_events(agent, loop_id))} == {"extract"}
        assert not any(map(is_request, llm.calls))


@pytest.mark.parametrize(
    ("provider", "chosen", "meant"),
    [
        ("openai", "auto", "model"),
        ("embedded", "auto", "extract"),
        ("embedded", "model", "model"),
        ("openai", "off", "off"),
    ],
)
def test_auto_is_the_model_but_not_the_embedded_one(
    provider: str, chosen: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDO_LLM__PROVIDER", provider)
    monkeypatch.setenv("RONDO_AGENT__COMPACTION", chosen)
    assert options_from_settings(load_settings()).compaction == meant


class SmallWindow(FunctionLLM):
    """Refuses what is longer than its window, which is not the one that it reports."""

    def __init__(self, window: int) -> None:
        super().__init__(self._respond)
        self.window = window
        self.refused = 0

    def _respond(self, messages: Sequence[Message]) -> Answer:
        if messages_tokens(messages) > self.window:
            self.refused += 1
            return [LLMContextError("the maximum context length is exceeded")]
        return talks(messages)


async def test_a_call_that_the_endpoint_refuses_as_too_long_is_compacted_and_made_again(
    tmp_path: Path,
) -> None:
    llm = SmallWindow(2000)
    async with running_agent(tmp_path, llm) as agent:
        loop_id, last = await conversation(agent, 8)
        assert llm.refused
        events = await all_events(agent, loop_id)
        assert finished(events)
        assert "run_loop.failed" not in types(events)
        assert last[-1].type == "run_loop.idle"


async def test_what_is_too_long_even_so_fails_in_words_and_does_not_go_round(
    tmp_path: Path,
) -> None:
    llm = SmallWindow(10)
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Hello")
        failure = events[-1].body
        assert isinstance(failure, RunLoopFailed)
        assert "llm.context_tokens" in failure.problem.in_words()
        assert llm.refused == 2


async def test_with_compaction_off_what_does_not_fit_is_left_out_with_a_notice(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(
        tmp_path, llm, compaction="off", context_tokens=500, answer_tokens=4500
    ) as agent:
        loop_id, _ = await conversation(agent, 8)
        assert not finished(await all_events(agent, loop_id))
        assert "left out" in llm.calls[-1][1].notes
        assert llm.calls[-1][-1].text.startswith("Question 7")
    refusing = SmallWindow(10)
    async with running_agent(tmp_path, refusing, compaction="off") as agent:
        events = await sent(agent, "Hello")
        failure = events[-1].body
        assert isinstance(failure, RunLoopFailed)
        assert "agent.compaction" in failure.problem.in_words()
        assert refusing.refused == 1


async def test_what_the_endpoint_counts_goes_before_our_estimate(tmp_path: Path) -> None:
    def counting(tokens: int) -> FunctionLLM:
        def respond(messages: Sequence[Message]) -> Answer:
            if is_request(messages):
                return "Short."
            parts: list[StreamPart] = [TextDelta("Yes. " + WORDS * 10)]
            return [*parts, TokenUsage("m", input_tokens=tokens, output_tokens=10)]

        return FunctionLLM(respond)

    dear, cheap = tmp_path / "dear", tmp_path / "cheap"
    async with running_agent(dear, counting(5000), context_tokens=4500) as agent:
        loop_id, _ = await conversation(agent, 3)
        assert finished(await all_events(agent, loop_id))
    async with running_agent(cheap, counting(50), context_tokens=900) as agent:
        loop_id, _ = await conversation(agent, 3)
        assert not finished(await all_events(agent, loop_id))
