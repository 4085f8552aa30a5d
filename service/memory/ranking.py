"""How the two indexes' opinions become one order.

The sum of min-max-normalised scores, after "An Analysis of Fusion Functions for Hybrid Retrieval"
(Bruch, Gai, Ingber 2023): unlike ranks (RRF), it keeps how much better one segment fits than the
next.
The smallest word score is 0, that of a segment that shares no word with the query. The smallest
cosine must be that of the farthest of all segments, not of the last one offered: cosines of one
model lie close together, and a range cut short would let small differences outweigh the words.
"""

from __future__ import annotations

from collections.abc import Sequence
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
) -> list[Ranked]:
    """All candidates, best first.

    Args:
        lexical: what the words found.
        dense: what the vectors found; None when there are none, and words decide alone.
        lowest_cosine: that of the segment farthest from the query.

    >>> one, two = AnchorRef("a", 0, 0), AnchorRef("a", 0, 1)
    >>> [(r.ref.segment_index, r.relevance) for r in fuse([Candidate(two, 3.0)], None)]
    [(1, 1.0)]
    >>> words, vectors = [Candidate(one, 2.0)], [Candidate(two, 0.9), Candidate(one, 0.8)]
    >>> [(r.ref.segment_index, r.relevance) for r in fuse(words, vectors)]
    [(1, 0.7), (0, 0.3)]
    """
    entries: dict[AnchorRef, Ranked] = {}
    if dense is None:
        _add(entries, lexical, weight=1.0, lowest=0.0, raw="bm25", normalised="lexical")
    else:
        lowest = min((candidate.score for candidate in dense), default=lowest_cosine)
        lowest = min(lowest, lowest_cosine)
        _add(entries, lexical, weight=LEXICAL_WEIGHT, lowest=0.0, raw="bm25", normalised="lexical")
        _add(entries, dense, weight=DENSE_WEIGHT, lowest=lowest, raw="cosine", normalised="dense")
    return sorted(entries.values(), key=lambda entry: (-entry.relevance, entry.ref))


def _add(
    entries: dict[AnchorRef, Ranked],
    candidates: Sequence[Candidate],
    *,
    weight: float,
    lowest: float,
    raw: str,
    normalised: str,
) -> None:
    highest = max((candidate.score for candidate in candidates), default=0.0)
    for ref, score in candidates:
        share = (score - lowest) / (highest - lowest) if highest > lowest else 1.0
        known = entries.get(ref, Ranked(ref, 0.0, {}))
        entries[ref] = Ranked(
            ref,
            min(1.0, known.relevance + weight * share),
            {**known.scores, raw: score, normalised: share},
        )
