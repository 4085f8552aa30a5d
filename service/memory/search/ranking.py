"""How what is known about segments becomes one order.

A segment is judged by its meaning and its words, both seen together with the turns around it: "Yes,
last summer" answers nothing without the question before it. Nothing is learnt per store, and no
score depends on which unit an index counts in:

- Meaning is how well a passage's tokens match the question's where most have codes of them, and
  else how near the vectors lie. Either lies close together and differs from model to model: it is
  counted in standard deviations from the mean, over all passages of the search.
- Words count by their rarity (the idf of BM25), and a word that stands near counts in part. The
  places of one word in a window are added first and saturate then, after BM25F (Robertson, Zaragoza
  and Taylor, "Simple BM25 extension to multiple weighted fields", 2004). The sum is a share of what
  the question's words could give, so that long questions and short ones compare.
- A passage without a vector (it waits for it, or there is no embedder) gets the meaning that
  passages of as many shared words usually have: words decide alone, and it is not buried.

The parts are added, each with a weight of `memory_tuning`. Of a question that asks for a time and
nothing else, what was said then comes first, in the order in which it was said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.domain.anchors import AnchorRef
from service.memory.memory_tuning import (
    FEEDBACK,
    RANKING,
    RANKING_BY_TOKENS,
    RELEVANCE_LOOKED_AT,
    RankingWeights,
)
from service.memory.protocol import Vectors
from service.memory.search.feedback import likeness
from service.memory.search.passages import Corpus, InContext, Passage
from service.memory.search.query_terms import Question, count_terms
from service.memory.search.relevance import RelevanceHit, judge
from service.memory.vectors.unrelated_cosines import Unrelated

_Array = npt.NDArray[np.float64]
_Places = npt.NDArray[np.intp]

SCORE_DIGITS = 3
"""To how many decimals a score is reckoned, so that equal passages are equal: what is the same in
two of them differs by a millionth where their vectors were multiplied in another order."""

_SAID_THEN = 100.0
"""More than all parts together."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A segment in its place."""

    ref: AnchorRef
    relevance: float
    """0 to 1, growing with `score`: how sure it is that this is about what was asked, see
    `relevance`."""
    related: bool
    """Whether it is sure enough, or holds all words of the question, or was said at the time that
    the question asks for and names nothing besides."""
    score: float
    """The sum of the parts, to `SCORE_DIGITS`; 0 without words in common is the average passage of
    the search."""
    likeness: float
    """To the first hits, which adds to the score."""
    table: _Table
    """Of the whole search."""
    place: int
    """Its row there."""

    @property
    def scores(self) -> dict[str, float]:
        """What each part adds to the score, by name: ``meaning`` of the passage itself,
        ``meaning_nearby``, ``meaning_of_loop``, ``words`` with those nearby, ``words_of_loop``,
        ``question`` (a turn that only asks), ``time``, ``likeness`` to the first hits. A part that
        adds nothing is left out."""
        parts = {name: float(values[self.place]) for name, values in self.table.parts.items()}
        return {name: part for name, part in (*parts.items(), ("likeness", self.likeness)) if part}

    @property
    def words(self) -> dict[str, float]:
        """``held``, which share of the question's words it holds, and ``rarity``, the idf of these
        together; nothing where it holds none."""
        held = float(self.table.held[self.place])
        return {"held": held, "rarity": held * self.table.total} if held else {}


def rank(
    question: Question,
    candidates: Iterable[InContext],
    corpus: Corpus,
    unrelated: Unrelated | None = None,
    *,
    weights: RankingWeights | None = None,
    vectors: Mapping[AnchorRef, Vectors] | None = None,
) -> list[Ranked]:
    """All eligible passages that are given, in context or as context, best first. Pure.

    A passage beside a good one is a candidate itself. The order is by score, then by place; where a
    time alone is asked for, what was said then comes first, by time.

    Args:
        question: what is looked for.
        candidates: the best of each index, in their context. A passage may occur many times; what
            is said of it first counts.
        corpus: how rare the question's words are.
        unrelated: where the cosines of what has nothing to do with each other lie; None when that
            is not known, or nothing has a vector: then words alone tell what is about the question.
            The order does not depend on it.
        weights: of the parts; None for those that are tuned.
        vectors: of passages, each of shape (dimension,) and length 1: then what stands behind the
            first is moved up by its likeness to them, see `feedback`.

    >>> said, asked = "We sailed to Iceland in May.", "Where did you spend your holiday?"
    >>> one = Passage(AnchorRef("a", 0, 0), asked, "where did you spend your holiday", 0.80)
    >>> two = Passage(AnchorRef("a", 0, 1), said, "we sail to iceland in may", 0.86)
    >>> other = Passage(AnchorRef("b", 0, 0), "Buy milk.", "buy milk", 0.78)
    >>> ranked = rank(
    ...     Question(("holiday?",), ("holiday",)),
    ...     [InContext(one, after=[two]), InContext(other)],
    ...     Corpus(3, {"holiday": 1}),
    ... )
    >>> [entry.ref.segment_index for entry in ranked if entry.ref.run_loop_id == "a"]
    [1, 0]
    """
    pool = _Pool(candidates, weights)
    words = _words(question, corpus, pool)
    table = _Table(_parts(question, pool, words), words.held, words.total)
    placed = table.placed(pool.passages, question)
    if not question.by_time:
        placed = _with_feedback(placed, vectors or {})
    order = [each.place for each in placed]
    judged = judge(
        question,
        [words.hit(pool.passages[each.place], each.place) for each in placed[:RELEVANCE_LOOKED_AT]],
        _as_of_topic(placed, pool, words),
        table.held[order],
        corpus.segments,
        unrelated,
        certain=_said_then(question, pool)[order],
    )
    return [
        Ranked(each.ref, *verdict, each.score, each.likeness, table, each.place)
        for each, verdict in zip(placed, judged, strict=True)
    ]


class _Placed(NamedTuple):
    """A passage with its score."""

    place: int
    ref: AnchorRef
    score: float
    likeness: float = 0.0


@dataclass(frozen=True, slots=True)
class _Table:
    """What is said of the passages of a search; all arrays have a number for each."""

    parts: Mapping[str, _Array]
    """Of the score, by name."""
    held: _Array
    """Which share of the question's words each holds."""
    total: float
    """The idf of all of them together."""

    def placed(self, passages: Sequence[Passage], question: Question) -> list[_Placed]:
        """The passages that may be found, best first."""
        forwards = {"oldest": 1, "newest": -1}.get(question.asks, 0)
        scores = np.round(np.sum([*self.parts.values()], axis=0), SCORE_DIGITS).tolist()
        placed = [
            _Placed(place, passage.ref, score)
            for place, (passage, score) in enumerate(zip(passages, scores, strict=True))
            if passage.eligible
        ]
        placed.sort(key=lambda each: (-each.score, forwards * passages[each.place].at, each.ref))
        return placed


class _Pool:
    """The passages of a search, each once and by its place among them, and which stand side by
    side. All arrays have a row for each."""

    def __init__(self, candidates: Iterable[InContext], weights: RankingWeights | None) -> None:
        self.passages: list[Passage] = []
        places: dict[AnchorRef, int] = {}
        pairs: list[tuple[int, int]] = []
        for each in candidates:
            row = []
            for passage in (*reversed(each.before), each.passage, *each.after):
                place = places.setdefault(passage.ref, len(self.passages))
                if place == len(self.passages):
                    self.passages.append(passage)
                row.append(place)
            pairs += pairwise(row)
        matched = sum(passage.match is not None for passage in self.passages)
        self.by_tokens = 2 * matched > len(self.passages)
        """Whether tokens tell the meaning of most of them; else vectors do."""
        self.weights = weights or (RANKING_BY_TOKENS if self.by_tokens else RANKING)
        self._nowhere = len(self.passages)
        self._before, self._after = self._beside(pairs)
        self.asking = np.array(
            [passage.content.rstrip().endswith(("?", "？")) for passage in self.passages],
            dtype=bool,
        )
        """Whether each ends as questions do."""
        loops: dict[str, int] = {}
        self.loops = np.array(
            [loops.setdefault(each.ref.run_loop_id, len(loops)) for each in self.passages],
            dtype=np.intp,
        )
        """Which run loop each belongs to, by the order in which these come."""

    def _beside(self, pairs: Sequence[tuple[int, int]]) -> tuple[_Places, _Places]:
        """Before and after each; one place more stands for none, and for what is beside it."""
        before, after = np.full((2, self._nowhere + 1), self._nowhere, dtype=np.intp)
        if pairs:
            earlier, later = np.array(pairs, dtype=np.intp).T
            before[later], after[earlier] = earlier, later
        return before, after

    def at(self, distance: int, values: _Array) -> _Array:
        """Values of the passages so many places after each, or before it where the distance is
        negative; 0 where that is not known."""
        beside = self._after if distance > 0 else self._before
        places = np.arange(self._nowhere)
        for _ in range(abs(distance)):
            places = beside[places]
        return np.concatenate([values, np.zeros_like(values[:1])])[places]

    def by_loop(self, values: _Array, least: float) -> _Array:
        """For each passage the most of all passages of its run loop, at least `least`."""
        most = np.full((len(self.passages), *values.shape[1:]), least)
        np.maximum.at(most, self.loops, values)
        return most[self.loops]


@dataclass(frozen=True, slots=True)
class _Words:
    """What the words say."""

    rarity: _Array
    """Of each term, as a share: all together are 1."""
    total: float
    """The idf of all terms of the topic together."""
    topic_share: float
    """Which share the topic's terms are of all."""
    strength: _Array
    """How much each passage has of each term, shape (passages, terms); saturated, 1 for one in a
    passage of average length."""
    lengths: Sequence[int]
    """Terms in each passage."""
    held: _Array
    """Which share of the topic's words each passage holds, by their idf."""

    def hit(self, passage: Passage, place: int) -> RelevanceHit:
        """What says that a passage is about the question."""
        held = float(self.held[place])
        return RelevanceHit(
            content=passage.content,
            terms=self.lengths[place],
            cosine=passage.cosine,
            words=held,
            rarity=held * self.total,
            match=passage.match,
        )


def _words(question: Question, corpus: Corpus, pool: _Pool) -> _Words:
    terms = {term: column for column, term in enumerate(question.terms)}
    idf = np.array([_idf(corpus.frequency.get(term, 0), corpus.segments) for term in terms])
    total = float(idf.sum()) or 1.0
    of_topic = idf * np.array([term not in question.of_time for term in terms], dtype=float)
    topic_total = float(of_topic.sum()) or 1.0
    lengths = [passage.terms.count(" ") + bool(passage.terms) for passage in pool.passages]
    counts = np.zeros((len(pool.passages), len(terms)))
    for place, passage in enumerate(pool.passages):
        for term, often in count_terms(terms, passage.terms).items():
            counts[place, terms[term]] = often
    average = (fmean(lengths) if lengths else 0.0) or 1.0
    relative = 1 + pool.weights.length_share * (np.array(lengths) / average - 1)
    counts /= relative[:, None]
    k1 = pool.weights.saturation
    strength = counts * (k1 + 1) / (counts + k1)
    held = (counts > 0) @ of_topic / topic_total
    return _Words(idf / total, topic_total, topic_total / total, strength, lengths, held)


def _idf(frequency: int, segments: int) -> float:
    """BM25's, with one added within the logarithm, so that it is never negative (as Lucene's)."""
    return math.log(1 + (max(segments, frequency) - frequency + 0.5) / (frequency + 0.5))


def _as_of_topic(placed: Sequence[_Placed], pool: _Pool, words: _Words) -> list[float]:
    """The scores, with what lacks the topic's words as far behind the first as if the question had
    named no time: 8 chairs are not the boat of 8 May."""
    lacking = [
        pool.weights.words * (1 - words.topic_share) * (1 - float(words.held[each.place]))
        for each in placed
    ]
    return [
        each.score - max(0.0, lack - lacking[0]) for each, lack in zip(placed, lacking, strict=True)
    ]


def _said_then(question: Question, pool: _Pool) -> npt.NDArray[np.bool_]:
    """Whether a time alone is asked for, and each passage was said then."""
    alone = question.asks != "topic"
    return np.array([alone and passage.then for passage in pool.passages], dtype=bool)


def _parts(question: Question, pool: _Pool, words: _Words) -> dict[str, _Array]:
    """What each part adds to the score of each passage, by the names of `Ranked.scores`."""
    weights = pool.weights
    meaning = _meaning(pool, words)
    held = pool.by_loop((words.strength > 0).astype(float), 0.0)
    parts = {
        "meaning": weights.meaning * meaning,
        "meaning_nearby": _meaning_nearby(pool, meaning),
        "meaning_of_loop": weights.meaning_of_loop * pool.by_loop(meaning, -np.inf),
        "words": weights.words * _words_in_window(pool, words),
        "words_of_loop": weights.words_of_loop * (held @ words.rarity),
        "question": weights.question * pool.asking,
        "time": weights.time * np.array([passage.time for passage in pool.passages]),
    }
    if not question.by_time:
        return parts
    then = _said_then(question, pool)
    parts = {name: np.where(then, 0.0, values) for name, values in parts.items()}
    return {**parts, "time": np.where(then, _SAID_THEN, parts["time"])}


def _meaning(pool: _Pool, words: _Words) -> _Array:
    """Of each passage, in standard deviations from the average one."""
    cosines = _standardised(
        [each.cosine for each in pool.passages],
        RANKING.usual_spread,
        pool.weights.meaning_by_words * (words.strength @ words.rarity),
    )
    if not pool.by_tokens:
        return cosines
    return _standardised(
        [each.match for each in pool.passages],
        pool.weights.usual_spread,
        pool.weights.meaning_by_cosine * cosines,
    )


def _standardised(values: Sequence[float | None], usual_spread: float, instead: _Array) -> _Array:
    """In standard deviations from the average one; and something else for what is None."""
    all_values = np.array(values, dtype=float)  # None becomes NaN
    present = ~np.isnan(all_values)
    apart = all_values - (all_values[present].mean() if present.any() else 0.0)
    # A handful of passages says little about the spread: the usual one counts as some more of them.
    squares = float(np.sum(apart[present] ** 2)) + RANKING.usual_spread_counts * usual_spread**2
    spread = math.sqrt(squares / (int(present.sum()) + RANKING.usual_spread_counts))
    return np.where(present, apart / spread, instead)


def _meaning_nearby(pool: _Pool, meaning: _Array) -> _Array:
    answered = pool.weights.meaning_answered * pool.at(-1, meaning * pool.asking)
    return answered + sum(
        weight * pool.at(distance, meaning)
        for distance, weight in pool.weights.meaning_nearby.items()
    )


def _words_in_window(pool: _Pool, words: _Words) -> _Array:
    window = words.strength.copy()
    for distance, weight in pool.weights.words_nearby.items():
        more = pool.weights.words_answered if distance == -1 else 0.0
        window += pool.at(distance, words.strength * (weight + more * pool.asking)[:, None])
    # Saturates at 2, and is 1 for one place in the passage itself.
    return (2 * window / (window + 1)) @ words.rarity


def _with_feedback(
    placed: Sequence[_Placed], vectors: Mapping[AnchorRef, Vectors]
) -> list[_Placed]:
    """What stands behind the first in the order that its likeness to them gives, below them."""
    gains = likeness([each.score for each in placed], [vectors.get(each.ref) for each in placed])
    rounded = [round(gain, SCORE_DIGITS) for gain in gains]
    first = [*placed[: FEEDBACK.first]]
    behind = [
        each._replace(score=round(each.score + gain, SCORE_DIGITS), likeness=gain)
        for each, gain in [*zip(placed, rounded, strict=True)][FEEDBACK.first :]
    ]
    behind.sort(key=lambda each: (-each.score, each.ref))
    return first + [each._replace(score=min(each.score, first[-1].score)) for each in behind]
