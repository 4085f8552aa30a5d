"""How somebody writes: whether a message is written as one of those in a candidate.

In a room with several people the same hand shows in capitals, signs and short forms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.routing.features.embedding_features import Matrix, lead
from service.routing.text.text_reading import Loop, Reading

HABIT_FEATURES = ("habits_apart", "lead_habits")
_NEWEST = 6
"""How many of the person's newest turns are compared."""


def style_features(message: Reading, loops: Sequence[Loop]) -> Matrix:
    """One row a candidate, columns as in `HABIT_FEATURES`.

    The distance (the mean over all signs) to the person's turn that is most alike, and how much
    less that is than the least of the others.
    """
    if not loops:
        return np.zeros((0, len(HABIT_FEATURES)))
    written = [[each.signs for each in (loop.by_user or (loop.goal,))[-_NEWEST:]] for loop in loops]
    starts = np.cumsum([0, *map(len, written)])[:-1]
    every = np.array([signs for loop in written for signs in loop])
    distances = np.abs(every - np.array(message.signs)).mean(axis=1)
    apart = np.minimum.reduceat(distances, starts)
    ahead = lead(-apart)
    return np.stack([apart, np.where(np.isnan(ahead), -apart, ahead)], axis=1)
