"""The router: where a message belongs, decided by what is sure first, always with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import anyio
import numpy as np
import pytest

from service.agent.llm.protocol import LLMStatus
from service.agent.router import Router
from service.domain.errors import LLMConnectionError
from service.domain.events import (
    EventBody,
    IterationStarted,
    MessageCompleted,
    RunLoopCompleted,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.fold import evolve, fold
from service.domain.messages import Message
from service.domain.state import RunLoopState
from service.domain.stream import StreamPart, TextDelta
from service.domain.tools import ToolDefinition
from service.memory.protocol import Vectors
from tests.histories import BEGINNING, event_at, received

pytestmark = pytest.mark.anyio

NOW = BEGINNING + timedelta(seconds=30)


def loop(run_loop_id: str, goal: str, answer: str = "Fine.") -> RunLoopState:
    bodies: tuple[EventBody, ...] = (
        RunLoopStarted(goal=goal),
        received(goal),
        IterationStarted(index=0),
        MessageCompleted(message=Message.assistant(answer)),
        RunLoopIdle(),
    )
    state = fold(
        event_at(seq, body, run_loop_id=run_loop_id) for seq, body in enumerate(bodies, start=1)
    )
    assert state is not None
    return state


LISBON = loop("lisbon", "plan a weekend in Lisbon")
INVOICE = loop("invoice", "file the invoice of the plumber")


class Judge:
    """A model that gives a fixed judgement, and remembers what it was asked."""

    model = "judge"
    context_tokens = 8192

    def __init__(self, answer: str | Exception, *, ready: bool = True, hangs: bool = False) -> None:
        self.answer = answer
        self.ready = ready
        self.hangs = hangs
        self.schemas: list[dict[str, Any] | None] = []
        self.asked: list[str] = []

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        self.schemas.append(response_schema)
        self.asked.append(messages[-1].text)
        if self.hangs:
            await anyio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        yield TextDelta(self.answer)

    async def warm_up(
        self, opening: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        pass

    def status(self) -> LLMStatus:
        return LLMStatus(ready=self.ready, detail="")

    async def aclose(self) -> None:
        pass


def embedding(cosines: dict[str, float]) -> Callable[[Sequence[str]], Awaitable[Vectors | None]]:
    """An embedder under which a text has this cosine to the message, whose text is ``?``."""

    async def embed(texts: Sequence[str]) -> Vectors | None:
        rows = []
        for text in texts:
            cosine = 1.0 if text == "?" else cosines.get(text, 0.0)
            rows.append([cosine, (1 - cosine**2) ** 0.5])
        return np.asarray(rows, dtype=np.float32)

    return embed


async def no_embedder(texts: Sequence[str]) -> Vectors | None:
    return None


NEAR = embedding({LISBON.goal: 0.97, INVOICE.goal: 0.7})
FAR = embedding({LISBON.goal: 0.5, INVOICE.goal: 0.4})
BETWEEN = embedding({LISBON.goal: 0.82, INVOICE.goal: 0.81})


async def test_a_named_active_loop_is_joined() -> None:
    route = await Router(Judge("{}"), no_embedder).route(
        "?", active=[LISBON, INVOICE], now=NOW, requested=INVOICE
    )
    assert (route.decision, route.run_loop_id, route.method) == ("join", "invoice", "explicit")


async def test_a_named_finished_loop_becomes_the_predecessor_of_a_new_one() -> None:
    done = evolve(INVOICE, event_at(9, RunLoopCompleted(), run_loop_id="invoice"))
    route = await Router(Judge("{}"), no_embedder).route(
        "?", active=[LISBON], now=NOW, requested=done
    )
    assert (route.decision, route.predecessor_id) == ("new", "invoice")


async def test_with_nothing_active_a_message_opens_a_loop_and_no_model_is_asked() -> None:
    judge = Judge("{}")
    route = await Router(judge, NEAR).route("?", active=[], now=NOW)
    assert route.decision == "new"
    assert judge.asked == []


async def test_what_is_clearly_near_is_joined_without_asking_the_model() -> None:
    judge = Judge("{}")
    route = await Router(judge, NEAR).route("?", active=[INVOICE, LISBON], now=NOW)
    assert (route.run_loop_id, route.method) == ("lisbon", "embedding")
    assert "Lisbon" in route.reason
    assert [c.run_loop_id for c in route.candidates] == ["lisbon", "invoice"]
    assert judge.asked == []


async def test_what_is_clearly_far_opens_a_loop_without_asking_the_model() -> None:
    judge = Judge("{}")
    route = await Router(judge, FAR).route("?", active=[INVOICE, LISBON], now=NOW)
    assert (route.decision, route.method) == ("new", "embedding")
    assert judge.asked == []


async def test_what_is_unclear_is_judged_by_the_model_from_labels_that_describe() -> None:
    judge = Judge('{"continues": "file the invoice of the plumber"}')
    route = await Router(judge, BETWEEN).route("?", active=[INVOICE, LISBON], now=NOW)
    assert (route.run_loop_id, route.method) == ("invoice", "llm")
    schema = judge.schemas[0]
    assert schema is not None
    assert set(schema["properties"]["continues"]["enum"]) == {
        LISBON.goal,
        INVOICE.goal,
        "a new matter",
    }
    assert "Fine." in judge.asked[0]


async def test_the_model_may_judge_that_it_is_a_new_matter() -> None:
    judge = Judge('{"continues": "a new matter"}')
    route = await Router(judge, BETWEEN).route("?", active=[INVOICE, LISBON], now=NOW)
    assert (route.decision, route.method) == ("new", "llm")


async def test_two_loops_of_the_same_goal_can_be_told_apart() -> None:
    twin = loop("twin", LISBON.goal, "Another answer.")
    judge = Judge('{"continues": "plan a weekend in Lisbon (2)"}')
    route = await Router(judge, no_embedder).route("?", active=[LISBON, twin], now=NOW)
    assert route.run_loop_id == "twin"


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (Judge(LLMConnectionError("gone")), "cannot be reached"),
        (Judge("no JSON"), "could not say"),
        (Judge('{"continues": "something else"}'), "could not say"),
        (Judge("{}", ready=False), "not ready"),
        (Judge("{}", hangs=True), "did not answer within"),
    ],
)
async def test_a_model_that_cannot_judge_leaves_it_to_the_fallback_which_says_why(
    judge: Judge, why: str
) -> None:
    router = Router(judge, BETWEEN, llm_timeout_seconds=0.05)
    route = await router.route("?", active=[INVOICE, LISBON], now=NOW)
    assert route.method == "fallback"
    assert why in route.reason


async def test_without_embedder_and_model_a_lone_fresh_loop_is_joined_and_an_old_one_is_not() -> (
    None
):
    router = Router(Judge(LLMConnectionError("gone")), no_embedder)
    fresh = await router.route("?", active=[LISBON], now=NOW)
    assert (fresh.decision, fresh.method) == ("join", "fallback")
    old = await router.route("?", active=[LISBON], now=NOW + timedelta(hours=1))
    assert old.decision == "new"


async def test_without_classifying_every_message_opens_a_loop() -> None:
    router = Router(Judge("{}"), NEAR, auto_classify=False)
    route = await router.route("?", active=[LISBON], now=NOW)
    assert route.decision == "new"
    assert "auto_classify" in route.reason


async def test_a_turn_is_embedded_once() -> None:
    embedded: list[str] = []

    async def embed(texts: Sequence[str]) -> Vectors | None:
        embedded.extend(texts)
        return await NEAR(texts)

    router = Router(Judge("{}"), embed)
    for _ in range(3):
        await router.route("?", active=[LISBON, INVOICE], now=NOW)
    assert sorted(embedded) == sorted({"?", LISBON.goal, INVOICE.goal, "Fine."})
