"""How a message stands to each single turn of the loops that it may belong to."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.routing.features.embedding_features import Cosines, Matrix
from service.routing.features.lexical_features import Words
from service.routing.text.text_reading import LOOK_FEATURES, Loop, Reading, Vector

FROM_VECTORS = ("cos", "centred")
EXCHANGE_FEATURES = (
    *FROM_VECTORS,
    "by_user",
    "turns_after",
    "age",
    "said_since",
    "overlap",
    "share_of_turn",
    "codes_shared",
    "phrases_shared",
    "heads",
    "alike",
    "habits_apart",
    "opened",
    "own_words",
    "same_case",
    "same_beginning",
    "same_script",
    *LOOK_FEATURES,
)
BY_USER = EXCHANGE_FEATURES.index("by_user")


@dataclass(frozen=True, slots=True)
class Exchanges:
    """A message beside P turns, those of one candidate after those of another."""

    rows: Matrix
    """Shape (P, len(EXCHANGE_FEATURES)); NaN where there is no vector."""
    starts: NDArray[np.int64]
    """Shape (candidates,): where the turns of each begin; each has one at least."""
    vector: Vector | None
    """The message's."""
    heard: Sequence[Vector | None]
    """Those of the turns, P in all."""


def exchanges(
    message: Reading,
    words: Words,
    vector: Vector | None,
    at: float,
    loops: Sequence[Loop],
    cosines: Cosines | None,
) -> Exchanges:
    """Hold a message against every turn that was read of its candidates.

    Args:
        message: the message, read.
        words: its words against all candidates.
        vector: the message's; without it what comes of vectors is NaN.
        at: when it came, in seconds (POSIX).
        loops: its candidates.
        cosines: of the message with their turns.
    """
    turns = [turn for loop in loops for turn in loop.turns]
    times = sorted(turn.at for turn in turns)
    looks = [
        _exchange(message, words, at, times, loop, place)
        for loop in loops
        for place in range(len(loop.turns))
    ]
    rows = np.full((len(turns), len(EXCHANGE_FEATURES)), np.nan)
    if turns:
        rows[:, len(FROM_VECTORS) :] = np.array(looks)
        written = np.array([reading.signs for loop in loops for reading in loop.readings])
        apart = np.abs(written - np.array(message.signs)).mean(axis=1)
        rows[:, EXCHANGE_FEATURES.index("habits_apart")] = apart
    if cosines is not None:
        rows[cosines.place, 0] = cosines.plain
        if cosines.centred is not None:
            rows[cosines.place, 1] = cosines.centred
    starts = np.cumsum([0, *(len(loop.turns) for loop in loops)])[:-1]
    return Exchanges(rows, starts, vector, [turn.vector for turn in turns])


def _exchange(
    message: Reading, words: Words, at: float, times: Sequence[float], loop: Loop, place: int
) -> list[float]:
    """All but what comes of vectors, in the order of `EXCHANGE_FEATURES`."""
    turn, reading = loop.turns[place], loop.readings[place]
    shared = message.terms & reading.terms
    both = len(shared)
    return [
        float(turn.role == "user"),
        float(len(loop.turns) - 1 - place),
        math.log1p(max(at - turn.at, 0.0)),
        math.log1p(len(times) - bisect_right(times, turn.at)),
        words.overlap(shared) if shared else 0.0,
        both / (len(reading.terms) + 1),
        float(len(message.shape.codes & reading.shape.codes)),
        float(len(message.phrases & reading.phrases)) if shared else 0.0,
        float(sum(head in reading.lower for head in message.shape.heads)),
        both / (len(message.terms) + len(reading.terms) - both) if shared else 0.0,
        0.0,  # habits, which are compared for all turns at once
        float(place == 0 and loop.candidate.turn_count <= len(loop.turns)),
        words.weight(shared & words.single) if shared else 0.0,
        float(reading.manner.has_capital == message.manner.has_capital),
        float(reading.manner.beginning == message.manner.beginning),
        float(reading.manner.may_be_compared(message.manner)),
        *reading.look,
    ]
