"""What scorers say of messages that they were not trained on, and how sure they may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.routing.feature_table import Integers, Table
from service.bench.routing.routing_figures import NEW, Decision, calibration, measured
from service.routing.routing_model import Scorer

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of M messages with R candidates in all."""

    join: Numbers
    """Shape (R,)."""
    new: Numbers
    """Shape (M,)."""
    owner: Integers
    """Shape (R,): the message of a candidate, ascending."""
    right: Integers
    """Shape (M,)."""
    weight: float
    """Of all messages together."""

    @classmethod
    def of(cls, scorer: Scorer, table: Table) -> Scores:
        """What a scorer says of a table's messages."""
        scores = [
            scorer.scores(features) if len(features.candidates) else np.zeros(1)
            for features in table.features_of()
        ]
        return cls(
            np.concatenate([each[:-1] for each in scores]),
            np.array([each[-1] for each in scores]),
            table.owner,
            table.right,
            float(table.weight.sum()),
        )

    def probabilities(self, temperature: float) -> tuple[Numbers, Numbers]:
        """Of all candidates, and of *new* for each message."""
        return softmax(self.join / temperature, self.new / temperature, self.owner)

    def decisions(self, temperature: float = 1.0) -> list[Decision]:
        """What is decided for each message."""
        join, new = self.probabilities(temperature)
        bounds = np.searchsorted(self.owner, np.arange(len(self.right) + 1))
        decisions: list[Decision] = []
        for message, right in enumerate(self.right):
            own = join[bounds[message] : bounds[message + 1]]
            best = int(np.argmax(own)) if len(own) else NEW
            if best == NEW or new[message] >= own[best]:
                decisions.append(Decision(NEW, int(right), float(new[message])))
            else:
                decisions.append(Decision(best, int(right), float(own[best])))
        return decisions

    def loss(self, temperature: float) -> float:
        """The sum of the negative logarithms of what the true places were given."""
        join, new = self.probabilities(temperature)
        starts = np.searchsorted(self.owner, np.arange(len(self.right)))
        joined = self.right >= 0
        true = new.copy()
        true[joined] = join[(starts + self.right)[joined]]
        return float(-np.log(np.maximum(true, 1e-12)).sum())


def softmax(join: Numbers, new: Numbers, owner: Integers) -> tuple[Numbers, Numbers]:
    """Probabilities of all candidates, and of *new* for each message."""
    most = new.copy()
    np.maximum.at(most, owner, join)
    raised, raised_new = np.exp(join - most[owner]), np.exp(new - most)
    whole = raised_new + np.bincount(owner, raised, len(new))
    return raised / whole[owner], raised_new / whole


@dataclass(frozen=True, slots=True)
class Crossed:
    """A set, each third of its files judged by what was trained on the others."""

    scores: list[Scores]

    @property
    def weight(self) -> float:
        """What the set weighs."""
        return sum(each.weight for each in self.scores)

    def loss(self, temperature: float) -> float:
        """A message's mean loss."""
        messages = sum(len(each.right) for each in self.scores)
        return sum(each.loss(temperature) for each in self.scores) / messages

    def decisions(self, temperature: float) -> list[Decision]:
        """Of all thirds."""
        return [decision for each in self.scores for decision in each.decisions(temperature)]


def figures(
    crossed: Mapping[str, Mapping[str, Crossed]], temperatures: Mapping[str, float]
) -> dict[str, Any]:
    """For each kind of scorer and each set: all files together, and each third."""
    return {
        kind: {
            name: {
                "all": measured(each.decisions(temperatures[kind])),
                "thirds": [
                    measured(scores.decisions(temperatures[kind])) for scores in each.scores
                ],
            }
            for name, each in sets.items()
        }
        for kind, sets in crossed.items()
    }


def curves(
    crossed: Mapping[str, Mapping[str, Crossed]], temperatures: Mapping[str, float]
) -> dict[str, list[dict[str, float]]]:
    """For each kind of scorer how often it was right at each confidence, all sets together."""
    return {
        kind: calibration(
            [one for each in sets.values() for one in each.decisions(temperatures[kind])]
        )
        for kind, sets in crossed.items()
    }
