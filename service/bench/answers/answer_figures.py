"""From answers to the figures of a report: shares that pass, and milliseconds.

Among them is how long the first message after a start waits, beside later ones: that is measured
on a model process of its own.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from service.agent.agent import Agent
from service.bench.answers.answer_dataset import Conversation
from service.bench.answers.answer_subject import Heard, ask, fresh_agent
from service.bench.parameters import BenchmarkError, percentile
from service.config import Settings
from service.domain.history.human_input import NEW_RUN_LOOP

Figures = dict[str, Any]
_LATER_STARTS = 3
_LONGEST_START_SECONDS = 900.0
_POLL_SECONDS = 0.05
_FIRST = "Good morning!"
_WARM = ("Good evening!", "Which colour is the sky?", "Thank you, that is all.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one turn of a conversation."""

    conversation: Conversation
    turn: int
    """Counted from 0."""
    heard: Heard
    faults: tuple[str, ...] | None
    """What is wrong with the answer; None: it is not looked at."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.faults


def of_runs(runs: Sequence[Sequence[Outcome]]) -> Figures:
    """The figures of the same conversations, had several times.

    Returns:
        Those of `shares` for all messages that are checked, under ``by_category`` and
        ``by_language`` for parts of them, under ``safety`` for those where a wrong answer can harm
        somebody (of whichever category); and ``times``, see `times`.
    """
    checked = [[each for each in run if each.faults is not None] for run in runs]

    def by(name: Callable[[Outcome], str]) -> dict[str, Figures]:
        names = sorted({name(each) for run in checked for each in run})
        return {
            key: shares([[e for e in run if name(e) == key] for run in checked]) for key in names
        }

    return {
        **shares(checked),
        "by_category": by(lambda each: each.conversation.category),
        "by_language": by(lambda each: each.conversation.language),
        "safety": shares([[each for each in run if each.conversation.safety] for run in checked]),
        "times": times([each for run in runs for each in run]),
    }


def shares(runs: Sequence[Sequence[Outcome]]) -> Figures:
    """How many pass.

    Returns:
        ``messages`` of a run; ``passed``, of each run; ``share``, the mean of the runs, and
        ``lowest``, that of the worst one, from 0 to 1, or None where there are no messages.
    """
    passed = [sum(each.passed for each in run) for run in runs]
    of = len(runs[0])
    return {
        "messages": of,
        "passed": passed,
        "share": round(statistics.mean(passed) / of, 4) if of else None,
        "lowest": round(min(passed) / of, 4) if of else None,
    }


def times(outcomes: Sequence[Outcome]) -> Figures:
    """How long answers took, those that are not looked at included.

    Returns:
        For ``all`` messages, for the ``first`` of each conversation, and for those after it
        (``warm``): how many ``messages``; ``first_token_p50_ms``, ``first_token_p95_ms``, from
        sending to the first piece that could be read; ``whole_p50_ms``, ``whole_p95_ms``, to the
        end.
    """
    return {
        "all": _times(outcomes),
        "first": _times([each for each in outcomes if each.turn == 0]),
        "warm": _times([each for each in outcomes if each.turn > 0]),
    }


def _times(outcomes: Sequence[Outcome]) -> Figures:
    heard = [each.heard for each in outcomes if each.heard.first_token_ms is not None]
    if not heard:
        return {"messages": 0}
    first = [each.first_token_ms or 0.0 for each in heard]
    whole = [each.whole_ms for each in heard]
    return {
        "messages": len(heard),
        "first_token_p50_ms": round(percentile(first, 50)),
        "first_token_p95_ms": round(percentile(first, 95)),
        "whole_p50_ms": round(percentile(whole, 50)),
        "whole_p95_ms": round(percentile(whole, 95)),
    }


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
