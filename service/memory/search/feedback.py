"""More of the same behind the first hits: pseudo-relevance feedback.

A question that has several answers, or asks what somebody does again and again, names what they
have in common but poorly; the first hits name it better. So what stands behind them is moved up by
how near it lies to them all (Rocchio 1971, "Relevance feedback in information retrieval", with the
first hits taken for relevant). The first keep their places: a wrong one among them would bring its
like.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.memory.memory_tuning import FEEDBACK
from service.memory.protocol import Vectors


def likeness(scores: Sequence[float], vectors: Sequence[Vectors | None]) -> list[float]:
    """What each hit of a search gains by being like the first. Pure.

    Args:
        scores: of all hits, best first.
        vectors: theirs, of length 1; None where a hit has none.

    Returns:
        A share of a score for each: in deviations, of mean 0, times `FEEDBACK.weight`; 0 for the
        first and for those without a vector.
    """
    gains = [0.0] * len(scores)
    places = [place for place, vector in enumerate(vectors) if vector is not None]
    first = [place for place in places if place < FEEDBACK.first]
    if not first or len(places) <= FEEDBACK.first:
        return gains
    rows = np.stack([vector for vector in vectors if vector is not None])
    rows = rows - rows.mean(axis=0)  # what all of them share says nothing
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    shares = np.exp((np.array([scores[place] for place in first]) - scores[0]) / FEEDBACK.spread)
    near = rows @ (shares @ rows[: len(first)] / shares.sum())
    near = FEEDBACK.weight * (near - near.mean()) / max(float(near.std()), 1e-9)
    for place, gain in zip(places, near.tolist(), strict=True):
        if place >= FEEDBACK.first:
            gains[place] = gain
    return gains
