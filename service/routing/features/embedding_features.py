"""How near a message is in meaning to what was said in each candidate.

The cosines of sentence embedders lie close together (those of multilingual-e5 between .75 and .95)
and a short message is near to everything. So each nearness stands also as its lead over the best
of the other candidates, and in standard deviations above the mean over all turns.

A reply is often not alike to what it replies to ("Could you give me your user id?", "It's anna_7").
What was learned of that is the network's (`turn_network.py`). Here is one direction besides, where
messages lie that open a topic: it tells whether a message answers a loop that waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.domain.text import NO_SCRIPT, main_script
from service.routing.text.text_reading import Loop, Vector


@dataclass(frozen=True, slots=True)
class Openings:
    """Learned on centred vectors of one embedder, of d dimensions."""

    centre: Vector
    """Shape (d,): the mean of all texts."""
    opening: Vector
    """Shape (d,): where messages lie that open a topic."""
    scripts: tuple[str, ...]
    """Scripts of the texts that it was learned on. Of messages in others nothing is known: with
    one script left out of the training, messages in it were all taken for openings, or none."""

    @property
    def dimensions(self) -> int:
        """How long the vectors are that it was learned on."""
        return len(self.centre)

    def knows(self, text: str) -> bool:
        """Whether what was learned of vectors holds for a message."""
        script = main_script(text)
        return script == NO_SCRIPT or script in self.scripts

    def opens(self, vector: Vector) -> float:
        """How much a message is like those that open a topic."""
        return float(centred(vector, self.centre) @ self.opening)

    def written(self, digits: int = 4) -> dict[str, list[Any]]:
        """As JSON, rounded to significant digits."""
        return {
            "centre": rounded(self.centre, digits),
            "opening": rounded(self.opening, digits),
            "scripts": list(self.scripts),
        }

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Openings:
        """What was written."""
        centre, opening = (
            np.array(written[name], dtype=np.float32) for name in ("centre", "opening")
        )
        return cls(centre, opening, tuple(written["scripts"]))


def centred(vectors: NDArray[np.float32], centre: Vector) -> NDArray[np.float32]:
    """Vectors without what all have in common, of length 1."""
    moved = vectors - centre
    lengths = np.linalg.norm(moved, axis=-1, keepdims=True)
    return np.asarray(moved / np.maximum(lengths, 1e-9), dtype=np.float32)


def rounded(values: NDArray[np.float32], digits: int) -> list[Any]:
    """A vector or a matrix as lists of numbers of so many significant digits."""
    if values.ndim > 1:
        return [rounded(row, digits) for row in values]
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


Matrix = NDArray[np.float64]

NEARNESS_FEATURES = (
    "cos_last_user",
    "cos_last_assistant",
    "cos_goal",
    "cos_best",
    "cos_best_user",
    "cos_mean",
    "cos_recent",
    "cos_timed",
    "lead_last_user",
    "lead_last_assistant",
    "lead_best",
    "lead_mean",
    "lead_recent",
    "standing_last",
    "standing_best",
    "standing_recent",
    "cos_second_last",
    "turns_since_nearest",
    "centred_best",
    "centred_mean",
    "centred_last",
)
_COLUMN = {name: index for index, name in enumerate(NEARNESS_FEATURES)}
_LEADS = ("last_user", "last_assistant", "best", "mean", "recent")
_FADING = 0.7
"""What a turn counts in `cos_recent`, as a share of the one after it."""
_RECENCY_WEIGHT = 0.01
"""What a factor of e in a turn's age takes off its cosine in `cos_timed`."""
_LEAST_SPREAD = 0.01
_ENOUGH_TURNS = 6
"""From how many turns on their mean stands for what is usual."""


@dataclass(frozen=True, slots=True)
class Cosines:
    """Of a message with all turns that have a vector, N in all, those of one loop after another."""

    place: NDArray[np.int64]
    """Shape (N,): which of the turns of all loops."""
    owner: NDArray[np.int64]
    """Shape (N,): of which loop, ascending."""
    plain: Vector
    """Shape (N,)."""
    centred: Vector | None
    """Shape (N,): without what all have in common; None where the turns are too few to tell it."""

    @classmethod
    def of(cls, vector: Vector | None, loops: Sequence[Loop]) -> Cosines | None:
        """Compare a message with what was said; None where there is nothing to compare."""
        owner = [row for row, loop in enumerate(loops) for _ in loop.turns]
        every = [turn.vector for loop in loops for turn in loop.turns]
        place = np.array([at for at, each in enumerate(every) if each is not None], dtype=np.int64)
        if vector is None or not len(place):
            return None
        heard = np.stack([each for each in every if each is not None])
        plain = np.asarray(heard @ vector, dtype=np.float32)
        return cls(place, np.array(owner)[place], plain, _centred_cosines(vector, heard))


def embedding_features(
    vector: Vector | None,
    at: float,
    loops: Sequence[Loop],
    cosines: Cosines | None,
) -> Matrix:
    """One row a candidate; NaN wherever there is nothing to compare with."""
    table = np.full((len(loops), len(NEARNESS_FEATURES)), np.nan)
    if vector is None:
        return table
    if cosines is not None:
        owner = cosines.owner
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        for row, own in zip(owner[starts], np.split(cosines.plain, starts[1:]), strict=True):
            _cosines(own, vector, at, loops[row], table[row])
        _standings(cosines.plain, table)
        if cosines.centred is not None:
            _centred(cosines.centred, owner, starts, table)
    for name in _LEADS:
        table[:, _COLUMN[f"lead_{name}"]] = lead(table[:, _COLUMN[f"cos_{name}"]])
    return table


def lead(values: Matrix) -> Matrix:
    """How far each is before the best of the others; NaN where there is no other."""
    leads = np.full(len(values), np.nan)
    present = np.flatnonzero(~np.isnan(values))
    if len(present) < 2:
        return leads
    second, first = np.sort(values[present])[-2:]
    leads[present] = values[present] - np.where(values[present] == first, second, first)
    return leads


def _cosines(cosines: Vector, vector: Vector, at: float, loop: Loop, row: Matrix) -> None:
    """Fill a loop's row by the cosines of its turns that have a vector, one at least."""
    said = [turn for turn in loop.turns if turn.vector is not None]
    by_user = cosines[[turn.role == "user" for turn in said]]
    by_assistant = cosines[[turn.role != "user" for turn in said]]
    weights = _FADING ** np.arange(len(cosines))[::-1]
    ages = np.array([max(at - turn.at, 0.0) for turn in said])
    goal = loop.candidate.goal.vector
    row[_COLUMN["cos_last_user"]] = by_user[-1] if len(by_user) else math.nan
    row[_COLUMN["cos_last_assistant"]] = by_assistant[-1] if len(by_assistant) else math.nan
    row[_COLUMN["cos_goal"]] = goal @ vector if goal is not None else math.nan
    row[_COLUMN["cos_best"]] = cosines.max()
    row[_COLUMN["cos_best_user"]] = by_user.max() if len(by_user) else math.nan
    row[_COLUMN["cos_mean"]] = cosines.mean()
    row[_COLUMN["cos_recent"]] = weights @ cosines / weights.sum()
    row[_COLUMN["cos_timed"]] = (cosines - _RECENCY_WEIGHT * np.log1p(ages)).max()
    row[_COLUMN["standing_last"]] = cosines[-1]
    row[_COLUMN["cos_second_last"]] = cosines[-2] if len(cosines) > 1 else math.nan
    row[_COLUMN["turns_since_nearest"]] = len(cosines) - 1 - int(cosines.argmax())


def _standings(every: Vector, table: Matrix) -> None:
    middle, spread = float(every.mean()), float(every.std()) + _LEAST_SPREAD
    for name, of in (
        ("standing_last", "standing_last"),
        ("standing_best", "cos_best"),
        ("standing_recent", "cos_recent"),
    ):
        table[:, _COLUMN[name]] = (table[:, _COLUMN[of]] - middle) / spread


def _centred_cosines(vector: Vector, heard: NDArray[np.float32]) -> Vector | None:
    """Cosines without what everything that was said has in common, its language above all.

    Args:
        vector: the message's, shape (d,).
        heard: those of all turns, shape (N, d).

    Returns:
        Shape (N,); None where the turns are too few for telling what is common to them.
    """
    if len(heard) < _ENOUGH_TURNS:
        return None
    centre = heard.mean(axis=0)
    moved, own = heard - centre, vector - centre
    lengths = np.linalg.norm(moved, axis=1) * float(np.linalg.norm(own))
    return np.asarray(moved @ own / np.maximum(lengths, _LEAST_SPREAD), dtype=np.float32)


def _centred(
    cosines: Vector, owner: NDArray[np.int64], starts: NDArray[np.int64], table: Matrix
) -> None:
    ends = np.append(starts[1:], len(owner))
    rows = owner[starts]
    table[rows, _COLUMN["centred_best"]] = np.maximum.reduceat(cosines, starts)
    table[rows, _COLUMN["centred_mean"]] = np.add.reduceat(cosines, starts) / (ends - starts)
    table[rows, _COLUMN["centred_last"]] = cosines[ends - 1]
