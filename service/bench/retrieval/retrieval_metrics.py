"""How well the hits of a search hold the evidence that was asked for; no language model judges.

recall@k is the mean share of a query's evidence among its first k hits, all@k the share of queries
with all of it there, any@k with any of it, and MRR the mean of 1 / rank of the first hit that is
evidence (0 without one), as in Voorhees, "The TREC-8 Question Answering Track Report", 1999.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.domain.anchors import Anchor, SegmentType

KS = (1, 5, 10, 25, 50)
"""Numbers of first hits that are looked at."""
DEEPEST = max(KS)

Figures = dict[str, float]


class Place(NamedTuple):
    """What evidence names, and what a hit is compared by: no single segment of a long text."""

    run_loop_id: str
    iteration_index: int
    segment_type: SegmentType

    @classmethod
    def of(cls, anchor: Anchor) -> Place:
        """Where an anchor points to."""
        return cls(anchor.run_loop_id, anchor.iteration_index, anchor.segment_type)


def judge(hits: Sequence[Place], evidence: Iterable[Place]) -> Figures:
    """Judge the answer to one query.

    Each hit takes a rank, whatever it is: several segments of one long text take several ranks,
    but count as one item of evidence, found at the first of them.

    Args:
        hits: best first.
        evidence: at least one; the same one twice counts once.

    Returns:
        ``recall@k``, ``all@k``, ``any@k`` for each of `KS`, and ``mrr``; each from 0 to 1.
    """
    rank_of: dict[Place, int] = {}
    for rank, place in enumerate(hits, start=1):
        rank_of.setdefault(place, rank)
    relevant = set(evidence)
    ranks = sorted(rank_of[place] for place in relevant if place in rank_of)
    figures: Figures = {}
    for k in KS:
        retrieved = sum(rank <= k for rank in ranks)
        figures[f"recall@{k}"] = retrieved / len(relevant)
        figures[f"all@{k}"] = float(retrieved == len(relevant))
        figures[f"any@{k}"] = float(retrieved > 0)
    figures["mrr"] = 1 / ranks[0] if ranks else 0.0
    return figures


def mean(judged: Sequence[Figures]) -> Figures:
    """The mean of each figure over queries, rounded to 4 digits.

    Args:
        judged: as `judge` gives them; at least one.
    """
    return {
        name: round(statistics.fmean(figures[name] for figures in judged), 4) for name in judged[0]
    }
