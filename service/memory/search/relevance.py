"""Where relevance ends: whether what was found is about the question at all.

The order of a search says what fits best, and something always does. Whether that is about the
question is judged apart, by the best hits together, on evidence that means the same in a store of
three segments and of a hundred thousand:

- how near the nearest lies, counted from where texts of its script and the question's lie that
  have nothing to do with each other; short texts lie near to anything, and count less;
- how well the tokens of the best match the question's;
- which share of the question's words the best of them holds, and how rare these are; but for the
  words of a time that it names: what was said on 8 May says nothing of "8 May";
- how many words were asked for, and how much is remembered: among much, something comes near by
  chance.

A logistic model makes a probability of it, see `tuned.RELEVANCE`. It is that of the best hit, and
the others' falls with their scores, so that it follows the order.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.domain.text import Script, script_of
from service.memory.memory_tuning import (
    RELATED_FROM,
    RELEVANCE,
    RELEVANCE_BY_TOKENS,
    RELEVANCE_BY_WORDS,
    RELEVANCE_FALLS,
    SHORT_PASSAGE,
    SHORT_PASSAGE_NEARER,
    STORES_ALIKE,
    RelevanceWeights,
)
from service.memory.search.query_terms import Question
from service.memory.vectors.unrelated_cosines import Unrelated

_ALL = 0.999


class RelevanceHit(NamedTuple):
    """A hit, as evidence."""

    content: str
    terms: int
    """How many words it has."""
    cosine: float | None
    """Of its vector and the question's; None when it has none."""
    words: float
    """Which share of the question's words it holds, each counted by its rarity."""
    rarity: float
    """The idf of these words together."""
    match: float | None = None
    """How well its tokens match the question's, see `TokenMatches`; None when it has no codes."""


class Judged(NamedTuple):
    """What is said of a hit."""

    relevance: float
    related: bool


class Evidence(NamedTuple):
    """What the best hits together say, in the units of `tuned.RelevanceWeights`."""

    nearness: float | None
    """None when no cosine can be read."""
    match: float | None
    """None when the best hit has no codes of tokens."""
    words: float
    rarity: float
    asked: float
    segments: float


def judge(
    question: Question,
    best: Sequence[RelevanceHit],
    scores: Sequence[float],
    held: Sequence[float] | npt.NDArray[np.float64],
    segments: int,
    unrelated: Unrelated | None,
    *,
    certain: npt.NDArray[np.bool_] | None = None,
) -> list[Judged]:
    """How relevant each hit is. Pure; the order stays.

    Args:
        question: what was asked.
        best: the first `memory_tuning.RELEVANCE_LOOKED_AT` hits.
        scores: of all hits, best first.
        held: which share of the question's words each of them holds.
        segments: how many are remembered.
        unrelated: where cosines of unrelated texts lie; None when that is not known.
        certain: what is asked for beyond doubt: said at the time that is all the question names.
    """
    if not best:
        return []
    falls = RELEVANCE_FALLS * (np.array(scores) - scores[0])
    logits = _best(question, best, segments, unrelated) + falls
    relevance = 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
    if certain is not None:
        relevance[certain] = 1.0
    # What holds all words is what somebody looks for who quotes.
    related = (relevance >= RELATED_FROM) | (np.array(held) >= _ALL)
    return [Judged(*each) for each in zip(relevance.tolist(), related.tolist(), strict=True)]


def weigh(
    question: Question, best: Sequence[RelevanceHit], segments: int, unrelated: Unrelated | None
) -> Evidence:
    """What the best hits say; at least one."""
    asked_in = script_of(question.texts[0])
    nearness = [
        _nearness(each, each.cosine, asked_in, unrelated)
        for each in best
        if unrelated is not None and each.cosine is not None
    ]
    return Evidence(
        nearness=max(nearness, default=None),
        match=best[0].match if nearness else None,
        words=max(each.words for each in best),
        rarity=max(each.rarity for each in best),
        asked=math.log1p(_words_asked(question)),
        segments=math.log(segments + STORES_ALIKE),
    )


def logit(evidence: Evidence) -> float:
    """Of the probability that the best hit is about the question."""
    weights: RelevanceWeights = RELEVANCE if evidence.match is None else RELEVANCE_BY_TOKENS
    if evidence.nearness is None:
        weights = RELEVANCE_BY_WORDS
    return (
        weights.constant
        + weights.nearness * (evidence.nearness or 0.0)
        + weights.match * (evidence.match or 0.0)
        + weights.words * evidence.words
        + weights.rarity * evidence.rarity
        + weights.asked * evidence.asked
        + weights.segments * evidence.segments
    )


def _best(
    question: Question, best: Sequence[RelevanceHit], segments: int, unrelated: Unrelated | None
) -> float:
    """The logit of the best hit. Those that still wait for their vectors speak by their words."""
    overall = logit(weigh(question, best, segments, unrelated))
    waiting = [each for each in best if each.cosine is None]
    if not waiting or unrelated is None:
        return overall
    return max(overall, logit(weigh(question, waiting, segments, None)))


def _words_asked(question: Question) -> float:
    """Of scripts without spaces, the terms are pairs of characters: about two for a word."""
    return sum(0.5 if unicodedata.category(term[0]) == "Lo" else 1.0 for term in question.terms)


def _nearness(each: RelevanceHit, cosine: float, asked_in: Script, unrelated: Unrelated) -> float:
    said_in = script_of(each.content)
    if asked_in != said_in:
        spread = unrelated.across
    else:
        spread = unrelated.han if said_in == "han" else unrelated.other
    short = max(0.0, 1 - each.terms / SHORT_PASSAGE)
    return (cosine - spread.mean) / spread.deviation - SHORT_PASSAGE_NEARER * short
