"""The router's model: how likely a message belongs to each candidate, or to none.

A few networks of one kind, which differ by the seed of their training, give every candidate and the
option *new* a score from named features and from the vectors of the single turns; the softmax of
their mean are the probabilities. Where there are no vectors, others take their place that were
trained without. The model is a file that people can read (`routing_model.json`): the features by
name, the networks, what it was trained on, and how often it was right at each confidence.
`research.routing.train_router` writes it.

In the conversations that it was trained on nothing rests for more than fifteen minutes; so that it
finds what rested for hours when it is named, it was also shown copies of them in which some
candidates are older (`research.routing.resting`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.domain.errors import ConfigurationError
from service.routing.features.embedding_features import Openings
from service.routing.features.feature_set import (
    CANDIDATE_FEATURES,
    CONTEXT_FEATURES,
    Features,
    features,
)
from service.routing.features.turn_features import EXCHANGE_FEATURES
from service.routing.features.turn_network import Network
from service.routing.route_reasons import JOIN_GROUPS, NEW_GROUPS, for_join, for_new
from service.routing.text.text_reading import Candidate, Vector

Matrix = NDArray[np.float64]


FORM = 4
"""The form of the file."""
_DIGITS = 4
"""Decimals of a score."""

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
    """Networks for one kind of input; the mean of what they say counts."""

    networks: tuple[Network, ...]
    temperature: float

    def scores(self, inputs: Features) -> Matrix:
        """Of each candidate (one at least) and, last, of *new*."""
        scores = [
            np.append(*network.scores(inputs.candidates, inputs.context, inputs.exchanges))
            for network in self.networks
        ]
        # Rows that are alike differ by a rounding when they are multiplied in one matrix.
        return np.asarray(np.round(np.mean(scores, axis=0), _DIGITS), dtype=np.float64)

    def probabilities(self, inputs: Features) -> Matrix:
        """Of each candidate (one at least) and, last, of *new*."""
        scores = self.scores(inputs)
        raised = np.exp((scores - scores.max()) / self.temperature)
        return np.asarray(raised / raised.sum(), dtype=np.float64)

    def why_new(self, inputs: Features) -> str:
        """What spoke for a new topic, in words."""
        network = self.networks[0]
        passed = network.passed(inputs.candidates, inputs.context, inputs.exchanges)
        return for_new(network.new_gains(passed, [*NEW_GROUPS.values()]).tolist())

    def why_join(self, inputs: Features, best: int, other: int | None) -> str:
        """What spoke for a candidate rather than another, in words."""
        network = self.networks[0]
        passed = network.passed(inputs.candidates, inputs.context, inputs.exchanges)
        gains = network.join_gains(passed, best, other, [*JOIN_GROUPS.values()])
        return for_join(gains.tolist())


@dataclass(frozen=True, slots=True)
class RouteModel:
    """The model, read."""

    version: str
    embedder: str
    """The embedder whose vectors it knows."""
    with_vectors: Scorer
    words_only: Scorer
    openings: Openings

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
        usable = vector is not None and len(vector) == self.openings.dimensions
        by_meaning = usable and any(
            turn.vector is not None for each in candidates for turn in each.turns
        )
        scorer = self.with_vectors if by_meaning else self.words_only
        vector = vector if by_meaning else None
        inputs = features(text, at, candidates, vector)
        if not self.openings.knows(text):  # of its language the networks have learned nothing
            inputs = replace(inputs, exchanges=replace(inputs.exchanges, vector=None))
        weighed = np.array(recalibrated(scorer.probabilities(inputs).tolist()), dtype=np.float64)
        probabilities, new = tuple(weighed[:-1].tolist()), float(weighed[-1])
        order = [int(each) for each in np.argsort(-weighed[:-1], kind="stable")]
        best, second = order[0], order[1] if len(order) > 1 else None
        if new >= probabilities[best]:
            return Judgement(probabilities, new, None, scorer.why_new(inputs), by_meaning)
        reason = scorer.why_join(inputs, best, second)
        return Judgement(probabilities, new, best, reason, by_meaning)


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
        openings=Openings.read(written["openings"]),
    )


def _scorer(written: Mapping[str, Any]) -> Scorer:
    networks = (
        Network.read(each, CANDIDATE_FEATURES, CONTEXT_FEATURES) for each in written["networks"]
    )
    return Scorer(tuple(networks), float(written["temperature"]))
