"""How long the first message after a start waits, beside later ones: a model process of its own."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import anyio

from service.agent.agent import Agent
from service.bench.answers.answer_figures import Figures
from service.bench.answers.answer_subject import ask, fresh_agent
from service.bench.parameters import BenchmarkError
from service.config import Settings
from service.domain.history.human_input import NEW_RUN_LOOP

_LATER_STARTS = 3
_LONGEST_START_SECONDS = 900.0
_POLL_SECONDS = 0.05
_FIRST = "Good morning!"
_WARM = ("Good evening!", "Which colour is the sky?", "Thank you, that is all.")


async def starts(settings: Settings) -> Figures:
    """Start a daemon several times on one folder, and send a message as soon as the model is there.

    Returns:
        ``first_start`` and ``second_start``, each with ``ready_ms``, until the model is loaded, and
        ``first_token_ms`` of the first message, sent then; the second is the median of
        ``later_starts``, which find what the first has left. ``warm_first_token_ms``, the median of
        the messages after the first ones; ``first_ratio`` and ``ratio``, those of the first start
        and the second to it.

    Raises:
        BenchmarkError: the model does not get ready, or does not answer.
    """
    warm: list[float] = []
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        first = await _start(settings, Path(folder), warm)
        later = [await _start(settings, Path(folder), warm) for _ in range(_LATER_STARTS)]
    median = round(statistics.median(warm), 1)
    second = {key: round(statistics.median(each[key] for each in later), 1) for key in first}
    return {
        "first_start": first,
        "second_start": second,
        "later_starts": _LATER_STARTS,
        "warm_first_token_ms": median,
        "first_ratio": round(first["first_token_ms"] / median, 2) if median else None,
        "ratio": round(second["first_token_ms"] / median, 2) if median else None,
    }


async def _start(settings: Settings, folder: Path, warm: list[float]) -> Figures:
    began = time.perf_counter()
    async with fresh_agent(settings, None, folder) as agent:
        with anyio.move_on_after(_LONGEST_START_SECONDS):
            while not agent.models.status().ready:  # noqa: ASYNC110 - a thread changes it
                await anyio.sleep(_POLL_SECONDS)
        ready_ms = round(1000 * (time.perf_counter() - began), 1)
        first = await _first_token(agent, _FIRST)
        for words in _WARM:
            warm.append(await _first_token(agent, words))  # noqa: PERF401 - one after another
    return {"ready_ms": ready_ms, "first_token_ms": first}


async def _first_token(agent: Agent, words: str) -> float:
    heard = await ask(agent, words, NEW_RUN_LOOP)
    if heard.first_token_ms is None:
        raise BenchmarkError(f"the model does not answer {words!r}: {heard.problem or 'no words'}")
    return heard.first_token_ms
