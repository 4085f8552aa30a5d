"""Everyday messages, English and Chinese, with the bundled embedder: where they go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import anyio.to_thread
import pytest

from service.domain.history.state import RunLoopState
from service.memory.embedders.query_cache import QueryCache
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.protocol import Vectors
from service.routing.open_loop_vectors import EmbedQueries, TurnVectors, embedded_text, is_known
from service.routing.router import Router
from service.routing.routing_options import RouterOptions
from tests.support.agent.routing_loops import (
    BERLIN,
    INVOICE,
    LEAVE,
    LISBON,
    NOW,
    SHANGHAI,
    TABLE,
    Judge,
    no_embedder,
)

pytestmark = pytest.mark.anyio

NEW = None


@pytest.fixture(scope="module")
def embedder() -> QueryCache:
    return QueryCache(
        SentenceTransformerEmbedder("bundled:multilingual-e5-small", quick_start=False)
    )


@pytest.fixture(scope="module")
def embed(embedder: QueryCache) -> EmbedQueries:
    async def embedded(texts: Sequence[str]) -> Vectors | None:
        return await anyio.to_thread.run_sync(embedder.embed_queries, texts)

    return embedded


def without_llm(embed: EmbedQueries) -> Router:
    return Router(Judge("{}"), embed, RouterOptions(use_llm=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "active", "right"),
    [
        ("and Beijing?", [LISBON, INVOICE, BERLIN], BERLIN),
        ("And on Sunday?", [LISBON, INVOICE, BERLIN], BERLIN),
        ("Is the Aurora quiet at night?", [BERLIN, LISBON, INVOICE], LISBON),
        ("On the 3rd of March.", [LISBON, INVOICE], INVOICE),
        ("thanks", [LISBON, BERLIN], BERLIN),
        ("Four, including me", [LISBON, INVOICE, TABLE], TABLE),
        ("那北京呢？", [SHANGHAI], SHANGHAI),
        ("再短一点", [LEAVE], LEAVE),
        ("Hi, I'd like to learn how to juggle.", [BERLIN], NEW),
        ("What does 'ephemeral' mean?", [LISBON], NEW),
        ("推荐一部科幻电影", [LEAVE], NEW),
    ],
)
async def test_an_everyday_message_goes_where_it_belongs(
    text: str, active: Sequence[RunLoopState], right: RunLoopState | None, embed: EmbedQueries
) -> None:
    route = await without_llm(embed).route(text, active=active, now=NOW)
    assert route.run_loop_id == (right.id if right else None), route.reason
    assert route.method in ("embedding", "fallback")


async def test_what_rested_for_long_is_not_taken_for_what_was_spoken_of_just_now(
    embed: EmbedQueries,
) -> None:
    router = without_llm(embed)
    text = "And the day after?"
    soon = await router.route(text, active=[BERLIN], now=NOW)
    late = await router.route(text, active=[BERLIN], now=NOW + timedelta(hours=3))
    assert (soon.new_probability or 0) < (late.new_probability or 0)


async def test_the_answer_to_what_a_loop_asked_is_its_answer_hours_later_too(
    embed: EmbedQueries,
) -> None:
    later = NOW + timedelta(hours=3)
    route = await without_llm(embed).route("Four, including me", active=[TABLE], now=later)
    assert route.run_loop_id == "table"


async def test_without_vectors_words_alone_decide_and_the_record_says_so() -> None:
    route = await without_llm(no_embedder).route(
        "Is the Hotel Aurora quiet?", active=[INVOICE, LISBON], now=NOW
    )
    assert (route.run_loop_id, route.method) == ("lisbon", "words")


async def test_only_the_message_is_embedded_once_what_was_said_was_embedded_ahead(
    embed: EmbedQueries,
) -> None:
    embedded: list[str] = []

    async def counting(texts: Sequence[str]) -> Vectors | None:
        embedded.extend(texts)
        return await embed(texts)

    router = without_llm(counting)
    await router.prepare([BERLIN, LISBON])
    assert len(embedded) == 4
    embedded.clear()
    await router.route("and Beijing?", active=[BERLIN, LISBON], now=NOW)
    assert embedded == ["and Beijing?"]
    router.clear()
    await router.prepare([BERLIN, LISBON])
    assert len(embedded) == 5
    assert "and Beijing?" not in embedded[1:]


async def test_vectors_that_were_being_made_while_words_were_forgotten_are_not_kept() -> None:
    asked: list[str] = []

    async def slow(texts: Sequence[str]) -> Vectors | None:
        asked.extend(texts)
        if len(asked) == 1:
            vectors.clear()
        return SentenceTransformerEmbedder(
            "bundled:multilingual-e5-small", quick_start=False
        ).embed_queries(texts)

    vectors = TurnVectors(slow)
    first, _ = await vectors.of_message("my secret", [])
    assert first is not None
    await vectors.of_message("my secret", [])
    await vectors.of_message("my secret", [])
    assert asked == ["my secret", "my secret"]


async def test_of_many_vectors_the_last_ones_are_kept(embed: EmbedQueries) -> None:
    asked: list[str] = []

    async def counting(texts: Sequence[str]) -> Vectors | None:
        asked.extend(texts)
        return await embed(texts)

    vectors = TurnVectors(counting, kept=2)
    for text in ("one", "two", "three", "three", "one"):
        await vectors.of_message(text, [])
    assert asked == ["one", "two", "three", "one"]


def test_a_persons_words_are_embedded_whole_and_the_assistants_in_part() -> None:
    long = "word " * 100
    assert embedded_text(long, "user") == long.strip()
    assert embedded_text(long, "assistant") == long[:400].strip()
    assert embedded_text(" \ud83d ", "user") == "\ufffd"
    assert embedded_text("", "user") == " "


def test_only_vectors_of_the_embedder_that_the_model_was_trained_on_count(
    embedder: QueryCache, tmp_path: Path
) -> None:
    assert is_known(embedder.identity)
    assert not is_known(None)
    assert not is_known(embedder.identity.replace("query='query: '", "query='find: '"))
    assert not is_known("openai text-embedding-3-small dimension=384 query='query: ' passage=''")
