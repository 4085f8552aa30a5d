"""Calibration of the router's probabilities by what persons have corrected.

Two numbers make of the probabilities p of a model others, p' = softmax(log p / T + b·[new]): a
temperature T, by which all become surer (below 1) or less sure, and an offset b for *new*, by which
new loops are opened more often or more rarely. That is Platt's scaling with one bias
(https://arxiv.org/abs/1706.04599, §4.2), fitted by the maximum of the posterior under a normal
prior around (1, 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.tuning import (
    CALIBRATION_FOLDS,
    CALIBRATION_MOST_OFFSET,
    CALIBRATION_MOST_STEPS,
    CALIBRATION_MOST_TEMPERATURE,
    CALIBRATION_OFFSET_SPREAD,
    CALIBRATION_SHARPNESS_SPREAD,
)

_LEAST_PROBABILITY = 5e-5
"""Routes are journaled with four digits: 0 stands for up to so much."""

_LOWEST = np.array([1 / CALIBRATION_MOST_TEMPERATURE, -CALIBRATION_MOST_OFFSET])
_HIGHEST = np.array([CALIBRATION_MOST_TEMPERATURE, CALIBRATION_MOST_OFFSET])
"""The bounds of (1/T, b)."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A map on probabilities.

    >>> [round(each, 2) for each in Calibration(temperature=2.0).applied([0.1, 0.9])]
    [0.25, 0.75]
    >>> [round(each, 2) for each in Calibration(new_offset=math.log(9)).applied([0.9, 0.1])]
    [0.5, 0.5]
    """

    temperature: float = 1.0
    """Above 0."""
    new_offset: float = 0.0
    """What is added to the logarithm of the last probability, that of a new loop."""

    @property
    def is_sane(self) -> bool:
        """Whether both numbers are within the bounds of what is fitted."""
        sharp = 1 / self.temperature
        within = _LOWEST[0] <= sharp <= _HIGHEST[0] and abs(self.new_offset) <= _HIGHEST[1]
        return bool(within)

    @property
    def parameters(self) -> tuple[float, float] | None:
        """Both numbers; None where all stays as it is."""
        return None if self == UNCALIBRATED else (self.temperature, self.new_offset)

    def applied(self, probabilities: Sequence[float]) -> list[float]:
        """The probabilities that count: as many, summing to 1. The last is that of a new loop."""
        if self == UNCALIBRATED:
            return list(probabilities)
        logits = _logs(probabilities) / self.temperature
        logits[-1] += self.new_offset
        return _softmax(logits)

    def undone(self, probabilities: Sequence[float]) -> list[float]:
        """The probabilities of which `applied` makes these, up to the digits that they are kept in.

        >>> found = Calibration(2.0, 0.5)
        >>> [round(each, 3) for each in found.undone(found.applied([0.2, 0.3, 0.5]))]
        [0.2, 0.3, 0.5]
        """
        if self == UNCALIBRATED:
            return list(probabilities)
        logits = _logs(probabilities)
        logits[-1] -= self.new_offset
        return _softmax(logits * self.temperature)


UNCALIBRATED = Calibration()
"""Leaves all as it is."""


class Case(NamedTuple):
    """A decision of which it is known what was right."""

    probabilities: Sequence[float]
    """Of the model: of each candidate, and last of a new loop."""
    right: int
    """The index of what was right."""
    weight: float = 1.0
    """How much it counts."""


class Quality(NamedTuple):
    """How good probabilities are, weighted."""

    log_loss: float
    """The mean of -log of the probability of what was right, in nats; smaller is better."""
    accuracy: float
    """How often the likeliest was right."""


def fitted(cases: Sequence[Case]) -> Calibration:
    """The likeliest calibration, given these cases and the prior; with no case, that of the prior.

    In (1/T, b) the loss is convex, so Newton's steps, shortened where they do not help, end at its
    one minimum.
    """
    point = np.array([1.0, 0.0])
    table = _Table.of(cases)
    loss, gradient, curvature = _posterior(point, table)
    for _ in range(CALIBRATION_MOST_STEPS):
        step = np.linalg.solve(curvature, gradient)
        if float(np.abs(step).max()) < 1e-9:
            break
        while True:
            tried = np.clip(point - step, _LOWEST, _HIGHEST)
            result = _posterior(tried, table)
            if result[0] <= loss or float(np.abs(step).max()) < 1e-9:
                break
            step = step / 2
        moved = float(np.abs(tried - point).max())
        point, (loss, gradient, curvature) = tried, result
        if moved < 1e-9:  # at a bound
            break
    return Calibration(temperature=1 / float(point[0]), new_offset=float(point[1]))


def quality(cases: Sequence[Case], calibration: Calibration) -> Quality:
    """How good calibrated probabilities are. Of no case: no loss, and never wrong."""
    return _mean([(case, calibration) for case in cases])


def expected_quality(cases: Sequence[Case]) -> Quality:
    """How good probabilities are with calibrations fitted on other cases than those judged.

    Cross-validation: each tenth of the cases is judged by what the rest has fitted; of fewer cases,
    each by all others.
    """
    folds = min(CALIBRATION_FOLDS, len(cases))
    judged: list[tuple[Case, Calibration]] = []
    for fold in range(folds):
        calibration = fitted([case for n, case in enumerate(cases) if n % folds != fold])
        judged += [(case, calibration) for case in cases[fold::folds]]
    return _mean(judged)


def _mean(judged: Sequence[tuple[Case, Calibration]]) -> Quality:
    total = sum(case.weight for case, _ in judged)
    if not total:
        return Quality(0.0, 1.0)
    loss = hits = 0.0
    for case, calibration in judged:
        probabilities = calibration.applied(case.probabilities)
        loss -= case.weight * math.log(max(probabilities[case.right], _LEAST_PROBABILITY))
        hits += case.weight * (int(np.argmax(probabilities)) == case.right)
    return Quality(loss / total, hits / total)


# --- the fit


class _Table(NamedTuple):
    """Cases as the fit needs them: a row each, as wide as the widest."""

    logs: Numbers
    is_new: Numbers
    absent: Numbers
    """Minus infinity where a case has no candidate, else 0."""
    right: NDArray[np.intp]
    weights: Numbers

    @classmethod
    def of(cls, cases: Sequence[Case]) -> _Table:
        shape = len(cases), max((len(case.probabilities) for case in cases), default=1)
        logs, is_new, absent = np.zeros(shape), np.zeros(shape), np.full(shape, -np.inf)
        for row, case in enumerate(cases):
            width = len(case.probabilities)
            logs[row, :width] = _logs(case.probabilities)
            is_new[row, width - 1] = 1.0
            absent[row, :width] = 0.0
        right = np.array([case.right for case in cases], dtype=np.intp)
        return cls(logs, is_new, absent, right, np.array([case.weight for case in cases]))


def _posterior(at: Numbers, table: _Table) -> tuple[float, Numbers, Numbers]:
    """The negative logarithm of the posterior at (1/T, b), its gradient and its curvature."""
    precision = np.diag([CALIBRATION_SHARPNESS_SPREAD**-2, CALIBRATION_OFFSET_SPREAD**-2])
    away = at - np.array([1.0, 0.0])
    loss, gradient = float(away @ precision @ away) / 2, precision @ away
    if not len(table.right):
        return loss, gradient, precision
    logits = at[0] * table.logs + at[1] * table.is_new + table.absent
    top = logits.max(axis=1, keepdims=True)
    raised = np.exp(logits - top)
    sums = raised.sum(axis=1, keepdims=True)
    rows = np.arange(len(table.right))
    losses = np.log(sums[:, 0]) + top[:, 0] - logits[rows, table.right]
    directions = np.stack([table.logs, table.is_new])  # 2, cases, candidates
    probabilities = raised / sums
    means = (directions * probabilities).sum(axis=2)
    centred = directions - means[:, :, None]
    spread = np.einsum("ick,jck,ck,c->ij", centred, centred, probabilities, table.weights)
    slopes = (means - directions[:, rows, table.right]) @ table.weights
    return loss + float(losses @ table.weights), gradient + slopes, precision + spread


def _logs(probabilities: Sequence[float]) -> Numbers:
    return np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), _LEAST_PROBABILITY))


def _softmax(logits: Numbers) -> list[float]:
    raised = np.exp(logits - logits.max())
    probabilities: list[float] = (raised / raised.sum()).tolist()
    return probabilities
