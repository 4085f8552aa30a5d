"""What speaks for a message's belonging to a run loop, as named numbers.

Pure: the same input gives the same numbers, whatever was asked before. `CANDIDATE_FEATURES`
describe a candidate, `CONTEXT_FEATURES` the message and all candidates together: by these the
option *new* is judged. Without vectors the features of nearness are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from service.memory.ledger.terms import STOP_WORDS
from service.routing.features.answer_kinds import KIND_FEATURES, kind_features
from service.routing.features.embedding_features import (
    NEARNESS_FEATURES,
    Cosines,
    Matrix,
    embedding_features,
)
from service.routing.features.lexical_features import (
    COURSE_FEATURES,
    HABIT_FEATURES,
    OVERLAP_FEATURES,
    Words,
    courses,
    lexical_features,
    style_features,
)
from service.routing.features.turn_features import Exchanges, exchanges
from service.routing.text.text_reading import Candidate, Loop, Reading, Vector, read

MESSAGE_FEATURES = (
    "length",
    "distinct_words",
    "greets",
    "requests",
    "follows_up",
    "answers",
    "bids_farewell",
    "points_back",
    "is_question",
    "codes",
)
PAIR_FEATURES = (
    *NEARNESS_FEATURES,
    *OVERLAP_FEATURES,
    *COURSE_FEATURES,
    *HABIT_FEATURES,
    *KIND_FEATURES,
)
CANDIDATE_FEATURES = (*PAIR_FEATURES, *MESSAGE_FEATURES)
"""Each row also holds what the message alone says, so that both can be weighed together."""
HABITS_OF_LATE = ("opened_of_late", "stayed_of_late", "opened_just_now", "stayed_just_now")
"""What share of the person's last messages opened a loop, and what share of them went on with the
one before: of the last twelve, and of the last five."""
_LATE, _JUST_NOW = 12, 5
_MOST_OF = (
    "cos_last_user",
    "cos_last_assistant",
    "cos_best",
    "cos_mean",
    "cos_recent",
    "cos_timed",
    "standing_last",
    "standing_best",
    "standing_recent",
    "centred_best",
    "centred_last",
    "overlap_last_user",
    "overlap_last_two",
    "overlap_loop",
    "own_words",
    "shared_phrases",
    "codes_shared",
    "said_before",
    "last_asks",
    "has_assistant",
    "pieces_loop",
    "own_pieces",
    "fits_kind",
)
_NEWEST_OF = ("cos_last_user", "cos_last_assistant", "cos_best", "overlap_loop", "closed")
CONTEXT_FEATURES = (
    *MESSAGE_FEATURES,
    "unknown_words",
    "unknown_codes",
    "newest_seconds",
    "relative_length",
    "open_loops",
    *HABITS_OF_LATE,
    *(f"most_{name}" for name in _MOST_OF),
    *(f"newest_{name}" for name in _NEWEST_OF),
)
_COLUMN = {name: index for index, name in enumerate(PAIR_FEATURES)}
_USUAL_LENGTH = 50.0


@dataclass(frozen=True, slots=True)
class Features:
    """The features of one message."""

    candidates: Matrix
    """Shape (candidates, len(CANDIDATE_FEATURES))."""
    context: Matrix
    """Shape (len(CONTEXT_FEATURES),)."""
    exchanges: Exchanges
    """Of the message with every turn of the candidates."""


def features(
    text: str,
    at: float,
    candidates: Sequence[Candidate],
    vector: Vector | None = None,
) -> Features:
    """The features of a message.

    Args:
        text: the message.
        at: when it came, in seconds (POSIX).
        candidates: the loops it may belong to, in any order.
        vector: the message's; without it, or without any turn's, nearness is NaN.
    """
    message = read(text)
    loops = [Loop.of(each) for each in candidates]
    words = Words.of(message, loops)
    cosines = Cosines.of(vector, loops)
    pairs = np.concatenate(
        [
            embedding_features(vector, at, loops, cosines),
            lexical_features(message, words, loops),
            courses(message, at, loops),
            style_features(message, loops),
            kind_features(text, loops),
        ],
        axis=1,
    )
    own = np.array(_of_message(message), dtype=np.float64)
    context = np.array(
        [*own, *_of_all(message, at, loops), *_most_and_newest(loops, pairs)], dtype=np.float64
    )
    each = np.concatenate([pairs, np.tile(own, (len(loops), 1))], axis=1)
    return Features(each, context, exchanges(message, words, vector, at, loops, cosines))


def _of_message(message: Reading) -> list[float]:
    look = message.shape
    return [
        math.log1p(look.length),
        math.log1p(len(message.terms - STOP_WORDS)),
        float(look.greets),
        float(look.requests),
        float(look.follows_up),
        float(look.answers),
        float(look.bids_farewell),
        float(look.points_back),
        float(look.is_question),
        float(len(look.codes)),
    ]


def _of_all(message: Reading, at: float, loops: Sequence[Loop]) -> list[float]:
    content = message.terms - STOP_WORDS
    unknown = sum(not any(term in loop.all.words for loop in loops) for term in content)
    strange = sum(not any(c in loop.all.codes for loop in loops) for c in message.shape.codes)
    lengths = sorted(each.shape.length for loop in loops for each in loop.by_user)
    usual = lengths[len(lengths) // 2] if lengths else _USUAL_LENGTH
    newest = max((loop.user_times[-1] for loop in loops), default=at)
    return [
        unknown / (len(content) + 1),
        float(strange),
        math.log1p(max(at - newest, 0.0)),
        math.log1p(message.shape.length) - math.log1p(usual),
        math.log1p(len(loops)),
        *_of_late(loops),
    ]


def _of_late(loops: Sequence[Loop]) -> list[float]:
    """Columns as in `HABITS_OF_LATE`."""
    said = sorted(
        (time, place, time == loop.candidate.goal.at)
        for place, loop in enumerate(loops)
        for time in loop.user_times
    )
    shares: list[float] = []
    for last in (said[-_LATE:], said[-_JUST_NOW:]):
        opened = sum(each[2] for each in last)
        stayed = sum(one[1] == other[1] for one, other in pairwise(last))
        shares.append(opened / len(last) if last else math.nan)
        shares.append(stayed / (len(last) - 1) if len(last) > 1 else math.nan)
    return shares


def _most_and_newest(loops: Sequence[Loop], pairs: Matrix) -> list[float]:
    if not loops:
        return [math.nan] * (len(_MOST_OF) + len(_NEWEST_OF))
    newest = int(np.argmax([loop.user_times[-1] for loop in loops]))
    columns = pairs[:, [_COLUMN[name] for name in _MOST_OF]]
    highest = np.where(np.isnan(columns), -np.inf, columns).max(axis=0)
    most = [float(value) if math.isfinite(value) else math.nan for value in highest]
    return [*most, *(float(pairs[newest, _COLUMN[name]]) for name in _NEWEST_OF)]
