"""How the two indexes' opinions become one order.

The sum of min-max-normalised scores, after "An Analysis of Fusion Functions for Hybrid Retrieval"
(Bruch, Gai, Ingber 2023): unlike ranks (RRF), it keeps how much better one segment fits than the
next.
The smallest word score is 0, that of a segment that shares no word with the query. The smallest
cosine must be that of the farthest of all segments, not of the last one offered: cosines of one
model lie close together, and a range cut short would let small differences outweigh the words.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from service.domain.anchors import AnchorRef
from service.memory.protocol import Candidate
from service.memory.tuned import DENSE_WEIGHT, LEXICAL_WEIGHT


@dataclass(frozen=True, slots=True)
class Ranked:
    """A segment in its place."""

    ref: AnchorRef
    relevance: float
    """0 to 1, comparable within one search only."""
    scores: dict[str, float]
    """What it is made of: ``bm25`` and ``cosine`` as the indexes gave them, ``lexical`` and
    ``dense`` as normalised. A part is missing where the index did not offer the segment."""


def fuse(
    lexical: Sequence[Candidate],
    dense: Sequence[Candidate] | None,
    *,
    lowest_cosine: float = 1.0,
    without_vector: Set[AnchorRef] = frozenset(),
) -> list[Ranked]:
    """All candidates, best first.

    Args:
        lexical: what the words found.
        dense: what the vectors found; None when there are none, and words decide alone.
        lowest_cosine: that of the segment farthest from the query.
        without_vector: segments that the vectors cannot offer yet. Words decide alone for each, or
            all that was remembered lately would stand behind all that is old.

    >>> one, two = AnchorRef("a", 0, 0), AnchorRef("a", 0, 1)
    >>> [(r.ref.segment_index, r.relevance) for r in fuse([Candidate(two, 3.0)], None)]
    [(1, 1.0)]
    >>> words, vectors = [Candidate(one, 2.0)], [Candidate(two, 0.9), Candidate(one, 0.8)]
    >>> [(r.ref.segment_index, r.relevance) for r in fuse(words, vectors)]
    [(1, 0.7), (0, 0.3)]
    """
    dense_of = _normalised(dense or (), lowest_cosine)
    lexical_of = _normalised(lexical, 0.0)
    ranked = []
    for ref in lexical_of.keys() | dense_of.keys():
        scores: dict[str, float] = {}
        words = vector = 0.0
        if ref in lexical_of:
            scores["bm25"], words = lexical_of[ref]
            scores["lexical"] = words
        if ref in dense_of:
            scores["cosine"], vector = dense_of[ref]
            scores["dense"] = vector
        by_words_alone = dense is None or ref in without_vector
        relevance = words if by_words_alone else LEXICAL_WEIGHT * words + DENSE_WEIGHT * vector
        ranked.append(Ranked(ref, min(1.0, relevance), scores))
    return sorted(ranked, key=lambda entry: (-entry.relevance, entry.ref))


def _normalised(
    candidates: Sequence[Candidate], lowest: float
) -> dict[AnchorRef, tuple[float, float]]:
    """Each candidate's score, as it was and as its place between the lowest and the highest."""
    scores = [candidate.score for candidate in candidates]
    lowest, highest = min([lowest, *scores]), max(scores, default=lowest)
    span = highest - lowest
    return {ref: (score, (score - lowest) / span if span > 0 else 1.0) for ref, score in candidates}
