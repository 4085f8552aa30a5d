"""The router within an agent: two messages at once, loops that end meanwhile, what is shared."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import Event, RouteDecided
from service.domain.routes import Route
from service.memory.embedders.query_cache import QueryCache
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.protocol import Embedded, Vectors
from service.routing.router import Router
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import FunctionLLM, echo, running_agent, sent, until

pytestmark = pytest.mark.anyio

ALWAYS_ASKED = RouterOptions(sure_above=1)


class Judging(FunctionLLM):
    """Echoes, and judges by the first of the offered labels, once it is let."""

    def __init__(self) -> None:
        super().__init__(echo)
        self.gate = anyio.Event()
        self.offers: list[list[str]] = []

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        if response_schema is None:
            async for part in super().stream(messages, tools=tools):
                yield part
            return
        offered = response_schema["properties"]["continues"]["enum"]
        self.offers.append(offered)
        await self.gate.wait()
        yield TextDelta(json.dumps({"continues": offered[0]}))


def route_of(events: Sequence[Event]) -> Route:
    return next(each.body.route for each in events if isinstance(each.body, RouteDecided))


async def routed(agent: Agent, message_id: str) -> Route:
    """The route of a message that was accepted, read from the journal's events."""
    with agent.reader() as reader, anyio.fail_after(10):
        events = [each async for each in agent.follow(message_id, reader=reader)]
    return next(
        each.body.route
        for each in events
        if isinstance(each.body, RouteDecided) and each.body.message_id == message_id
    )


async def test_a_loop_that_ends_while_it_is_being_chosen_is_not_chosen_again(
    tmp_path: Path,
) -> None:
    llm = Judging()
    async with running_agent(tmp_path, llm, router=ALWAYS_ASKED) as agent:
        ending = (await sent(agent, "Cook dinner."))[0].run_loop_id
        receipt = await agent.accept("And a dessert?")
        await until(lambda: llm.offers)
        await agent.complete(ending)
        llm.gate.set()
        route = await routed(agent, receipt.message_id)
        assert llm.offers == [["Cook dinner.", "a new matter"]]
        assert (route.decision, route.candidates) == ("new", ())
        # What it took to choose first is told, too.
        assert route.latency_ms is not None
        assert "chosen first had ended meanwhile" in route.reason
        assert (await agent.run_loop(ending)).iterations[-1].user_message == "Cook dinner."


async def test_when_a_loop_ends_while_it_is_being_chosen_the_others_are_weighed_again(
    tmp_path: Path,
) -> None:
    llm = Judging()
    llm.gate.set()
    async with running_agent(tmp_path, llm, router=ALWAYS_ASKED) as agent:
        ending = (await sent(agent, "Please find a hotel in Bonn."))[0].run_loop_id
        staying = (await sent(agent, "Explain photosynthesis.", "new"))[0].run_loop_id
        llm.gate, llm.offers = anyio.Event(), []
        receipt = await agent.accept("And a quiet hotel in Bonn?")
        await until(lambda: llm.offers)
        await agent.complete(ending)
        llm.gate.set()
        route = await routed(agent, receipt.message_id)
        assert [each.run_loop_id for each in route.candidates] == [staying]


async def test_of_two_messages_at_once_the_second_sees_the_loop_of_the_first(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, router=RouterOptions(sure_above=0)) as agent:
        first = await agent.accept("Please find a hotel in Bonn for Friday.")
        second = await agent.accept("Hello, I'd like to learn how to juggle.")
        opened = await routed(agent, first.message_id)
        weighed = await routed(agent, second.message_id)
        assert opened.candidates == ()
        assert [each.goal for each in weighed.candidates] == [
            "Please find a hotel in Bonn for Friday."
        ]


async def test_the_whole_decision_is_journaled(tmp_path: Path) -> None:
    llm = Judging()
    llm.gate.set()
    async with running_agent(tmp_path, llm, router=ALWAYS_ASKED) as agent:
        await sent(agent, "Cook dinner.")
        events = await sent(agent, "And a dessert?")
        route = route_of(events)
        assert route.method == "llm"
        assert [each.goal for each in route.candidates] == ["Cook dinner."]
        assert route.new_probability is not None
        assert route.latency_ms is not None
        used = [each.body.purpose for each in events if each.body.type == "usage"]
        assert used == ["routing", "answer"]


@pytest.mark.slow
async def test_the_router_keeps_no_words_once_some_were_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[bool] = []
    own = Router.clear

    def watched(router: Router) -> None:
        cleared.append(True)
        own(router)

    monkeypatch.setattr(Router, "clear", watched)
    async with running_agent(tmp_path) as agent:
        run_loop_id = (await sent(agent, "Cook dinner."))[0].run_loop_id
        await agent.complete(run_loop_id)
        request = ForgetRequest(run_loop_ids=(run_loop_id,))
        preview = await agent.preview_forgetting(request)
        await agent.forget(request, preview.confirm or "")
        assert cleared


class _Counting(SentenceTransformerEmbedder):
    def __init__(self) -> None:
        super().__init__("bundled:multilingual-e5-small", quick_start=False)
        self.questions: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.questions += texts
        return super().embed_queries(texts)

    def embed_queries_by_token(self, texts: Sequence[str]) -> Embedded:
        self.questions += texts
        return super().embed_queries_by_token(texts)


@pytest.mark.slow
async def test_no_message_is_embedded_twice_for_routing_recall_and_search(tmp_path: Path) -> None:
    embedder = _Counting()
    long = "Please look for a hotel in Bonn. " + "It shall be quiet and near the river. " * 15
    async with running_agent(tmp_path, embedder=QueryCache(embedder)) as agent:
        for text in (long, "And with breakfast?", "Hello, I'd like to learn how to juggle."):
            route = route_of(await sent(agent, text))
        assert route.method in ("embedding", "fallback")
        assert route.latency_ms is not None
        assert long.strip() in embedder.questions
        assert len(embedder.questions) == len(set(embedder.questions))
