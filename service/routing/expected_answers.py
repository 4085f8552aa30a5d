"""What the router makes of run loops that wait: they are told how likely they are spoken to.

The trained model knows of a loop that waits only that it asks; here the question and its options
are weighed against the message, and the model's probabilities are corrected by what that says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from service.routing.features.answer_features import EXPECTING_FEATURES, expecting
from service.routing.routing_model import Judgement, shipped
from service.routing.text.text_reading import Candidate, Vector
from service.tuning import (
    EXPECTED_MOST,
    EXPECTED_WEIGHTS,
    EXPECTED_WORDS_ONLY_WEIGHTS,
)

VERSION = "waiting 2"
"""Of these weights: decisions that they had a part in say so in `Route.model`."""


def with_questions(
    judgement: Judgement, text: str, candidates: Sequence[Candidate], vector: Vector | None
) -> Judgement:
    """A judgement in which each loop that waits is as likely as what it asks makes it.

    What is left is shared among the others, and *new*, as the trained model had it.
    """
    waiting = [at for at, each in enumerate(candidates) if each.asked is not None]
    if not waiting:
        return judgement
    usable_vector = vector if judgement.by_meaning else None
    opens = opens_of(text, usable_vector)
    likely = {at: _likely(text, usable_vector, candidates, at, opens) for at in waiting}
    # Two cannot both be meant.
    whole = max(1.0, math.fsum(likely.values()) / EXPECTED_MOST)
    likely = {at: share / whole for at, share in likely.items()}
    left = 1.0 - math.fsum(likely.values())
    rest = judgement.new + math.fsum(
        share for at, share in enumerate(judgement.probabilities) if at not in likely
    )
    scale = left / rest if rest > 0 else 0.0
    probabilities = tuple(
        likely.get(at, share * scale) for at, share in enumerate(judgement.probabilities)
    )
    new = judgement.new * scale if rest > 0 else left
    best = int(np.argmax(probabilities))
    if new >= probabilities[best]:
        why = judgement.reason if judgement.best is None else _NO_ANSWER
        return replace(judgement, probabilities=probabilities, new=new, best=None, reason=why)
    why = judgement.reason
    if best in likely:
        why = _ANSWERS
    elif judgement.best != best:
        why = _NO_ANSWER
    return replace(judgement, probabilities=probabilities, new=new, best=best, reason=why)


_ANSWERS = "it waits for an answer, and this is said to what it asks"
_NO_ANSWER = "this is no answer to what another one asks"


def opens_of(text: str, vector: Vector | None) -> float:
    """How much a message is like those that open a topic; NaN: not known."""
    projection = shipped().projection
    if vector is None or not projection.knows(text):
        return math.nan
    return float(projection.opens(vector))


def _likely(
    text: str,
    vector: Vector | None,
    candidates: Sequence[Candidate],
    at: int,
    opens: float,
) -> float:
    others = [each for place, each in enumerate(candidates) if place != at]
    features = expecting(text, vector, candidates[at], others, opens=opens)
    weights = EXPECTED_WORDS_ONLY_WEIGHTS if vector is None else EXPECTED_WEIGHTS
    learned = np.array([weights[name] for name in EXPECTING_FEATURES])
    score = float(features @ learned) + weights["constant"]
    return min(1 / (1 + math.exp(-score)), EXPECTED_MOST)
