"""What memory asks of a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


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
