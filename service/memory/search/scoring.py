"""Scoring: candidates with what stands around them, put into order by the formula of `ranking`.

A reranker, where the settings name one, takes a second, slower look at the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from service.domain.errors import RondoError
from service.memory.ledger.protocol import Around, Ledger, SegmentRow
from service.memory.memory_tuning import CONTEXT
from service.memory.protocol import SearchFilters, Vectors
from service.memory.rerankers.protocol import Reranker
from service.memory.search.candidates import Candidates, SearchScope, all_rows
from service.memory.search.passages import InContext, Passage
from service.memory.search.query_terms import Question
from service.memory.search.ranking import Ranked, rank
from service.memory.search.time.time_expressions import Timeliness
from service.memory.vectors.dense_search import DenseSide
from service.memory.vectors.embedding_store import KnownVectors

_EVERYTHING = SearchFilters()


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A segment in its place."""

    row: SegmentRow
    ranked: Ranked
    relevance: float
    related: bool
    """Whether it seems to be about the question; the reranker, too, leaves that as it is."""
    found_by: Mapping[str, float]
    """``cosine`` and ``bm25`` as the indexes gave them, where they did, and ``lexical``, the latter
    as a share of the best; ``match``, see `TokenMatches`; ``rerank``, as the reranker says."""

    @property
    def scores(self) -> dict[str, float]:
        """The formula's parts, see `Ranked.scores` and `Ranked.words`, and what it was found by."""
        return {**self.ranked.scores, **self.ranked.words, **self.found_by}


class Pool(NamedTuple):
    """What a search looks at: its candidates and those beside them."""

    rows: Mapping[int, SegmentRow]
    vectors: Mapping[int, Vectors]
    """Of those that have one, each of shape (dimension,)."""
    cosines: Mapping[int, float]
    """Of those that have a vector."""
    matches: Mapping[int, float]
    """Of those that have codes of tokens, see `TokenMatches`."""
    passages: Sequence[InContext]
    """The candidates."""


class Scorer:
    """Reads what the formula needs, and applies it. Blocks; may be called from any thread."""

    def __init__(self, ledger: Ledger, dense: DenseSide | None) -> None:
        self._ledger = ledger
        self._dense = dense

    def score(
        self, question: Question, candidates: Candidates, timeliness: Timeliness, scope: SearchScope
    ) -> list[ScoredRow]:
        """The candidates and those beside them that pass the filters, best first.

        Raises:
            StorageError: the ledger cannot be read.
            EmbeddingError: the embedder is gone.
        """
        pool = self.read(candidates, timeliness, scope)
        languages = self._dense.languages if pool.cosines and self._dense is not None else None
        ranked = rank(
            question,
            pool.passages,
            candidates.of_words.corpus,
            languages.unrelated if languages is not None else None,
            vectors={pool.rows[number].ref: each for number, each in pool.vectors.items()},
        )
        rows = {row.ref: row for row in pool.rows.values()}
        bm25 = candidates.of_words.bm25
        most = max(bm25.values(), default=0.0)
        return [_scored(each, rows[each.ref], pool, bm25, most) for each in ranked]

    def read(self, candidates: Candidates, timeliness: Timeliness, scope: SearchScope) -> Pool:
        """Read what the formula needs. Raises what `score` raises."""
        around = self._around(candidates, scope.owner)
        rows = all_rows(around.values())
        vectors = self._vectors(candidates, [*rows])
        cosines = _cosines(vectors, candidates.vector)
        matches = self._matches(candidates, [*rows])
        passages = self._passages(rows, cosines, matches, timeliness, scope)
        in_context = [_in_context(each, passages) for each in around.values()]
        return Pool(rows, vectors, cosines, matches, in_context)

    def _around(self, candidates: Candidates, owner: str) -> Mapping[int, Around]:
        near_words = candidates.of_words.around
        missing = self._ledger.segments.neighbours(
            candidates.numbers - near_words.keys(), owner=owner, before=CONTEXT, after=CONTEXT
        )
        every = {**near_words, **missing}
        return {number: every[number] for number in sorted(every)}

    def _passages(
        self,
        rows: Mapping[int, SegmentRow],
        cosines: Mapping[int, float],
        matches: Mapping[int, float],
        timeliness: Timeliness,
        scope: SearchScope,
    ) -> dict[int, Passage]:
        moments = [row.at for row in rows.values()]
        fits = dict(zip(rows, timeliness.fits(moments), strict=True))
        then = dict(zip(rows, timeliness.covers(moments), strict=True))
        passing: Iterable[int] = rows
        if scope.filters != _EVERYTHING:
            passing = self._ledger.segments.passing(scope.owner, scope.filters).among(rows)
        eligible = frozenset(passing)
        return {
            number: Passage(
                ref=row.ref,
                content=row.text,
                terms=row.terms,
                cosine=cosines.get(number),
                match=matches.get(number),
                time=fits[number],
                then=then[number],
                at=row.at,
                eligible=number in eligible,
            )
            for number, row in rows.items()
        }

    def _vectors(self, candidates: Candidates, numbers: Sequence[int]) -> dict[int, Vectors]:
        if candidates.vector is None or self._dense is None:
            return {}
        of_words, vectors = candidates.of_words, dict[int, Vectors]()
        if of_words.vectors is not None:
            vectors |= _present(of_words.numbers, of_words.vectors)
        missing = [number for number in numbers if number not in vectors]
        return vectors | _present(missing, self._dense.vectors_of(missing))

    def _matches(self, candidates: Candidates, numbers: Sequence[int]) -> Mapping[int, float]:
        if candidates.tokens is None or self._dense is None:
            return {}
        read = candidates.of_words.codes
        missing = [number for number in numbers if number not in read]
        candidates.tokens.read(self._dense.codes_of(missing))
        return candidates.tokens.by_number()


def _present(numbers: Sequence[int], of_numbers: KnownVectors) -> dict[int, Vectors]:
    return {
        number: vector
        for number, vector, is_present in zip(
            numbers, of_numbers.matrix, of_numbers.present.tolist(), strict=True
        )
        if is_present
    }


def _cosines(vectors: Mapping[int, Vectors], question: Vectors | None) -> dict[int, float]:
    if question is None or not vectors:
        return {}
    cosines = np.stack([*vectors.values()]) @ question.ravel()
    return dict(zip(vectors, cosines.tolist(), strict=True))


def _in_context(around: Around, passages: Mapping[int, Passage]) -> InContext:
    return InContext(
        passages[around.segment.number],
        before=[passages[row.number] for row in around.before],
        after=[passages[row.number] for row in around.after],
    )


def _scored(
    each: Ranked, row: SegmentRow, pool: Pool, bm25: Mapping[int, float], most: float
) -> ScoredRow:
    found_by = dict[str, float]()
    if row.number in pool.cosines:
        found_by["cosine"] = pool.cosines[row.number]
    if row.number in pool.matches:
        found_by["match"] = pool.matches[row.number]
    if row.number in bm25:
        found_by["bm25"] = bm25[row.number]
        found_by["lexical"] = bm25[row.number] / most if most > 0 else 1.0
    return ScoredRow(row, each, each.relevance, each.related, found_by)


def reranked(
    reranker: Reranker | None, query: str, scored: Sequence[ScoredRow]
) -> tuple[list[ScoredRow], str | None]:
    """The same segments in the reranker's order, those that it was not given behind.

    Returns:
        The segments; and in words why they are as they were, where that is so.
    """
    if reranker is None:
        return list(scored), "Not reranked: no reranker is configured (memory.reranker.kind)."
    given, rest = scored[: reranker.most], scored[reranker.most :]
    if not given:
        return [], None
    try:
        scores = reranker.scores(query, [each.row.text for each in given])
    except RondoError as error:
        return list(scored), f"Not reranked: {error.problem().in_words()}"
    again = [
        replace(each, relevance=score, found_by={**each.found_by, "rerank": score})
        for each, score in zip(given, scores, strict=True)
    ]
    again.sort(key=lambda each: -each.relevance)
    least = again[-1].relevance
    return again + [replace(each, relevance=min(each.relevance, least)) for each in rest], None
