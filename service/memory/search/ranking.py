"""How what is known about segments becomes one order.

A segment is judged by its meaning and its words, both seen together with the turns around it: "Yes,
last summer" answers nothing without the question before it. Nothing is learnt per store, and no
score depends on which unit an index counts in:

- Cosines of one model lie close together and differ from model to model. They are counted in
  standard deviations from the mean, over all passages of the search.
- Words count by their rarity (the idf of BM25), and a word that stands near counts in part. The
  places of one word in a window are added first and saturate then, after BM25F (Robertson, Zaragoza
  and Taylor, "Simple BM25 extension to multiple weighted fields", 2004). The sum is a share of what
  the question's words could give, so that long questions and short ones compare.
- A passage without a vector (it waits for it, or there is no embedder) gets the meaning that
  passages of as many shared words usually have: words decide alone, and it is not buried.

The parts are added, each with a weight of `tuned`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean

from service.domain.anchors import AnchorRef
from service.memory.search.question import Question
from service.memory.tuned import RANKING


@dataclass(frozen=True, slots=True)
class Passage:
    """A segment, as something to rank or as the context of another."""

    ref: AnchorRef
    content: str
    terms: str
    """As they are indexed, separated by spaces."""
    cosine: float | None
    """Of its vector and the question's; None when it has none."""
    time: float = 0.0
    """How well its moment fits a time that the question names, 0 to 1; 0 when it names none."""
    eligible: bool = True
    """Whether it may be found: filters exclude some that are still context."""


@dataclass(frozen=True, slots=True)
class InContext:
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


@dataclass(frozen=True, slots=True)
class Ranked:
    """A segment in its place."""

    ref: AnchorRef
    relevance: float
    """0 to 1, growing with `score`; one half is the best hit of an ordinary question. It is no
    probability, see `tuned.RANKING`."""
    scores: dict[str, float]
    """What each part adds to the score, by name: ``meaning`` of the passage itself,
    ``meaning_nearby``, ``meaning_of_loop``, ``words`` with those nearby, ``words_of_loop``,
    ``question`` (a turn that only asks), ``time``. A part that adds nothing is left out."""
    score: float
    """The sum of the parts; 0 without words in common is the average passage of the search."""


def rank(question: Question, candidates: Iterable[InContext], corpus: Corpus) -> list[Ranked]:
    """All eligible passages that are given, in context or as context, best first. Pure.

    A passage beside a good one is a candidate itself. The order is by score, then by place.

    Args:
        question: what is looked for.
        candidates: the best of each index, in their context. A passage may occur many times; what
            is said of it first counts.
        corpus: how rare the question's words are.

    >>> said, asked = "We sailed to Iceland in May.", "Where did you spend your holiday?"
    >>> one = Passage(AnchorRef("a", 0, 0), asked, "where did you spend your holiday", 0.80)
    >>> two = Passage(AnchorRef("a", 0, 1), said, "we sail to iceland in may", 0.86)
    >>> other = Passage(AnchorRef("b", 0, 0), "Buy milk.", "buy milk", 0.78)
    >>> found = rank(
    ...     Question(("holiday?",), ("holiday",)),
    ...     [InContext(one, after=[two]), InContext(other)],
    ...     Corpus(3, {"holiday": 1}),
    ... )
    >>> [entry.ref.segment_index for entry in found if entry.ref.run_loop_id == "a"]
    [1, 0]
    """
    known = _Known(candidates)
    words = _words(question, corpus, known)
    meaning = _meaning(known, words)
    loops = _by_loop(known, words, meaning)
    ranked = [
        _ranked(ref, known, words, meaning, loops[ref.run_loop_id])
        for ref, passage in known.passages.items()
        if passage.eligible
    ]
    return sorted(ranked, key=lambda entry: (-entry.score, entry.ref))


class _Known:
    """The passages of a search, each once, and which stand next to each other."""

    def __init__(self, candidates: Iterable[InContext]) -> None:
        self.passages: dict[AnchorRef, Passage] = {}
        self._beside: dict[int, dict[AnchorRef, AnchorRef]] = {-1: {}, 1: {}}
        for each in candidates:
            row = [*reversed(each.before), each.passage, *each.after]
            for passage in row:
                self.passages.setdefault(passage.ref, passage)
            for earlier, later in pairwise(row):
                self._beside[-1][later.ref] = earlier.ref
                self._beside[1][earlier.ref] = later.ref

    @cached_property
    def asking(self) -> frozenset[AnchorRef]:
        """Those that end as questions do."""
        return frozenset(
            ref
            for ref, passage in self.passages.items()
            if passage.content.rstrip().endswith(("?", "？"))
        )

    def at(self, ref: AnchorRef, distance: int) -> AnchorRef | None:
        """The passage so many places after this one, or before it; None when it is not known."""
        found: AnchorRef | None = ref
        step = 1 if distance > 0 else -1
        for _ in range(abs(distance)):
            found = self._beside[step].get(found) if found is not None else None
        return found


@dataclass(frozen=True, slots=True)
class _Words:
    """What the words say."""

    rarity: Mapping[str, float]
    """Of each term, as a share: all together are 1."""
    strength: Mapping[AnchorRef, Mapping[str, float]]
    """How much each passage has of each term that it has at all; saturated, 1 for one in a passage
    of average length."""

    def own(self, ref: AnchorRef) -> float:
        """How much of the question's words the passage itself has."""
        return sum(self.rarity[term] * much for term, much in self.strength[ref].items())


def _words(question: Question, corpus: Corpus, known: _Known) -> _Words:
    idf = {term: _idf(corpus.frequency.get(term, 0), corpus.segments) for term in question.terms}
    total = sum(idf.values()) or 1.0
    split = {ref: passage.terms.split() for ref, passage in known.passages.items()}
    average = fmean(map(len, split.values())) if split else 1.0
    starts = tuple(term[:-1] for term in idf if term.endswith("*"))
    strength: dict[AnchorRef, dict[str, float]] = {}
    for ref, terms in split.items():
        length = 1 + RANKING.length_share * (len(terms) / (average or 1.0) - 1)
        often: dict[str, int] = {}
        for term in terms:
            if term in idf:
                often[term] = often.get(term, 0) + 1
            if starts and term.startswith(starts):
                for start in starts:
                    if term.startswith(start):
                        often[f"{start}*"] = often.get(f"{start}*", 0) + 1
        strength[ref] = {term: _saturated(count / length) for term, count in often.items()}
    return _Words({term: weight / total for term, weight in idf.items()}, strength)


def _idf(frequency: int, segments: int) -> float:
    """BM25's, with one added within the logarithm, so that it is never negative (as Lucene's)."""
    return math.log(1 + (max(segments, frequency) - frequency + 0.5) / (frequency + 0.5))


def _saturated(count: float) -> float:
    return count * (RANKING.saturation + 1) / (count + RANKING.saturation)


def _meaning(known: _Known, words: _Words) -> dict[AnchorRef, float]:
    """Of each passage, in standard deviations from the average one."""
    cosines = [each.cosine for each in known.passages.values() if each.cosine is not None]
    average = fmean(cosines) if cosines else 0.0
    # A handful of passages says little about the spread: the usual one counts as some more of them.
    squares = sum((cosine - average) ** 2 for cosine in cosines)
    squares += RANKING.usual_spread_counts * RANKING.usual_spread**2
    spread = math.sqrt(squares / (len(cosines) + RANKING.usual_spread_counts))
    return {
        ref: (passage.cosine - average) / spread
        if passage.cosine is not None
        else RANKING.meaning_by_words * words.own(ref)
        for ref, passage in known.passages.items()
    }


@dataclass(slots=True)
class _Loop:
    """What is known of a run loop as a whole."""

    meaning: float
    """The best of its passages."""
    words: float
    """Which share of the question's words stands in any of them."""


def _by_loop(known: _Known, words: _Words, meaning: Mapping[AnchorRef, float]) -> dict[str, _Loop]:
    held: dict[str, set[str]] = {}
    best: dict[str, float] = {}
    for ref in known.passages:
        held.setdefault(ref.run_loop_id, set()).update(words.strength[ref])
        best[ref.run_loop_id] = max(best.get(ref.run_loop_id, -math.inf), meaning[ref])
    return {
        loop: _Loop(best[loop], sum(words.rarity[term] for term in sorted(terms)))
        for loop, terms in held.items()
    }


def _ranked(
    ref: AnchorRef,
    known: _Known,
    words: _Words,
    meaning: Mapping[AnchorRef, float],
    loop: _Loop,
) -> Ranked:
    parts = {
        "meaning": RANKING.meaning * meaning[ref],
        "meaning_nearby": _meaning_nearby(ref, known, meaning),
        "meaning_of_loop": RANKING.meaning_of_loop * loop.meaning,
        "words": RANKING.words * _words_in_window(ref, known, words),
        "words_of_loop": RANKING.words_of_loop * loop.words,
        "question": RANKING.question if ref in known.asking else 0.0,
        "time": RANKING.time * known.passages[ref].time,
    }
    parts = {name: part for name, part in parts.items() if part}
    score = sum(parts.values())
    return Ranked(ref, _relevance(score), parts, score)


def _meaning_nearby(ref: AnchorRef, known: _Known, meaning: Mapping[AnchorRef, float]) -> float:
    total = 0.0
    for distance, weight in RANKING.meaning_nearby.items():
        near = known.at(ref, distance)
        if near is not None:
            total += weight * meaning[near]
    answered = known.at(ref, -1)
    if answered in known.asking:
        total += RANKING.meaning_answered * meaning[answered]
    return total


def _words_in_window(ref: AnchorRef, known: _Known, words: _Words) -> float:
    window = dict(words.strength[ref])
    for distance, weight in RANKING.words_nearby.items():
        near = known.at(ref, distance)
        if near is None:
            continue
        if distance == -1 and near in known.asking:
            weight += RANKING.words_answered
        for term, much in words.strength[near].items():
            window[term] = window.get(term, 0.0) + weight * much
    # Saturates at 2, and is 1 for one place in the passage itself.
    return sum(words.rarity[term] * 2 * much / (much + 1) for term, much in window.items())


def _relevance(score: float) -> float:
    steps = max(-500.0, min(500.0, RANKING.relevance_slope * (score - RANKING.relevance_half)))
    return 1 / (1 + math.exp(-steps))
