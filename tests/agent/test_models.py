"""A message names the model that answers it; one that is down has its work done by another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.agent_options import AgentOptions
from service.agent.agent_settings import models_from_settings
from service.config import load_settings
from service.domain.conversation.messages import ImageUrlPart, Message, TextPart
from service.domain.conversation.stream_parts import StreamPart, TextDelta, TokenUsage
from service.domain.errors import (
    ConfigurationError,
    InvalidInputError,
    LLMConnectionError,
    LLMContextError,
    LLMError,
    LLMStatusError,
    LLMTimeoutError,
    RondoError,
)
from service.domain.history.events import Event, LLMFallback, LLMRetry, Usage
from service.domain.history.fold import fold
from service.domain.usage import Prices
from service.llm.named_models import Models, NamedModel
from service.llm.protocol import LLMStatus
from service.memory.memory import Memory
from service.tools.builtins.ask_user import ask_user
from service.tools.registry import ToolRegistry
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    Respond,
    answer_of,
    running_agent,
    sending,
    sent,
    types,
    until,
)
from tests.support.agent.waiting import asked, tool_call, wanting

pytestmark = pytest.mark.anyio


def says(words: str) -> Respond:
    def respond(messages: Sequence[Message]) -> Answer:
        return f"{words}: {messages[-1].text}"

    return respond


def fails(error: Exception, *before: StreamPart) -> Respond:
    def respond(messages: Sequence[Message]) -> Answer:
        return [*before, error]

    return respond


def model(respond: Respond, **options: object) -> NamedModel:
    return NamedModel(FunctionLLM(respond), max_retries=0, **options)  # type: ignore[arg-type]


def fallbacks(events: Sequence[Event]) -> list[tuple[str, str, str]]:
    bodies = [event.body for event in events]
    return [
        (body.model, body.fallback, body.problem.kind)
        for body in bodies
        if isinstance(body, LLMFallback)
    ]


DOWN = LLMConnectionError("nothing listens at 127.0.0.1:9")


async def test_a_message_is_answered_by_the_model_that_it_names(tmp_path: Path) -> None:
    models = {"large": model(says("Large"))}
    async with running_agent(tmp_path, says("Default"), models=models) as agent:
        assert answer_of(await sent(agent, "Hello", "new")) == "Default: Hello"
        assert answer_of(await sent(agent, "Hello", "new", model="large")) == "Large: Hello"
        assert answer_of(await sent(agent, "Hello", "new", model="default")) == "Default: Hello"


async def test_a_run_loop_stays_with_the_model_until_a_message_names_another(
    tmp_path: Path,
) -> None:
    models = {"large": model(says("Large")), "small": model(says("Small"))}
    async with running_agent(tmp_path, says("Default"), models=models) as agent:
        first = await sent(agent, "one", "new", model="large")
        loop_id = first[0].run_loop_id
        assert answer_of(await sent(agent, "two", loop_id)) == "Large: two"
        assert answer_of(await sent(agent, "three", loop_id, model="small")) == "Small: three"
        assert answer_of(await sent(agent, "four", loop_id, model="default")) == "Default: four"
        assert fold(await agent.memory.journal.read(run_loop_id=loop_id)) == await agent.replay(
            loop_id
        )
    # The choice is in the journal: it outlives the daemon.
    async with running_agent(tmp_path, says("Default"), models=models) as agent:
        await sent(agent, "five", loop_id, model="small")
    async with running_agent(tmp_path, says("Default"), models=models) as agent:
        assert answer_of(await sent(agent, "six", loop_id)) == "Small: six"


async def test_a_follow_up_that_names_a_model_does_not_change_the_answer_before_it(
    tmp_path: Path,
) -> None:
    held = anyio.Event()

    def slowly(messages: Sequence[Message]) -> Answer:
        return [held, TextDelta(f"Default: {messages[-1].text}")]

    models = {"large": model(says("Large"))}
    async with (
        running_agent(tmp_path, slowly, models=models) as agent,
        sending(agent, "one", "new") as events,
    ):
        await until(lambda: "iteration.started" in types(events))
        loop_id = events[0].run_loop_id
        assert (await agent.replay(loop_id)).next_model is None
        async with sending(agent, "two", loop_id, mode="followup", model="large") as later:
            await until(lambda: agent.memory.short_term.state(loop_id).unseen)  # type: ignore[union-attr]
            assert (await agent.replay(loop_id)).next_model is None
            held.set()
        loop = await agent.run_loop(loop_id)
    assert [each.response for each in loop.iterations] == ["Default: one", "Large: two"]
    assert answer_of(later) == "Large: two"


async def test_a_name_that_no_model_has_is_refused_before_the_message_is_accepted(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, models={"large": model(says("Large"))}) as agent:
        with pytest.raises(InvalidInputError, match="no model 'lrage'") as caught:
            await sent(agent, "Hello", model="lrage")
        assert "default, large" in caught.value.advice
        assert await agent.memory.journal.inbox.undelivered() == []
        assert agent.memory.short_term.states() == []


async def test_an_answer_to_a_question_can_name_a_model_too(tmp_path: Path) -> None:
    wants = wanting(tool_call("ask_user", question="What is your name?"))
    models = {"large": model(says("Large"))}
    async with running_agent(tmp_path, wants, ask_user, models=models) as agent:
        loop_id = await asked(agent)
        assert answer_of(await sent(agent, "Ada", loop_id, model="large")) == "Large: Ada"
        assert (await agent.replay(loop_id)).model == "large"


@pytest.mark.parametrize(
    "error",
    [
        DOWN,
        LLMTimeoutError("120 s without a word"),
        LLMStatusError(503, "overloaded"),
        LLMStatusError(401, "bad key"),
        LLMStatusError(429, "quota", retry_after=4000),
    ],
    ids=lambda error: str(getattr(error, "status", error.kind)),
)
async def test_while_a_model_is_down_its_fallback_answers_and_the_person_is_told(
    tmp_path: Path, error: LLMError
) -> None:
    models = {"spare": model(says("Spare"))}
    async with running_agent(tmp_path, fails(error), models=models, fallback=("spare",)) as agent:
        events = await sent(agent, "Hello", "new")
        assert answer_of(events) == "Spare: Hello"
        assert fallbacks(events) == [("default", "spare", error.kind)]
        assert events[-1].type == "run_loop.idle"
        loop_id = events[0].run_loop_id
        assert fold(await agent.memory.journal.read(run_loop_id=loop_id)) == await agent.replay(
            loop_id
        )


async def test_words_of_the_model_that_broke_off_are_dropped(tmp_path: Path) -> None:
    models = {"spare": model(says("Spare"))}
    half = fails(DOWN, TextDelta("The half of an ans"))
    async with running_agent(tmp_path, half, models=models, fallback=("spare",)) as agent:
        events = await sent(agent, "Hello", "new")
        kinds = [event.type for event in events]
        assert kinds.index("message.delta") < kinds.index("llm.fallback")
        assert answer_of(events) == "Spare: Hello"
        loop = await agent.run_loop(events[0].run_loop_id)
        assert [each.response for each in loop.iterations] == ["Spare: Hello"]


@pytest.mark.slow
async def test_one_that_is_down_is_not_asked_again_at_once(tmp_path: Path) -> None:
    now = 0.0
    down = FunctionLLM(fails(DOWN))
    default = NamedModel(down, fallback=("spare",))
    models = Models(default, {"spare": model(says("Spare"))}, clock=lambda: now)
    async with Agent(models, ToolRegistry(), Memory(tmp_path), AgentOptions(), None, {}) as agent:
        await sent(agent, "one", "new")
        # Once more, as it may have been a moment's failure; not as often as without a fallback.
        assert len(down.calls) == 2
        events = await sent(agent, "two", "new")
        assert len(down.calls) == 2
        assert fallbacks(events) == [("default", "spare", "llm-connection")]
        now = 60.0
        down.respond = says("Up again")
        events = await sent(agent, "three", "new")
        assert (answer_of(events), fallbacks(events)) == ("Up again: three", [])


async def test_fallbacks_are_asked_in_order_and_when_all_are_down_the_loop_fails_in_words(
    tmp_path: Path,
) -> None:
    models = {"first": model(fails(DOWN)), "second": model(says("Second"))}
    names = ("first", "second")
    async with running_agent(tmp_path, fails(DOWN), models=models, fallback=names) as agent:
        events = await sent(agent, "Hello", "new")
        assert answer_of(events) == "Second: Hello"
        expected = [("default", "first", DOWN.kind), ("first", "second", DOWN.kind)]
        assert fallbacks(events) == expected
        spare = models["second"].llm
        assert isinstance(spare, FunctionLLM)
        spare.respond = fails(LLMStatusError(500, "it is broken"))
        failed = (await sent(agent, "And now?", "new"))[-1]
        assert failed.type == "run_loop.failed"
        # All are down: in the next message's turn all are asked again, in their order.
        again = await sent(agent, "And now?", "new")
        assert fallbacks(again) == expected


async def test_what_the_request_itself_is_refused_for_goes_to_no_fallback(tmp_path: Path) -> None:
    models = {"spare": model(says("Spare"))}
    refused = fails(LLMStatusError(400, "this cannot be answered"))
    async with running_agent(tmp_path, refused, models=models, fallback=("spare",)) as agent:
        events = await sent(agent, "Hello", "new")
        assert events[-1].type == "run_loop.failed"
        assert fallbacks(events) == []


async def test_a_conversation_that_is_too_long_is_summarised_and_not_given_to_the_fallback(
    tmp_path: Path,
) -> None:
    models = {"spare": model(says("Spare"))}
    too_long = fails(LLMContextError("8,192 tokens at most"))
    async with running_agent(tmp_path, too_long, models=models, fallback=("spare",)) as agent:
        events = await sent(agent, "Hello", "new")
        assert fallbacks(events) == []


async def test_a_fallback_with_a_small_window_is_given_what_fits(tmp_path: Path) -> None:
    small = FunctionLLM(says("Spare"))
    small.context_tokens = 600
    models = {"spare": NamedModel(small, answer_tokens=100, max_retries=0)}
    default = FunctionLLM(says("Default"))
    async with running_agent(
        tmp_path, default, models=models, fallback=("spare",), compaction="off"
    ) as agent:
        loop_id = (await sent(agent, "The beginning. " + "word " * 900, "new"))[0].run_loop_id
        default.respond = fails(DOWN)
        assert answer_of(await sent(agent, "And now?", loop_id)) == "Spare: And now?"
        assert "The beginning." in "".join(each.text for each in default.calls[-1])
        assert "The beginning." not in "".join(each.text for each in small.calls[-1])


async def test_each_model_has_its_own_price(tmp_path: Path) -> None:
    def used(messages: Sequence[Message]) -> Answer:
        return [TextDelta("x"), TokenUsage("m", input_tokens=1000, output_tokens=0)]

    large = model(used, prices=Prices(input=10, output=10))
    async with running_agent(
        tmp_path, used, models={"large": large}, prices=Prices(input=1, output=1)
    ) as agent:
        costs = []
        for name in (None, "large"):
            events = await sent(agent, "Hello", "new", model=name)
            costs += [e.body.cost for e in events if isinstance(e.body, Usage)]
        assert costs == [0.001, 0.01]


async def test_a_fallback_that_sees_no_images_says_so(tmp_path: Path) -> None:
    blind = FunctionLLM(says("Spare"))
    blind.takes_images = False  # type: ignore[attr-defined]
    picture = ImageUrlPart(url="data:image/png;base64,iVBORw0KGgo=")
    message = Message(role="user", content=(TextPart(text="what?"), picture))
    models = {"spare": NamedModel(blind, max_retries=0)}
    async with running_agent(tmp_path, fails(DOWN), models=models, fallback=("spare",)) as agent:
        events = [event async for event in agent.send(message, "new")]
        assert "images-not-shown" in [
            event.body.problem.kind for event in events if event.body.type == "error"
        ]


async def test_a_model_that_is_configured_no_more_is_told_and_the_default_one_answers(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, models={"large": model(says("Large"))}) as agent:
        loop_id = (await sent(agent, "one", "new", model="large"))[0].run_loop_id
    async with running_agent(tmp_path, says("Default")) as agent:
        events = await sent(agent, "two", loop_id)
        assert answer_of(events) == "Default: two"
        assert fallbacks(events) == [("large", "default", "model-not-configured")]
    spare = {"spare": model(says("Spare"))}
    async with running_agent(tmp_path, fails(DOWN), models=spare, fallback=("spare",)) as agent:
        assert answer_of(await sent(agent, "three", loop_id)) == "Spare: three"


async def test_a_moved_message_takes_its_model_along(tmp_path: Path) -> None:
    models = {"large": model(says("Large"))}
    async with running_agent(tmp_path, says("Default"), models=models) as agent:
        here = (await sent(agent, "one", "new"))[0].run_loop_id
        events = await sent(agent, "two", here, model="large")
        message_id = next(e.body.message_id for e in events if e.body.type == "message.received")
        moved = await agent.reroute(here, message_id=message_id)
        assert (await agent.replay(moved.run_loop.id)).model == "large"
        assert answer_of(await sent(agent, "three", moved.run_loop.id)) == "Large: three"


async def test_a_retry_is_told_before_a_fallback_is_asked(tmp_path: Path) -> None:
    models = {"spare": model(says("Spare"))}
    async with running_agent(
        tmp_path, fails(DOWN), models=models, fallback=("spare",), max_retries=3
    ) as agent:
        events = await sent(agent, "Hello", "new")
        bodies = [e.body for e in events if isinstance(e.body, LLMRetry | LLMFallback)]
        assert [each.type for each in bodies] == ["llm.retry", "llm.fallback"]


@pytest.mark.parametrize("fallback", ["nobody", "default"])
def test_a_fallback_that_is_no_other_model_is_refused_at_the_start(fallback: str) -> None:
    with pytest.raises(ConfigurationError, match=fallback):
        Models(model(says("Default"), fallback=(fallback,)), {})
    with pytest.raises(ConfigurationError, match="no other model can be called default"):
        Models(model(says("Default")), {"default": model(says("Other"))})


def test_it_is_ready_while_a_fallback_is() -> None:
    class Asleep(FunctionLLM):
        def status(self) -> LLMStatus:
            return LLMStatus(False, "It sleeps.")

    asleep = NamedModel(Asleep(says("-")), fallback=("spare",))
    assert Models(asleep, {"spare": model(says("Spare"))}).status().ready
    assert not Models(asleep, {"spare": NamedModel(Asleep(says("-")))}).status().ready


@pytest.mark.slow
async def test_the_advice_on_a_named_model_names_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDO_MODELS__RED__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RONDO_MODELS__SAME__MODEL", "another")
    monkeypatch.setenv("RONDO_LLM__BASE_URL", "http://127.0.0.1:9/v1")
    models = models_from_settings(load_settings())
    async with running_agent(tmp_path, models=models, max_retries=0) as agent:
        for name, setting in (("red", "RONDO_MODELS__RED__BASE_URL"), ("same", "RONDO_LLM__")):
            with pytest.raises(RondoError) as raised:
                await agent.ask("Hello", "new", model=name)
            assert setting in raised.value.advice
