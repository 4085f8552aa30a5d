"""What the router keeps of words in the process's memory, and what it makes ahead of time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from threading import Event

import anyio
import anyio.to_thread
import numpy as np
import pytest

from service.memory.ledger import terms
from service.memory.protocol import Vectors
from service.routing.calibration.probability_calibration import UNCALIBRATED, Calibration
from service.routing.open_loop_vectors import EmbedQueries, TurnVectors
from service.routing.router import Router
from service.routing.routing_options import RouterOptions
from service.routing.text import text_reading
from service.routing.text.text_reading import Candidate, Turn, clear_cache, read
from tests.support.agent.routing_loops import BERLIN, LISBON, NOW, Judge, no_embedder

pytestmark = pytest.mark.anyio


def rows(texts: Sequence[str]) -> Vectors:
    """Any vectors of length 1."""
    vectors = np.zeros((len(texts), 384), dtype=np.float32)
    vectors[:, 0] = 1.0
    return vectors


def without_llm(embed: EmbedQueries) -> Router:
    return Router(Judge("{}"), embed, RouterOptions(use_llm=False))


def kept_readings() -> list[int]:
    return [cache.cache_info().currsize for cache in (*text_reading.KEPT, *terms.KEPT)]


async def test_words_that_were_forgotten_while_a_message_was_judged_are_not_kept() -> None:
    judging, forgotten = Event(), Event()

    def slow() -> Calibration:
        judging.set()
        assert forgotten.wait(20)
        return UNCALIBRATED

    router = Router(Judge("{}"), no_embedder, RouterOptions(use_llm=False), calibration=slow)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: router.route("Beijing?", active=[BERLIN], now=NOW))
        await anyio.to_thread.run_sync(judging.wait)
        router.clear()
        terms.clear_cache()
        forgotten.set()
    assert kept_readings() == [0, 0, 0, 0, 0]
    router = without_llm(no_embedder)
    await router.route("Beijing?", active=[BERLIN], now=NOW)
    assert all(kept_readings())  # else the test would hold for nothing


async def test_vectors_of_words_forgotten_while_the_message_was_embedded_are_not_kept() -> None:
    asked: list[Sequence[str]] = []

    async def embed(texts: Sequence[str]) -> Vectors | None:
        await anyio.lowlevel.checkpoint()
        asked.append(texts)
        if len(asked) == 1:
            vectors.clear()
        return rows(texts)

    vectors = TurnVectors(embed)
    said = Turn("my secret", "user", NOW.timestamp())
    loop = Candidate(id="loop", goal=said, turns=[said], turn_count=1)
    _, (embedded,) = await vectors.of_message("hello", [loop])
    assert embedded.goal.vector is not None
    await vectors.make_ahead([loop])
    assert asked == [["hello"], ["my secret"], ["my secret"]]


class Watched(str):
    """A text of which it can be told whether it is still kept."""


@pytest.mark.slow
def test_of_a_huge_text_no_more_is_kept_than_is_read() -> None:
    clear_cache()
    text = Watched("Rome? " * 100_000 + "And the hotel?")
    kept = weakref.ref(text)
    said = Turn(text, "user", 0.0)
    reading = text_reading.Loop.of(Candidate(id="loop", goal=said, turns=[said], turn_count=1)).goal
    assert reading.shape.asks
    assert read(text) is reading
    assert kept() is text
    del said, text
    gc.collect()
    assert kept() is None


async def test_what_could_not_be_embedded_ahead_is_tried_again_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[Sequence[str]] = []
    broken = True

    async def embed(texts: Sequence[str]) -> Vectors | None:
        await anyio.lowlevel.checkpoint()
        tries.append(texts)
        if broken:
            raise ValueError("a broken embedder")
        return rows(texts)

    router = without_llm(embed)
    for count in (1, 2, 3):
        await router.prepare([BERLIN, LISBON])
        assert len(tries) == count
        broken = count < 2
    await router.prepare([BERLIN, LISBON])
    assert tries[0] == tries[1] == tries[2]
    assert len(tries) == 3
    reported = [each for each in caplog.records if each.name == "service.routing.router"]
    assert len(reported) == 1


async def test_what_was_said_before_an_embedder_was_ready_is_embedded_once_it_is() -> None:
    tries: list[Sequence[str]] = []

    async def embed(texts: Sequence[str]) -> Vectors | None:
        await anyio.lowlevel.checkpoint()
        tries.append(texts)
        return None if len(tries) == 1 else rows(texts)

    router = without_llm(embed)
    for _ in range(3):
        await router.prepare([replace(BERLIN)])
    assert len(tries) == 2
    assert tries[0] == tries[1]
