"""From decisions to figures: accuracy, F1 of *new*, calibration, confusion by kind, and times."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.bench.parameters import percentile
from service.domain.routes import RouteMethod

_BINS = 10
NEW = -1
"""The place of a new topic."""
_SIZES = ((0, "0"), (1, "1"), (5, "2-5"), (20, "6-20"))
"""Up to so many candidates, and what these numbers are called."""
_MORE = "more"
ASKED_BELOW = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The confidences below which a person could be asked, or shown alternatives."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a message was put, how sure that was, and where it belongs."""

    chosen: int
    right: int
    confidence: float

    @property
    def is_right(self) -> bool:
        """Whether it was put where it belongs."""
        return self.chosen == self.right


@dataclass(frozen=True, slots=True)
class Decided:
    """What came of one message. Times are in milliseconds."""

    decision: Decision
    candidates: int
    """How many loops were active."""
    method: RouteMethod
    ms: float
    """The whole decision, with the embedding of the message."""
    embedded: int
    """How many texts were embedded for it."""
    embedding_ms: float | None
    """The same message, embedded by the bare embedder; None where nothing was embedded."""
    offers_right: bool = False
    """Whether the right one is among the alternatives that the route names where it is unsure."""


def measured(decisions: Sequence[Decision]) -> dict[str, Any]:
    """The figures; ECE over ten bins of the decision's confidence (Guo et al. 2017)."""
    chosen = np.array([each.chosen for each in decisions])
    right = np.array([each.right for each in decisions])
    is_right = chosen == right
    new_and_new = int(((chosen == NEW) & (right == NEW)).sum())
    called_new, truly_new = int((chosen == NEW).sum()), int((right == NEW).sum())
    curve = calibration(decisions)
    off = sum(abs(each["confidence"] - each["right"]) * each["messages"] for each in curve)
    return {
        "messages": len(decisions),
        "accuracy": round(float(is_right.mean()), 4),
        "new_f1": round(2 * new_and_new / max(called_new + truly_new, 1), 4),
        "ece": round(off / len(decisions), 4),
        "kinds": {
            "joined_right": int((is_right & (right != NEW)).sum()),
            "joined_wrong": int((~is_right & (right != NEW) & (chosen != NEW)).sum()),
            "joined_instead_of_new": int(((right == NEW) & (chosen != NEW)).sum()),
            "new_instead_of_joined": int(((right != NEW) & (chosen == NEW)).sum()),
            "new_right": new_and_new,
        },
    }


def calibration(decisions: Sequence[Decision]) -> list[dict[str, float]]:
    """How often decisions were right, by their confidence, in ten bins; empty bins are left out."""
    confidence = np.array([each.confidence for each in decisions])
    is_right = np.array([each.chosen == each.right for each in decisions])
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    return [
        {
            "confidence": round(float(confidence[bins == each].mean()), 4),
            "right": round(float(is_right[bins == each].mean()), 4),
            "messages": int((bins == each).sum()),
        }
        for each in range(_BINS)
        if (bins == each).any()
    ]


def of_decided(decided: Sequence[Decided]) -> dict[str, Any]:
    """The figures of some decisions, at least one.

    Returns:
        ``messages``, ``accuracy``, ``new_f1``, ``ece`` and ``kinds``, see `measured`;
        ``without_llm``, the share that the language model was not needed for; ``methods``, how many
        each decided; what `of_times` gives; ``calibration``, see `calibration`; ``asking``, see
        `asking`; ``by_candidates``, messages and accuracy by how many loops were active.
    """
    decisions = [each.decision for each in decided]
    methods = Counter(each.method for each in decided)
    return {
        **measured(decisions),
        "without_llm": round(1 - methods["llm"] / len(decided), 4),
        "methods": dict(methods.most_common()),
        **of_times(decided),
        "by_candidates": _by_candidates(decided),
        "calibration": calibration(decisions),
        "asking": asking(decided),
    }


def asking(decided: Sequence[Decided]) -> list[dict[str, float | None]]:
    """What it is worth to ask a person about each decision that is less sure than a confidence.

    Args:
        decided: at least one.

    Returns:
        For each confidence of `ASKED_BELOW`: it, ``below``; the share of messages that lie below,
        ``share_asked``; the share of the others that was decided rightly, ``accuracy_rest``, None
        where there are no others; and ``accuracy_if_chips_right``, the share of all that is right
        where a person who is asked corrects what one of the named alternatives corrects.
    """
    rows: list[dict[str, float | None]] = []
    for below in ASKED_BELOW:
        rest = [each for each in decided if each.decision.confidence >= below]
        asked = [each for each in decided if each.decision.confidence < below]
        right = sum(each.decision.is_right for each in rest)
        corrected = sum(each.decision.is_right or each.offers_right for each in asked)
        rows.append(
            {
                "below": below,
                "share_asked": round(len(asked) / len(decided), 4),
                "accuracy_rest": round(right / len(rest), 4) if rest else None,
                "accuracy_if_chips_right": round((right + corrected) / len(decided), 4),
            }
        )
    return rows


def of_times(decided: Sequence[Decided]) -> dict[str, float | None]:
    """What deciding took, in milliseconds, where there was a choice; at least one message.

    Returns:
        ``p50_ms`` and ``p95_ms`` of a decision, the embedding of the message included;
        ``embedding_p50_ms``, the same messages by the bare embedder; ``ratio``, the median over the
        messages of decision over embedding. The last two are None where nothing was embedded.
    """
    chosen = [each for each in decided if each.candidates] or decided
    return times([(each.ms, each.embedding_ms) for each in chosen])


def times(taken: Sequence[tuple[float, float | None]]) -> dict[str, float | None]:
    """The same of a decision and the bare embedding of its message, each; None: not embedded."""
    subject = [ms for ms, _ in taken]
    pairs = [(ms, bare) for ms, bare in taken if bare]
    return {
        "p50_ms": round(statistics.median(subject), 2),
        "p95_ms": round(percentile(subject, 95), 2),
        "embedding_p50_ms": round(statistics.median(bare for _, bare in pairs), 2)
        if pairs
        else None,
        "ratio": round(statistics.median(ms / bare for ms, bare in pairs), 3) if pairs else None,
    }


def _by_candidates(decided: Sequence[Decided]) -> dict[str, dict[str, Any]]:
    names = [name for _, name in _SIZES] + [_MORE]
    groups: dict[str, list[Decided]] = {name: [] for name in names}
    for each in decided:
        groups[_size(each.candidates)].append(each)
    by_size: dict[str, dict[str, Any]] = {}
    for name, some in groups.items():
        if some:
            figures = measured([each.decision for each in some])
            by_size[name] = {key: figures[key] for key in ("messages", "accuracy")}
    return by_size


def _size(candidates: int) -> str:
    return next((name for most, name in _SIZES if candidates <= most), _MORE)
