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

The parts are added, each with a weight of `memory_tuning`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from service.domain.anchors import AnchorRef
from service.memory.memory_tuning import FEEDBACK, RANKING, RANKING_BY_TOKENS, RankingWeights
from service.memory.protocol import Vectors
from service.memory.search.feedback import likeness
from service.memory.search.query_terms import Question, count_terms
from service.memory.search.relevance import RelevanceHit, judge
from service.memory.vectors.unrelated_cosines import Unrelated

SCORE_DIGITS = 3
"""To how many decimals a score is reckoned, so that equal passages are equal: what is the same in
two of them differs by a millionth where their vectors were multiplied in another order."""


class Passage(NamedTuple):
    """A segment, as something to rank or as the context of another."""

    ref: AnchorRef
    content: str
    terms: str
    """As they are indexed, separated by spaces."""
    cosine: float | None
    """Of its vector and the question's; None when it has none."""
    match: float | None = None
    """How well its tokens match the question's, see `token_matches`; None when it has no codes."""
    time: float = 0.0
    """How well its moment fits a time that the question names, 0 to 1; 0 when it names none."""
    eligible: bool = True
    """Whether it may be found: filters exclude some that are still context."""


class InContext(NamedTuple):
    """A passage and those beside it in its run loop, whatever their type."""

    passage: Passage
    before: Sequence[Passage] = ()
    """Nearest first, without gaps; `tuned.CONTEXT` of them where there are so many."""
    after: Sequence[Passage] = ()
    """Nearest first, without gaps; `tuned.CONTEXT` of them where there are so many."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What the question's words are measured against."""

    segments: int
    """How many are indexed."""
    frequency: Mapping[str, int]
    """In how many of them each term of the question stands; a term may be missing for none."""


class Ranked(NamedTuple):
    """A segment in its place."""

    ref: AnchorRef
    relevance: float
    """0 to 1, growing with `score`: how sure it is that this is about what was asked, see
    `relevance`."""
    related: bool
    """Whether it is sure enough, or holds all words of the question."""
    hit: RelevanceHit
    """What that was judged by."""
    scores: dict[str, float]
    """What each part adds to the score, by name: ``meaning`` of the passage itself,
    ``meaning_nearby``, ``meaning_of_loop``, ``words`` with those nearby, ``words_of_loop``,
    ``question`` (a turn that only asks), ``time``, ``likeness`` to the first hits. A part that
    adds nothing is left out."""
    score: float
    """The sum of the parts, to `SCORE_DIGITS`; 0 without words in common is the average passage of
    the search."""


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

    A passage beside a good one is a candidate itself. The order is by score, then by place.

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
    meaning = _meaning(pool, words)
    loops = _by_loop(pool, words, meaning)
    placed = [
        _placed(place, pool, words, meaning, loops[passage.ref.run_loop_id])
        for place, passage in enumerate(pool.passages)
        if passage.eligible
    ]
    placed.sort(key=lambda entry: (-entry.score, entry.ref))
    placed = _with_feedback(placed, vectors or {})
    hits = [_found(entry, pool, words) for entry in placed]
    scores = [entry.score for entry in placed]
    return [
        Ranked(entry.ref, judged.relevance, judged.related, each, entry.scores, entry.score)
        for entry, each, judged in zip(
            placed, hits, judge(question, hits, scores, corpus.segments, unrelated), strict=True
        )
    ]


class _Pool:
    """The passages of a search, each once and by its place among them, and which stand side by
    side."""

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
        before: list[int | None] = [None] * len(self.passages)
        after: list[int | None] = [None] * len(self.passages)
        for earlier, later in pairs:
            before[later] = earlier
            after[earlier] = later
        self.at = {
            distance: _steps(after if distance > 0 else before, abs(distance))
            for distance in {-1, *self.weights.meaning_nearby, *self.weights.words_nearby}
        }
        """By distance: for each passage the one so many places after it, or before it where the
        distance is negative; None when it is not known."""
        self.asking: Sequence[bool] = [
            passage.content.rstrip().endswith(("?", "？")) for passage in self.passages
        ]
        """Whether each ends as questions do."""


def _steps(beside: Sequence[int | None], count: int) -> Sequence[int | None]:
    places: list[int | None] = list(range(len(beside)))
    for _ in range(count):
        places = [None if place is None else beside[place] for place in places]
    return places


@dataclass(frozen=True, slots=True)
class _Words:
    """What the words say. Passages are meant by their places in `_Pool.passages`."""

    rarity: Mapping[str, float]
    """Of each term, as a share: all together are 1."""
    total: float
    """What that share is of: the idf of all terms together."""
    strength: Sequence[Mapping[str, float]]
    """How much each passage has of each term that it has at all; saturated, 1 for one in a passage
    of average length."""

    def own(self, place: int) -> float:
        """How much of the question's words the passage itself has."""
        return sum(self.rarity[term] * much for term, much in self.strength[place].items())


def _words(question: Question, corpus: Corpus, pool: _Pool) -> _Words:
    idf = {term: _idf(corpus.frequency.get(term, 0), corpus.segments) for term in question.terms}
    total = sum(idf.values()) or 1.0
    lengths = [passage.terms.count(" ") + bool(passage.terms) for passage in pool.passages]
    average = (fmean(lengths) if lengths else 0.0) or 1.0
    strength: list[dict[str, float]] = []
    for passage, terms in zip(pool.passages, lengths, strict=True):
        length = 1 + pool.weights.length_share * (terms / average - 1)
        often = count_terms(idf, passage.terms)
        strength.append(
            {term: _saturated(count / length, pool.weights) for term, count in often.items()}
        )
    return _Words({term: weight / total for term, weight in idf.items()}, total, strength)


def _idf(frequency: int, segments: int) -> float:
    """BM25's, with one added within the logarithm, so that it is never negative (as Lucene's)."""
    return math.log(1 + (max(segments, frequency) - frequency + 0.5) / (frequency + 0.5))


def _saturated(count: float, weights: RankingWeights) -> float:
    return count * (weights.saturation + 1) / (count + weights.saturation)


def _meaning(pool: _Pool, words: _Words) -> list[float]:
    """Of each passage, in standard deviations from the average one."""
    by_words = [pool.weights.meaning_by_words * words.own(at) for at in range(len(pool.passages))]
    cosines = _standardised(
        [each.cosine for each in pool.passages],
        RANKING.usual_spread,
        by_words,
    )
    if not pool.by_tokens:
        return cosines
    return _standardised(
        [each.match for each in pool.passages],
        pool.weights.usual_spread,
        [pool.weights.meaning_by_cosine * each for each in cosines],
    )


def _standardised(
    values: Sequence[float | None], usual_spread: float, instead: Sequence[float]
) -> list[float]:
    """In standard deviations from the average one; and something else for what is None."""
    present = [each for each in values if each is not None]
    average = fmean(present) if present else 0.0
    # A handful of passages says little about the spread: the usual one counts as some more of them.
    squares = sum((each - average) ** 2 for each in present)
    squares += RANKING.usual_spread_counts * usual_spread**2
    spread = math.sqrt(squares / (len(present) + RANKING.usual_spread_counts))
    return [
        other if each is None else (each - average) / spread
        for each, other in zip(values, instead, strict=True)
    ]


@dataclass(slots=True)
class _Loop:
    """What is known of a run loop as a whole."""

    meaning: float
    """The best of its passages."""
    words: float
    """Which share of the question's words stands in any of them."""


def _by_loop(pool: _Pool, words: _Words, meaning: Sequence[float]) -> dict[str, _Loop]:
    held: dict[str, set[str]] = {}
    best: dict[str, float] = {}
    for place, passage in enumerate(pool.passages):
        loop = passage.ref.run_loop_id
        held.setdefault(loop, set()).update(words.strength[place])
        best[loop] = max(best.get(loop, -math.inf), meaning[place])
    return {
        loop: _Loop(best[loop], sum(words.rarity[term] for term in sorted(terms)))
        for loop, terms in held.items()
    }


class _Placed(NamedTuple):
    """A passage with its score."""

    place: int
    ref: AnchorRef
    scores: dict[str, float]
    score: float


def _placed(
    place: int, pool: _Pool, words: _Words, meaning: Sequence[float], loop: _Loop
) -> _Placed:
    passage, weights = pool.passages[place], pool.weights
    parts = {
        "meaning": weights.meaning * meaning[place],
        "meaning_nearby": _meaning_nearby(place, pool, meaning),
        "meaning_of_loop": weights.meaning_of_loop * loop.meaning,
        "words": weights.words * _words_in_window(place, pool, words) if loop.words else 0.0,
        "words_of_loop": weights.words_of_loop * loop.words,
        "question": weights.question if pool.asking[place] else 0.0,
        "time": weights.time * passage.time,
    }
    parts = {name: part for name, part in parts.items() if part}
    score = round(sum(parts.values()), SCORE_DIGITS)
    return _Placed(place, passage.ref, parts, score)


def _with_feedback(
    placed: Sequence[_Placed], vectors: Mapping[AnchorRef, Vectors]
) -> list[_Placed]:
    """What stands behind the first in the order that its likeness to them gives, below them."""
    gains = likeness([each.score for each in placed], [vectors.get(each.ref) for each in placed])
    fed = [
        each._replace(scores={**each.scores, "likeness": gain}, score=each.score + gain)
        if gain
        else each
        for each, gain in zip(placed, (round(gain, SCORE_DIGITS) for gain in gains), strict=True)
    ]
    first, behind = fed[: FEEDBACK.first], fed[FEEDBACK.first :]
    behind.sort(key=lambda each: (-each.score, each.ref))
    return first + [
        each._replace(score=round(min(each.score, first[-1].score), SCORE_DIGITS))
        for each in behind
    ]


def _found(entry: _Placed, pool: _Pool, words: _Words) -> RelevanceHit:
    """What says that a passage is about the question."""
    passage = pool.passages[entry.place]
    held = words.strength[entry.place]
    share = math.fsum(words.rarity[term] for term in held)
    return RelevanceHit(
        content=passage.content,
        terms=passage.terms.count(" ") + bool(passage.terms),
        cosine=passage.cosine,
        words=share,
        rarity=share * words.total,
    )


def _meaning_nearby(place: int, pool: _Pool, meaning: Sequence[float]) -> float:
    total = 0.0
    for distance, weight in pool.weights.meaning_nearby.items():
        near = pool.at[distance][place]
        if near is not None:
            total += weight * meaning[near]
    answered = pool.at[-1][place]
    if answered is not None and pool.asking[answered]:
        total += pool.weights.meaning_answered * meaning[answered]
    return total


def _words_in_window(place: int, pool: _Pool, words: _Words) -> float:
    window = words.strength[place]
    for distance, weight in pool.weights.words_nearby.items():
        near = pool.at[distance][place]
        if near is None or not words.strength[near]:
            continue
        if distance == -1 and pool.asking[near]:
            weight += pool.weights.words_answered
        window = {**window}
        for term, much in words.strength[near].items():
            window[term] = window.get(term, 0.0) + weight * much
    # Saturates at 2, and is 1 for one place in the passage itself.
    return sum(words.rarity[term] * 2 * much / (much + 1) for term, much in window.items())
