"""What the words, the course and the time of each candidate say about a message, and its style.

In a room with several people the same hand shows in capitals, signs and short forms.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from service.memory.ledger.terms import STOP_WORDS
from service.routing.features.embedding_features import Matrix, lead
from service.routing.text.text_reading import Loop, Reading
from service.routing.text.word_pieces import shared_pieces

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


OVERLAP_FEATURES = (
    "overlap_last_user",
    "overlap_last_assistant",
    "overlap_last_two",
    "overlap_user",
    "overlap_goal",
    "overlap_loop",
    "own_words",
    "own_phrases",
    "shared_phrases",
    "said_before",
    "codes_shared",
    "codes_elsewhere",
    "heads_in_last",
    "heads_in_loop",
    "lead_overlap",
    "lead_last_two",
    "pieces_last_two",
    "pieces_loop",
    "own_pieces",
    "lead_pieces",
)
TIME_FEATURES = (
    "seconds_since_user",
    "rank_by_time",
    "messages_between",
    "messages_since_second_last",
    "share_of_last_5",
    "share_of_last_10",
    "share_of_last_20",
    "rhythm",
)
COURSE_FEATURES = (
    *TIME_FEATURES,
    "turns",
    "has_assistant",
    "last_asks",
    "last_asks_yes_or_no",
    "last_length",
    "closed",
    "dismissed",
    "same_length",
    "same_beginning",
    "same_end",
    "same_case",
    "same_script",
    "open_for",
    "turns_by_time",
    "beyond_pace",
    "last_gap",
    "usual_gap",
    "last_is_question",
    "last_requests",
    "last_follows_up",
    "last_answers",
    "last_bids_farewell",
    "goal_is_question",
)
_LEADS = (
    ("lead_overlap", "overlap_loop"),
    ("lead_last_two", "overlap_last_two"),
    ("lead_pieces", "pieces_loop"),
)
_MOST_TERMS = 80
_STOP_WORD_WEIGHT = 0.15
_USUAL_SECONDS = 60.0
_NEVER = 6.0


@dataclass(frozen=True, slots=True)
class Words:
    """The message's words against all candidates."""

    weights: dict[str, float]
    """What each term weighs: the fewer candidates hold it, the more."""
    whole: float
    """What all of them weigh."""
    single: frozenset[str]
    """Terms that one candidate alone holds."""
    phrases: dict[str, int]
    """How many candidates hold a phrase."""
    codes: frozenset[str]
    """Those that some candidate holds."""

    @classmethod
    def of(cls, message: Reading, loops: Sequence[Loop]) -> Words:
        """Count who holds what."""
        holding = {
            term: sum(term in loop.all.words for loop in loops)
            for term in sorted(message.terms)[:_MOST_TERMS]
        }
        weights = {
            term: math.log1p((len(loops) + 1) / (count + 0.5))
            * (_STOP_WORD_WEIGHT if term in STOP_WORDS else 1.0)
            for term, count in holding.items()
        }
        phrases = {
            each: sum(each in loop.all.phrases for loop in loops) for each in message.phrases
        }
        codes = frozenset(
            c for c in message.shape.codes if any(c in loop.all.codes for loop in loops)
        )
        single = frozenset(term for term, count in holding.items() if count == 1)
        return cls(weights, math.fsum(weights.values()), single, phrases, codes)

    def overlap(self, words: Set[str]) -> float:
        """The share of the message's words, by weight, that are among these."""
        return self.weight(self.weights.keys() & words) / self.whole if self.whole else 0.0

    def weight(self, shared: Set[str]) -> float:
        """What terms of the message weigh together, in whatever order; cut-off ones nothing."""
        return math.fsum(self.weights[term] for term in self.weights.keys() & shared)


def lexical_features(message: Reading, words: Words, loops: Sequence[Loop]) -> Matrix:
    """One row a candidate, columns as in `OVERLAP_FEATURES`; `words` are the message's."""
    table = np.array([_overlaps(message, words, loop) for loop in loops], dtype=np.float64)
    table = table.reshape(len(loops), len(OVERLAP_FEATURES))
    first = OVERLAP_FEATURES.index("pieces_last_two")
    table[:, first : first + 3] = shared_pieces(
        message.lower,
        [(loop.goal.lower, *(each.lower for each in loop.readings)) for loop in loops],
        [tuple(each.lower for each in loop.readings[-2:]) for loop in loops],
    )
    for name, of in _LEADS:
        values = table[:, OVERLAP_FEATURES.index(of)]
        ahead = lead(values)
        table[:, OVERLAP_FEATURES.index(name)] = np.where(np.isnan(ahead), values, ahead)
    return table


def _overlaps(message: Reading, words: Words, loop: Loop) -> list[float]:
    by_user, by_assistant = loop.by_user, loop.by_assistant
    last_two = loop.readings[-2:]
    shared = message.phrases & loop.all.phrases
    heads = message.shape.heads
    return [
        words.overlap(by_user[-1].terms) if by_user else 0.0,
        words.overlap(by_assistant[-1].terms) if by_assistant else 0.0,
        words.overlap(last_two[0].terms | last_two[-1].terms),
        words.overlap(loop.said_by_user),
        words.overlap(loop.goal.terms),
        words.overlap(loop.all.words),
        words.weight(words.single & loop.all.words),
        float(sum(words.phrases[phrase] == 1 for phrase in shared)),
        float(len(shared)),
        max((_jaccard(message.terms, each.terms) for each in by_user), default=0.0),
        float(len(message.shape.codes & loop.all.codes)),
        float(len(words.codes - loop.all.codes)),
        float(sum(any(head in each.lower for each in last_two) for head in heads)),
        float(sum(any(head in each.lower for each in loop.readings) for head in heads)),
        *[0.0] * 6,  # the leads and pieces, which need all rows
    ]


def _jaccard(one: Set[str], other: Set[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def courses(message: Reading, at: float, loops: Sequence[Loop]) -> Matrix:
    """One row a candidate, columns as in `COURSE_FEATURES`.

    Only when the person spoke counts: how long the assistant takes says nothing.
    """
    spoken = sorted(time for loop in loops for time in loop.user_times)
    ends = sorted(loop.user_times[-1] for loop in loops)
    rows = [_course(message, at, loop, spoken, ends) for loop in loops]
    return np.array(rows, dtype=np.float64).reshape(len(loops), len(COURSE_FEATURES))


def _alike(message: Reading, by_user: Sequence[Reading]) -> tuple[float, float, float, float]:
    """The share of the person's turns that begin, end, and are capitalised as the message is.

    Turns in another script say nothing of the hand: NaN where there are no others. Last the share
    of those that are not in another script.
    """
    mine = message.manner
    own = [each.manner for each in by_user if mine.may_be_compared(each.manner)]
    if not own:
        return math.nan, math.nan, math.nan, 0.0
    return (
        sum(each.beginning == mine.beginning for each in own) / len(own),
        sum(each.end == mine.end for each in own) / len(own),
        sum(each.has_capital == mine.has_capital for each in own) / len(own),
        len(own) / len(by_user),
    )


def _later(times: Sequence[float], than: float) -> int:
    """How many of ascending times are later."""
    return len(times) - bisect_right(times, than)


def _course(
    message: Reading, at: float, loop: Loop, spoken: Sequence[float], ends: Sequence[float]
) -> list[float]:
    times = loop.user_times
    since = math.log1p(max(at - times[-1], 0.0))
    gaps = sorted(max(later - sooner, 1.0) for sooner, later in pairwise(times))
    usual = gaps[len(gaps) // 2] if gaps else _USUAL_SECONDS
    last, awaiting = loop.readings[-1].shape, loop.candidate.awaiting
    by_user = loop.by_user or (loop.goal,)
    count = len(by_user)
    usual_length = sum(math.log1p(each.shape.length) for each in by_user) / count
    farewell = by_user[-1].shape
    open_for = math.log1p(max(at - loop.candidate.goal.at, 0.0))
    return [
        since,
        float(_later(ends, times[-1])),
        math.log1p(_later(spoken, times[-1])),
        math.log1p(_later(spoken, times[-2])) if len(times) > 1 else _NEVER,
        (len(times) - bisect_left(times, spoken[-5:][0])) / 5,
        (len(times) - bisect_left(times, spoken[-10:][0])) / 10,
        (len(times) - bisect_left(times, spoken[-20:][0])) / 20,
        since - math.log1p(usual),
        math.log1p(loop.candidate.turn_count),
        float(any(turn.role == "assistant" for turn in loop.turns)),
        float(last.asks or awaiting),
        float((last.asks and last.asks_yes_or_no) or awaiting),
        math.log1p(last.length),
        float(farewell.bids_farewell and not farewell.is_question and not awaiting),
        float(last.dismisses and loop.turns[-1].role == "assistant" and not awaiting),
        abs(math.log1p(message.shape.length) - usual_length),
        *_alike(message, by_user),
        open_for,
        math.log1p(loop.candidate.turn_count) - open_for,
        since - math.log1p(max(at - spoken[-20:][0], 0.0)),
        math.log1p(times[-1] - times[-2]) if len(times) > 1 else -1.0,
        math.log1p((times[-1] - times[0]) / (len(times) - 1)) if len(times) > 1 else -1.0,
        float(last.is_question),
        float(last.requests),
        float(last.follows_up),
        float(last.answers),
        float(last.bids_farewell),
        float(loop.goal.shape.is_question),
    ]
