"""From answers to the figures of a report: shares that pass, and milliseconds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from service.bench.answers.answer_dataset import Conversation
from service.bench.answers.heard_answer import Heard
from service.bench.latency import percentile

Figures = dict[str, Any]


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
