"""Reranking: a second, slower look at the best, by whoever the settings name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.domain.errors import RondoError
from service.memory.rerankers.protocol import Reranker
from service.memory.search.scoring import ScoredRow


def reranked(
    reranker: Reranker | None, query: str, scored: Sequence[ScoredRow]
) -> tuple[list[ScoredRow], str | None]:
    """The same segments in the reranker's order, those that it was not given behind.

    Returns:
        The segments; and in words why they are as they were, where that is so.
    """
    if reranker is None:
        return list(scored), "Not reranked: no reranker is configured (memory.reranker.kind)."
    given, rest = scored[: reranker.most], scored[reranker.most :]
    if not given:
        return [], None
    try:
        scores = reranker.scores(query, [each.row.text for each in given])
    except RondoError as error:
        return list(scored), f"Not reranked: {error.problem().in_words()}"
    again = [
        replace(each, relevance=score, scores={**each.scores, "rerank": score})
        for each, score in zip(given, scores, strict=True)
    ]
    again.sort(key=lambda each: -each.relevance)
    least = again[-1].relevance
    return again + [replace(each, relevance=min(each.relevance, least)) for each in rest], None
