"""Messages in made-up circumstances: some of the candidates have rested for longer than they have.

In conversations of people nothing rests for long, so that a model learned from them alone takes
whatever is old for closed, even when it is named. Here what has rested is the right one only where
the message names it; a message that names nothing belongs to what did not rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from research.routing.replay import Asked
from service.memory.ledger.terms import STOP_WORDS
from service.routing.features.lexical_features import Words
from service.routing.text.text_reading import Candidate, Loop, Turn, read

SHARE = 0.12
"""Of all messages."""
_RESTED = 0.5
"""The chance of a candidate to have rested."""
_LEAST_SECONDS, _MOST_SECONDS = 300.0, 36_000.0


def rested(asked: Sequence[Asked], seed: int, share: float = SHARE) -> list[Asked]:
    """Copies of some messages, in each of which at least one candidate is older."""
    random = np.random.default_rng(seed)
    rested_messages: list[Asked] = []
    for each in asked:
        if len(each.candidates) < 2 or random.random() >= share:
            continue
        is_older = random.random(len(each.candidates)) < _RESTED
        least, most = math.log(_LEAST_SECONDS), math.log(_MOST_SECONDS)
        seconds = np.exp(random.uniform(least, most, len(each.candidates)))
        if each.right >= 0 and not _names(each):
            is_older[each.right] = False
        if is_older.any():
            candidates = [
                _older(candidate, float(by)) if moved else candidate
                for candidate, by, moved in zip(each.candidates, seconds, is_older, strict=True)
            ]
            rested_messages.append(replace(each, candidates=tuple(candidates)))
    return rested_messages


def _names(asked: Asked) -> bool:
    """Whether the message has a word that among all candidates the right one alone holds."""
    loops = [Loop.of(candidate) for candidate in asked.candidates]
    words = Words.of(read(asked.turn.text), loops)
    return bool((words.single & loops[asked.right].all.words) - STOP_WORDS)


def _older(candidate: Candidate, seconds: float) -> Candidate:
    def moved(turn: Turn) -> Turn:
        return replace(turn, at=turn.at - seconds)

    return replace(
        candidate, goal=moved(candidate.goal), turns=[moved(turn) for turn in candidate.turns]
    )
