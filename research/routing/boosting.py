"""Gradient boosting of the two forests: a softmax over a message's candidates and *new*.

Friedman 2001, "Greedy function approximation", with Newton steps on the multinomial deviance of
each message. The trees are complete; their splits are sought among quantiles. Seeded, and the same
on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.routing.feature_table import Floats, Integers, Table
from service.routing.features.feature_set import CANDIDATE_FEATURES, CONTEXT_FEATURES
from service.routing.routing_model import Forest

_BINS = 48
_SAMPLED = 40_000
Bins = NDArray[np.uint8]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Boosting:
    """How the forests are grown."""

    rounds: int = 420
    join_depth: int = 5
    new_depth: int = 4
    rate: float = 0.055
    regularisation: float = 5.0
    least_weight: float = 8.0
    """Least sum of second derivatives on each side of a split."""
    columns: float = 0.4
    """Share of the features that a tree may look at."""
    rows: float = 0.6
    """Share of the messages that a tree is grown on."""
    seed: int = 0


@dataclass(slots=True)
class _Tree:
    feature: Integers
    bin: Integers
    value: Numbers

    def apply(self, bins: Bins) -> Numbers:
        node = np.zeros(len(bins), dtype=np.int64)
        each = np.arange(len(bins))
        for _ in range(len(self.value).bit_length() - 1):
            node = 2 * node + 1 + (bins[each, self.feature[node]] > self.bin[node])
        return np.asarray(self.value[node - (len(self.value) - 1)], dtype=np.float64)


class _Columns:
    """A table cut into quantiles."""

    def __init__(self, rows: Floats) -> None:
        self.edges = [_quantiles(rows[:, column]) for column in range(rows.shape[1])]
        self.bins: Bins = np.zeros(rows.shape, dtype=np.uint8, order="F")
        for column, edges in enumerate(self.edges):
            place = np.searchsorted(edges, rows[:, column], side="left").astype(np.uint8)
            place[np.isnan(rows[:, column])] = 0  # as in a forest: what is not known goes left
            self.bins[:, column] = place

    def forest(self, trees: Sequence[_Tree]) -> Forest:
        thresholds = [
            [
                float(self.edges[feature][cut]) if cut < len(self.edges[feature]) else np.inf
                for feature, cut in zip(tree.feature, tree.bin, strict=True)
            ]
            for tree in trees
        ]
        return Forest(
            feature=np.stack([tree.feature for tree in trees]),
            threshold=np.array(thresholds),
            value=np.stack([tree.value for tree in trees]),
        )


def boosted(table: Table, how: Boosting, without: Sequence[str] = ()) -> tuple[Forest, Forest]:
    """The forest of candidates and that of *new*, grown without some features."""
    random = np.random.default_rng(how.seed)
    pairs, contexts = _Columns(table.candidates), _Columns(table.context)
    may_join = np.array([i for i, n in enumerate(CANDIDATE_FEATURES) if n not in without])
    may_new = np.array([i for i, n in enumerate(CONTEXT_FEATURES) if n not in without])
    weight = (table.weight / table.weight.mean()).astype(np.float64)
    is_new = (table.right < 0).astype(np.float64)
    truth = np.zeros(len(table.owner))
    truth[(table.starts + table.right)[table.right >= 0]] = 1.0
    join_scores, new_scores = np.zeros(len(table.owner)), np.zeros(len(table.right))
    joins: list[_Tree] = []
    news: list[_Tree] = []
    for _ in range(how.rounds):
        picked = random.random(len(table.right)) < how.rows
        joining, _new = softmax(join_scores, new_scores, table.owner)
        own = weight[table.owner]
        rows = np.flatnonzero(picked[table.owner])
        chosen = random.choice(may_join, max(1, int(how.columns * len(may_join))), replace=False)
        slope, bend = own * (joining - truth), own * joining * (1 - joining)
        joins.append(
            _grown(pairs, rows, slope[rows], bend[rows], how.join_depth, np.sort(chosen), how)
        )
        join_scores += joins[-1].apply(pairs.bins)
        _joining, opening = softmax(join_scores, new_scores, table.owner)
        rows = np.flatnonzero(picked)
        chosen = random.choice(may_new, max(1, int(how.columns * len(may_new))), replace=False)
        slope, bend = weight * (opening - is_new), weight * opening * (1 - opening)
        news.append(
            _grown(contexts, rows, slope[rows], bend[rows], how.new_depth, np.sort(chosen), how)
        )
        new_scores += news[-1].apply(contexts.bins)
    return pairs.forest(joins), contexts.forest(news)


def softmax(join: Numbers, new: Numbers, owner: Integers) -> tuple[Numbers, Numbers]:
    """Probabilities of all candidates, and of *new* for each message."""
    most = new.copy()
    np.maximum.at(most, owner, join)
    raised, raised_new = np.exp(join - most[owner]), np.exp(new - most)
    whole = raised_new + np.bincount(owner, raised, len(new))
    return raised / whole[owner], raised_new / whole


def _quantiles(values: Floats) -> Numbers:
    """Thresholds halfway between values, so that rounding moves no value across one."""
    observed = values[~np.isnan(values)].astype(np.float64)
    if len(observed) > _SAMPLED:
        observed = np.random.default_rng(0).choice(observed, _SAMPLED, replace=False)
    if not len(observed):
        return np.zeros(0)
    shares = np.linspace(0, 1, _BINS + 1)[1:-1]
    values_once = np.unique(observed)
    below = np.unique(np.searchsorted(values_once, np.quantile(observed, shares, method="lower")))
    below = below[below < len(values_once) - 1]
    return np.asarray((values_once[below] + values_once[below + 1]) / 2, dtype=np.float64)


def _grown(
    columns: _Columns,
    rows: Integers,
    slope: Numbers,
    bend: Numbers,
    depth: int,
    chosen: Integers,
    how: Boosting,
) -> _Tree:
    """A tree on the first and second derivatives of some rows, split level by level."""
    bins = columns.bins[rows]
    node = np.zeros(len(rows), dtype=np.int64)
    features: list[Integers] = []
    cuts: list[Integers] = []
    for level in range(depth):
        feature, cut = _splits(columns, bins, node, 2**level, slope, bend, chosen, how)
        features.append(feature)
        cuts.append(cut)
        node = 2 * node + (bins[np.arange(len(rows)), feature[node]] > cut[node])
    slopes = np.bincount(node, slope, 2**depth)
    bends = np.bincount(node, bend, 2**depth)
    value = -how.rate * slopes / (bends + how.regularisation)
    return _Tree(np.concatenate(features), np.concatenate(cuts), value)


def _splits(
    columns: _Columns,
    bins: Bins,
    node: Integers,
    nodes: int,
    slope: Numbers,
    bend: Numbers,
    chosen: Integers,
    how: Boosting,
) -> tuple[Integers, Integers]:
    """The best feature and bin for each node; bin 255 where no split is worth it."""
    whole, whole_bend = np.bincount(node, slope, nodes), np.bincount(node, bend, nodes)
    alone = whole**2 / (whole_bend + how.regularisation)
    best = np.full(nodes, 1e-6)
    feature, cut = np.zeros(nodes, dtype=np.int64), np.full(nodes, 255, dtype=np.int64)
    for column in chosen:
        count = len(columns.edges[column]) + 1
        if count < 2:
            continue
        place = node * count + bins[:, column]
        left = np.bincount(place, slope, nodes * count).reshape(nodes, count).cumsum(1)[:, :-1]
        less = np.bincount(place, bend, nodes * count).reshape(nodes, count).cumsum(1)[:, :-1]
        right, more = whole[:, None] - left, whole_bend[:, None] - less
        gain = (
            left**2 / (less + how.regularisation)
            + right**2 / (more + how.regularisation)
            - alone[:, None]
        )
        gain[(less < how.least_weight) | (more < how.least_weight)] = 0.0
        where = gain.argmax(axis=1)
        gains = gain[np.arange(nodes), where]
        better = gains > best
        best[better], feature[better], cut[better] = gains[better], column, where[better]
    return feature, cut
