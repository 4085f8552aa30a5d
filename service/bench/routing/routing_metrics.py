"""How good decisions are: accuracy, F1 of *new*, calibration, and confusion by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.domain.routes import RouteMethod

_BINS = 10
NEW = -1
"""The place of a new topic."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a message was put, how sure that was, and where it belongs."""

    chosen: int
    right: int
    confidence: float


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
