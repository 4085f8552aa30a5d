"""What speaks for a message's belonging to a run loop, as named numbers.

Pure: the same input gives the same numbers, whatever was asked before. `CANDIDATE_FEATURES`
describe a candidate, `CONTEXT_FEATURES` the message and all candidates together: by these the
option *new* is judged. Without vectors the features of nearness are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.memory.ledger.terms import STOP_WORDS
from service.routing.features.embedding_features import (
    NEARNESS_FEATURES,
    Cosines,
    Matrix,
    Projection,
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
from service.routing.features.reader_features import READER_CONTEXT, READER_FEATURES, read_by
from service.routing.features.turn_features import Exchanges, exchanges
from service.routing.features.turn_network import Network
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
    "opens",
)
PAIR_FEATURES = (*NEARNESS_FEATURES, *OVERLAP_FEATURES, *COURSE_FEATURES, *HABIT_FEATURES)
CANDIDATE_FEATURES = (*PAIR_FEATURES, *MESSAGE_FEATURES, *READER_FEATURES)
"""Each row also holds what the message alone says, so that both can be weighed together."""
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
    "fit",
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
)
_NEWEST_OF = ("cos_last_user", "cos_last_assistant", "cos_best", "fit", "overlap_loop", "closed")
CONTEXT_FEATURES = (
    *MESSAGE_FEATURES,
    "unknown_words",
    "unknown_codes",
    "newest_seconds",
    "relative_length",
    *(f"most_{name}" for name in _MOST_OF),
    *(f"newest_{name}" for name in _NEWEST_OF),
    *READER_CONTEXT,
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
    projection: Projection | None = None,
    reader: Network | None = None,
) -> Features:
    """The features of a message.

    Args:
        text: the message.
        at: when it came, in seconds (POSIX).
        candidates: the loops it may belong to, in any order.
        vector: the message's; without it, or without any turn's, nearness is NaN.
        projection: what was learned about vectors of the same embedder, if anything.
        reader: a network that was trained with it.
    """
    message = read(text)
    projection = projection if projection is not None and projection.knows(text) else None
    loops = [Loop.of(each) for each in candidates]
    words = Words.of(message, loops)
    cosines = Cosines.of(vector, loops)
    pairs = np.concatenate(
        [
            embedding_features(vector, at, loops, cosines, projection),
            lexical_features(message, words, loops),
            courses(message, at, loops),
            style_features(message, loops),
        ],
        axis=1,
    )
    opens = projection.opens(vector) if projection and vector is not None else math.nan
    own = np.array(_of_message(message, opens), dtype=np.float64)
    context = np.array(
        [*own, *_of_all(message, at, loops), *_most_and_newest(loops, pairs)], dtype=np.float64
    )
    context = np.append(context, [math.nan] * len(READER_CONTEXT))
    each = np.full((len(loops), len(CANDIDATE_FEATURES)), math.nan)
    each[:, : len(PAIR_FEATURES)] = pairs
    each[:, len(PAIR_FEATURES) : -len(READER_FEATURES)] = own
    held = exchanges(message, words, vector, at, loops, cosines)
    if reader is not None and projection is not None and vector is not None and loops:
        each[:, -len(READER_FEATURES) :], context[-len(READER_CONTEXT) :] = read_by(
            reader, each, context, held
        )
    return Features(each, context, held)


def _of_message(message: Reading, opens: float) -> list[float]:
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
        opens,
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
    ]


def _most_and_newest(loops: Sequence[Loop], pairs: Matrix) -> list[float]:
    if not loops:
        return [math.nan] * (len(_MOST_OF) + len(_NEWEST_OF))
    newest = int(np.argmax([loop.user_times[-1] for loop in loops]))
    columns = pairs[:, [_COLUMN[name] for name in _MOST_OF]]
    highest = np.where(np.isnan(columns), -np.inf, columns).max(axis=0)
    most = [float(value) if math.isfinite(value) else math.nan for value in highest]
    return [*most, *(float(pairs[newest, _COLUMN[name]]) for name in _NEWEST_OF)]
