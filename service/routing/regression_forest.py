"""Regression forests of complete binary trees, evaluated without any library but numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


class WrittenForest(TypedDict):
    """A forest as JSON. A tree is [features, thresholds, values].

    The nodes of a tree are numbered level by level: those below node i are 2i+1 and 2i+2. At a
    node a row goes to the second when its feature is greater than the threshold, else (also when
    it is not known) to the first. A threshold of null lets everything go to the first.
    """

    depth: int
    trees: list[list[list[float | None]]]


@dataclass(frozen=True)
class Forest:
    """T trees of depth d over rows of features."""

    feature: NDArray[np.int64]
    """Shape (T, 2^d - 1): the column that a node looks at."""
    threshold: Matrix
    """Shape (T, 2^d - 1); infinite where a node sends everything to the left."""
    value: Matrix
    """Shape (T, 2^d): of the leaves."""

    @property
    def depth(self) -> int:
        """How many decisions lead to a leaf."""
        return int(self.value.shape[1]).bit_length() - 1

    def scores(self, rows: Matrix) -> Matrix:
        """The sum of what the trees say, shape (len(rows),)."""
        leaves = self._path(rows)[-1] - (2**self.depth - 1)
        total: Matrix = self.value[np.arange(len(self.value)), leaves].sum(axis=1)
        return total

    def contributions(self, row: Matrix) -> Matrix:
        """What each feature added to the score of a row on the way to the leaves.

        A node is worth the mean of the leaves below it; a step from a node to the next one is
        credited to the feature that was looked at (Saabas 2014, "Interpreting random forests").
        """
        worth = self._worth
        path = self._path(row[None, :])[:, 0, :]
        trees = np.arange(len(self.value))
        credit: Matrix = np.zeros(len(row))
        for before, after in pairwise(path):
            gained = worth[trees, after] - worth[trees, before]
            np.add.at(credit, self.feature[trees, before], gained)
        return credit

    def _path(self, rows: Matrix) -> NDArray[np.int64]:
        """The nodes on the way, shape (d + 1, len(rows), T)."""
        trees, each = np.arange(len(self.value)), np.arange(len(rows))[:, None]
        nodes = [np.zeros((len(rows), len(self.value)), dtype=np.int64)]
        for _ in range(self.depth):
            node = nodes[-1]
            right = rows[each, self.feature[trees, node]] > self.threshold[trees, node]
            nodes.append(2 * node + 1 + right)
        return np.stack(nodes)

    @cached_property
    def _worth(self) -> Matrix:
        levels = [self.value]
        while levels[0].shape[1] > 1:
            below = levels[0]
            levels.insert(0, (below[:, 0::2] + below[:, 1::2]) / 2)
        return np.concatenate(levels, axis=1)

    def written(self, digits: int = 5) -> WrittenForest:
        """As JSON, rounded to significant digits."""

        def rounded(values: Sequence[float]) -> list[float | None]:
            return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values]

        trees: list[list[list[float | None]]] = [
            [[int(each) for each in feature], rounded(threshold), rounded(value)]
            for feature, threshold, value in zip(
                self.feature, self.threshold, self.value, strict=True
            )
        ]
        return {"depth": self.depth, "trees": trees}

    @classmethod
    def read(cls, written: WrittenForest) -> Forest:
        """The forest that was written."""
        trees = written["trees"]
        thresholds = [[np.inf if t is None else t for t in tree[1]] for tree in trees]
        return cls(
            feature=np.array([tree[0] for tree in trees], dtype=np.int64),
            threshold=np.array(thresholds, dtype=np.float64),
            value=np.array([tree[2] for tree in trees], dtype=np.float64),
        )
