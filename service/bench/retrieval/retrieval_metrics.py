"""How well the hits of a search hold the evidence that was asked for; no language model judges.

recall@k is the mean share of a query's evidence among its first k hits, all@k the share of queries
with all of it there, any@k with any of it, and MRR the mean of 1 / rank of the first hit that is
evidence (0 without one), as in Voorhees, "The TREC-8 Question Answering Track Report", 1999.
all@1k_tokens and any@1k_tokens count the hits that fit into so many tokens, as a prompt would take
them. AUROC is how often a question that the store answers has a more relevant best hit than one
that it does not answer (Hanley and McNeil 1982).
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from service.domain.anchors import Anchor, SegmentType

KS = (1, 5, 10, 25, 50)
"""Numbers of first hits that are looked at."""
DEEPEST = max(KS)
TOKENS = (1000, 2000, 4000)
"""Numbers of tokens of the first hits together that are looked at."""

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


def judge(hits: Sequence[Place], evidence: Iterable[Place], tokens: Sequence[int] = ()) -> Figures:
    """Judge the answer to one query.

    Each hit takes a rank, whatever it is: several segments of one long text take several ranks,
    but count as one item of evidence, found at the first of them.

    Args:
        hits: best first.
        evidence: at least one; the same one twice counts once.
        tokens: of each hit; left out: none takes any.

    Returns:
        ``recall@k``, ``all@k``, ``any@k`` for each of `KS`, ``all@1k_tokens``, ``any@1k_tokens``
        for each of `TOKENS`, and ``mrr``; each from 0 to 1.
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
    ends = list(accumulate(tokens or [0] * len(hits)))
    for bound in TOKENS:
        within = bisect_right(ends, bound)
        retrieved = sum(rank <= within for rank in ranks)
        figures[f"all@{bound // 1000}k_tokens"] = float(retrieved == len(relevant))
        figures[f"any@{bound // 1000}k_tokens"] = float(retrieved > 0)
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


def auroc(higher: Sequence[float], lower: Sequence[float]) -> float | None:
    """How often one of the first is above one of the second; a tie counts half. None without any.

    >>> auroc([0.9, 0.5], [0.5, 0.1])
    0.875
    """
    if not higher or not lower:
        return None
    wins = sum((one > other) + (one == other) / 2 for one in higher for other in lower)
    return round(wins / len(higher) / len(lower), 4)
