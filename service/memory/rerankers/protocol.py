"""What memory asks of a reranker, and its scores on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol


def between_0_and_1(scores: Sequence[float]) -> list[float]:
    """Scores as they are where all are shares already; else each through the logistic function.

    >>> between_0_and_1([0.2, 1.0])
    [0.2, 1.0]
    >>> [round(score, 3) for score in between_0_and_1([0.0, 2000.0, -2.0])]
    [0.5, 1.0, 0.119]
    """
    if all(0.0 <= score <= 1.0 for score in scores):
        return list(scores)
    return [1.0 / (1.0 + math.exp(-max(-500.0, min(500.0, score)))) for score in scores]


class Reranker(Protocol):
    """Tells how well texts answer a query. Blocks; callers run it in a worker thread.

    Constructing one MUST be cheap: the first call loads what is heavy.
    """

    @property
    def most(self) -> int:
        """How many texts it wants to be given at most."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text, in their order, 0 to 1: higher is better.

        Raises:
            RerankingError: in words, with what to do.
        """
        ...
