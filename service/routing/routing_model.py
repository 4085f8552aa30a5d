"""The router's model: how likely a message belongs to each candidate, or to none.

Two forests of complete binary trees give every candidate and the option *new* a score, and so does
a network, which sees the single turns besides; the softmax of their mean are the probabilities.
Another network, the reader, which sees vectors, has said before what it thinks: that is among the
features.
The model is a file that people can read (`routing_model.json`): the features by name, the trees,
the networks, what it was trained on, and how often it was right at each confidence.
`research.routing.train_router` writes it.

In the conversations that it was trained on nothing rests for more than fifteen minutes; so that it
finds what rested for hours when it is named, it was also shown copies of them in which some
candidates are older (`research.routing.resting`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from service.domain.errors import ConfigurationError
from service.routing.features.embedding_features import Projection
from service.routing.features.feature_set import (
    CANDIDATE_FEATURES,
    CONTEXT_FEATURES,
    Features,
    features,
)
from service.routing.features.turn_features import EXCHANGE_FEATURES
from service.routing.features.turn_network import Network
from service.routing.route_reasons import for_join, for_new
from service.routing.text.text_reading import Candidate, Vector

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


FORM = 3
"""The form of the file."""

Recalibrate = Callable[[Sequence[float]], Sequence[float]]
"""Makes of probabilities (of each candidate and, last, of *new*) others, as many, that sum to 1."""


def unchanged(probabilities: Sequence[float]) -> Sequence[float]:
    """The probabilities as they are."""
    return probabilities


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the model says of a message."""

    probabilities: tuple[float, ...]
    """Of each candidate, in their order."""
    new: float
    """That it opens a new topic. All sum to 1."""
    best: int | None
    """The likeliest candidate; None when *new* is likelier than any."""
    reason: str
    """What spoke for that, in words."""
    by_meaning: bool = False
    """Whether vectors were weighed beside the words."""

    @property
    def confidence(self) -> float:
        """The probability of what is likeliest."""
        return self.new if self.best is None else self.probabilities[self.best]


@dataclass(frozen=True, slots=True)
class Scorer:
    """The two forests and the network for one kind of input."""

    join: Forest
    new: Forest
    network: Network
    temperature: float

    def scores(self, inputs: Features) -> Matrix:
        """Of each candidate (one at least) and, last, of *new*."""
        forests = np.append(
            self.join.scores(inputs.candidates), self.new.scores(inputs.context[None])
        )
        join, new = self.network.scores(inputs.candidates, inputs.context, inputs.exchanges)
        return np.asarray((forests + np.append(join, new)) / 2, dtype=np.float64)

    def probabilities(self, inputs: Features) -> Matrix:
        """Of each candidate (one at least) and, last, of *new*."""
        scores = self.scores(inputs)
        raised = np.exp((scores - scores.max()) / self.temperature)
        return np.asarray(raised / raised.sum(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RouteModel:
    """The model, read."""

    version: str
    embedder: str
    """The embedder whose vectors it knows."""
    with_vectors: Scorer
    words_only: Scorer
    projection: Projection
    reader: Network

    def judge(
        self,
        text: str,
        at: float,
        candidates: Sequence[Candidate],
        vector: Vector | None = None,
        *,
        recalibrated: Recalibrate = unchanged,
    ) -> Judgement:
        """Judge a message. It takes some milliseconds, and more with many candidates.

        Args:
            text: the message.
            at: when it came, in seconds (POSIX).
            candidates: the loops it may belong to.
            vector: the message's, by `embedder`, as a query. Without it, or where no candidate
                has any vector, words alone decide.
            recalibrated: makes of the model's probabilities those that count.
        """
        if not candidates:
            return Judgement((), 1.0, None, "no run loop is active")
        usable = vector is not None and len(vector) == self.projection.dimensions
        by_meaning = usable and any(
            turn.vector is not None for each in candidates for turn in each.turns
        )
        scorer = self.with_vectors if by_meaning else self.words_only
        vector = vector if by_meaning else None
        inputs = features(text, at, candidates, vector, self.projection, self.reader)
        weighed = np.array(recalibrated(scorer.probabilities(inputs).tolist()), dtype=np.float64)
        probabilities, new = tuple(weighed[:-1].tolist()), float(weighed[-1])
        best = int(np.argmax(weighed[:-1]))
        if new >= probabilities[best]:
            reason = for_new(scorer.new.contributions(inputs.context))
            return Judgement(probabilities, new, None, reason, by_meaning=by_meaning)
        reason = for_join(_credit(scorer.join, inputs, weighed[:-1]))
        return Judgement(probabilities, new, best, reason, by_meaning=by_meaning)


def _credit(forest: Forest, inputs: Features, probabilities: Matrix) -> Matrix:
    """What each feature added for the best candidate, compared with the best of the others."""
    *_, second, best = (None, *np.argsort(probabilities))
    credit = forest.contributions(inputs.candidates[best])
    if second is not None:
        credit = credit - forest.contributions(inputs.candidates[second])
    return credit


@lru_cache(maxsize=1)
def shipped() -> RouteModel:
    """The model that comes with the package, read once.

    Raises:
        ConfigurationError: the file is of another form, or for other features than this code's.
    """
    text = (
        resources.files(__package__ or __name__).joinpath("routing_model.json").read_text("utf-8")
    )
    return read_model(json.loads(text))


def read_model(written: Mapping[str, Any]) -> RouteModel:
    """A model from its JSON.

    Raises:
        ConfigurationError: it is of another form, or for other features than this code's.
    """
    if (
        written.get("form") != FORM
        or tuple(written["candidate_features"]) != CANDIDATE_FEATURES
        or tuple(written["context_features"]) != CONTEXT_FEATURES
        or tuple(written["exchange_features"]) != EXCHANGE_FEATURES
    ):
        raise ConfigurationError(
            "The router's model does not fit this version's features.",
            advice="Install the package again, or train the model in a checkout:"
            " `python -m research.routing.train_router --help` says how.",
        )
    return RouteModel(
        version=written["version"],
        embedder=written["embedder"],
        with_vectors=_scorer(written["with_vectors"]),
        words_only=_scorer(written["words_only"]),
        projection=Projection.read(written["projection"]),
        reader=_network(written["reader"]),
    )


def _scorer(written: Mapping[str, Any]) -> Scorer:
    return Scorer(
        join=Forest.read(written["join"]),
        new=Forest.read(written["new"]),
        network=_network(written["network"]),
        temperature=float(written["temperature"]),
    )


def _network(written: Mapping[str, Any]) -> Network:
    return Network.read(written, CANDIDATE_FEATURES, CONTEXT_FEATURES)
