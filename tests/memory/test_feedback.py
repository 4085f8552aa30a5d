"""What is like the first hits is moved up behind them."""

from __future__ import annotations

import numpy as np

from service.domain.anchors import AnchorRef
from service.memory.memory_tuning import FEEDBACK
from service.memory.protocol import Vectors
from service.memory.search.feedback import likeness
from service.memory.search.passages import Corpus, InContext, Passage
from service.memory.search.query_terms import read_question
from service.memory.search.ranking import Ranked, rank

FIRST = FEEDBACK.first


def unit(*rows: list[float]) -> list[Vectors | None]:
    return [np.array(row, dtype=np.float32) / np.float32(np.linalg.norm(row)) for row in rows]


ALIKE, OTHER = [1.0, 0.1, 0.0], [0.0, 0.1, 1.0]


def test_what_is_like_the_first_gains_and_the_rest_loses() -> None:
    vectors = unit(*[ALIKE] * FIRST, OTHER, ALIKE, OTHER)
    gains = likeness([9.0] * FIRST + [3.0, 2.0, 1.0], vectors)
    assert gains[:FIRST] == [0.0] * FIRST
    assert gains[FIRST + 1] > 0 > gains[FIRST] == gains[FIRST + 2]


def test_the_best_of_the_first_counts_most() -> None:
    vectors = unit(ALIKE, *[OTHER] * (FIRST - 1), ALIKE, OTHER)
    scores = [9.0, *[9.0 - 5 * FEEDBACK.spread] * (FIRST - 1), -9.0, -9.0]
    gains = likeness(scores, vectors)
    assert gains[-2] > gains[-1]


def test_without_vectors_or_without_a_rest_nothing_moves() -> None:
    assert likeness([], []) == []
    assert likeness([3.0, 2.0], [None, None]) == [0.0, 0.0]
    assert likeness([3.0] * FIRST, unit(*[ALIKE] * FIRST)) == [0.0] * FIRST
    same = likeness([3.0] * (FIRST + 2), unit(*[ALIKE] * (FIRST + 2)))
    assert np.allclose(same, 0, atol=1e-3)
    some = [None, *unit(*[ALIKE] * FIRST, OTHER, ALIKE), None]
    gains = likeness([3.0] * len(some), some)
    assert gains[0] == gains[-1] == 0.0


def found(count: int, vectors: dict[int, Vectors | None]) -> list[Ranked]:
    passages = [
        Passage(AnchorRef(f"r{at:02}", 0, 0), f"words {at}", f"word {at}", 0.9 - at / 100)
        for at in range(count)
    ]
    of_refs = {passages[at].ref: vector for at, vector in vectors.items() if vector is not None}
    pool = [*map(InContext, passages)]
    return rank(read_question("sailing"), pool, Corpus(count, {}), vectors=of_refs)


def test_the_first_keep_their_places_and_no_score_rises_above_them() -> None:
    kinds = unit(ALIKE, OTHER)
    vectors = {at: kinds[at % 2] for at in range(12)} | {0: kinds[0], 1: kinds[0]}
    plain, fed = found(12, {}), found(12, vectors)
    assert [each.ref for each in fed[:FIRST]] == [each.ref for each in plain[:FIRST]]
    assert [each.ref for each in fed] != [each.ref for each in plain]
    assert {each.ref for each in fed} == {each.ref for each in plain}
    scores = [each.score for each in fed]
    assert scores == sorted(scores, reverse=True)
    relevances = [each.relevance for each in fed]
    assert relevances == sorted(relevances, reverse=True)
    assert all("likeness" not in each.scores for each in fed[:FIRST])
    assert any(each.scores.get("likeness", 0) > 0 for each in fed[FIRST:])
