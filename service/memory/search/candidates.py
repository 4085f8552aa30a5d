"""Candidates of a search: what words and what vectors offer, as a true union.

Words are looked up in a thread of their own while the query is embedded: both leave the
interpreter to others meanwhile. Filters are exact: see `Passing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.domain.errors import ConflictError, RondoError
from service.domain.text import script_of
from service.memory.ledger.protocol import Around, Ledger, Passing, SegmentRow
from service.memory.memory_tuning import CONTEXT, FILTERED_EXACTLY, SIFTED_AT_FIRST, SIFTED_AT_MOST
from service.memory.protocol import Embedded, SearchFilters, Vectors
from service.memory.search.passages import Corpus
from service.memory.search.query_terms import Question, query_vector, rare_terms
from service.memory.search.time.calendar_spans import TimeRange
from service.memory.search.token_matches import TokenMatches
from service.memory.vectors.dense_search import DenseSide
from service.memory.vectors.embedding_store import KnownVectors
from service.memory.vectors.protocol import Nearest

_EVERYTHING = SearchFilters()
_THREADS = 4
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Whose segments are looked for, which of them, and how many candidates each side offers."""

    owner: str
    filters: SearchFilters
    count: int
    times: Sequence[TimeRange] = ()
    """Stretches of time that the question names: from within them each side offers candidates
    besides, `count` altogether, since the words and the meaning of a question hardly tell what was
    said on one day from what was said on another."""

    @property
    def within_times(self) -> list[SearchScope]:
        """What is looked for in each stretch of time, where the filters leave anything of it."""
        count = -(-self.count // max(1, len(self.times)))
        scopes = (self._within(since, until, count) for since, until in self.times)
        return [scope for scope in scopes if scope is not None]

    def _within(self, since: datetime, until: datetime, count: int) -> SearchScope | None:
        filters = self.filters
        since = since if filters.since is None else max(since, filters.since)
        until = until if filters.until is None else min(until, filters.until)
        if since >= until:
            return None
        return SearchScope(self.owner, replace(filters, since=since, until=until), count)


class OfWords(NamedTuple):
    """What the words offer, and what scoring needs of it beside the query's vector."""

    bm25: Mapping[int, float]
    """By segment."""
    around: Mapping[int, Around]
    """What stands beside these segments."""
    numbers: Sequence[int]
    """These segments and those beside them."""
    vectors: KnownVectors | None
    """Theirs, in this order; None when vectors have no say."""
    codes: Mapping[int, bytes]
    """What is kept of their tokens, by number."""
    corpus: Corpus
    """How rare the question's words are."""
    waiting: int
    """How many segments have no vector yet."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Segments by their numbers in the ledger."""

    numbers: frozenset[int]
    """All candidates: of words and of vectors."""
    vector: Vectors | None
    """The query's, one row; None when the vectors had no say."""
    tokens: TokenMatches | None
    """With what the words offer; None where there are no states of the query's tokens."""
    of_words: OfWords
    """What was read while the query was embedded."""
    why_words_only: str | None = None
    """In words, when they had none though they should have."""
    more: bool = False
    """Whether a larger `SearchScope.count` may bring more."""


class CandidateSource:
    """Asks both indexes. The methods block and may be called from any thread."""

    def __init__(
        self,
        ledger: Ledger,
        dense: DenseSide | None,
        waiting: Callable[[str], int],
        *,
        filtered_exactly: int = FILTERED_EXACTLY,
        sifted_at_most: int = SIFTED_AT_MOST,
    ) -> None:
        self._ledger = ledger
        self._dense = dense
        self._waiting = waiting
        self._filtered_exactly = filtered_exactly
        self._sifted_at_most = sifted_at_most
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rondo-search")

    def close(self) -> None:
        """Let the threads go. What is under way ends first."""
        self._threads.shutdown()

    def gather(self, question: Question, scope: SearchScope, *, words: bool = True) -> Candidates:
        """The best segments for a question, by words and by meaning.

        Args:
            question: what is asked.
            scope: what may be found.
            words: False leaves the words out, to see what the vectors alone are worth.

        Raises:
            StorageError: the ledger cannot be read.
            ConflictError: it is closed.
        """
        scopes = [self._looked_ahead(each) for each in (scope, *scope.within_times)]
        looking_up = self._start(self._by_words, question, scope if words else None, scope.owner)
        asked, reason = self._embedded(question)
        asking = None if asked is None else self._start(self._by_meaning, question, asked, scopes)
        of_words = looking_up.result()
        tokens = None
        if asked is not None and asked.tokens is not None:
            tokens = TokenMatches(asked.tokens)
            tokens.read(of_words.codes)  # while the index is asked
        nearest = dict[int, float]()
        if asking is not None:
            try:
                nearest |= asking.result()
            except RondoError as error:
                asked, tokens, reason = None, None, error.problem().in_words()
        few = scopes[0].few.result()
        numbers = frozenset(of_words.bm25) | frozenset(nearest)
        if asked is not None and few is not None and len(few) <= scope.count:
            numbers |= frozenset(few)  # those as well that have no vector yet
        more = max(len(of_words.bm25), len(nearest)) >= scope.count and not (
            few and len(few) <= len(numbers)
        )
        if words and (asked is None or question.asks != "topic"):
            said_then = self._said_then(scope, newest=question.asks == "newest")
            more = more or len(said_then - numbers) >= scope.count
            numbers |= said_then
        vector = None if asked is None else query_vector(asked.vectors)
        return Candidates(numbers, vector, tokens, of_words, reason, more)

    def _said_then(self, scope: SearchScope, *, newest: bool) -> frozenset[int]:
        """What was said in the stretches of time that are named, whatever its words."""
        segments = self._ledger.segments
        return frozenset(
            number
            for each in scope.within_times
            for number in segments.passing(each.owner, each.filters).by_time(
                each.count, newest=newest
            )
        )

    def nearest(self, vectors: Vectors, scope: SearchScope) -> dict[int, NDArray[np.float32]]:
        """The segments nearest to any of some vectors, with their own vectors.

        Nothing where vectors cannot be searched now.

        Raises:
            StorageError: the ledger or the index cannot be read.
        """
        if self._dense is None or self._dense.why_not():
            return {}
        passing = self._ledger.segments.passing(scope.owner, scope.filters)
        few = self._narrowed(passing, scope.filters)
        if few is None:
            nearest = self._offered(self._dense, vectors, scope, passing)
        else:
            among = [(few, self._dense.vectors_of(few))]
            nearest = [_best(among, row, scope.count) for row in vectors]
        numbers = dict.fromkeys(number for each in nearest for number in each)
        if not numbers:
            return {}
        kept = self._dense.vectors_of([*numbers])
        return {
            number: vector
            for number, vector, is_present in zip(numbers, kept.matrix, kept.present, strict=True)
            if is_present
        }

    def _start(self, work: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> Future[_T]:
        try:
            return self._threads.submit(work, *args, **named)
        except RuntimeError as error:  # `close` was called
            raise ConflictError("memory is closed", advice="The daemon is stopping.") from error

    def _narrowed(self, passing: Passing, filters: SearchFilters) -> list[int] | None:
        """All segments that pass, where the filters leave few; else None."""
        if not filters.narrows:
            return None
        few = passing.first(self._filtered_exactly + 1)
        return few if len(few) <= self._filtered_exactly else None

    def _looked_ahead(self, scope: SearchScope) -> _LookedAhead:
        """Have what the filters leave be read, with its vectors, while the query is embedded."""
        passing = self._ledger.segments.passing(scope.owner, scope.filters)
        few = self._start(self._narrowed, passing, scope.filters)
        return _LookedAhead(scope, passing, few, self._start(self._vectors_of_few, few))

    def _vectors_of_few(self, few: Future[list[int] | None]) -> KnownVectors | None:
        if self._dense is None or self._dense.why_not():
            return None
        numbers = few.result()
        return None if numbers is None else self._dense.vectors_of(numbers)

    def _by_words(self, question: Question, scope: SearchScope | None, owner: str) -> OfWords:
        """What the words offer; nothing where nothing is wanted of them."""
        index = self._ledger.words
        corpus = Corpus(index.count(), index.frequencies(question.terms))
        bm25: dict[int, float] = {}
        if scope is not None:
            terms = rare_terms(question.terms, corpus.frequency)
            for each in (*scope.within_times, scope):
                limit = each.count
                bm25 |= dict(index.search(terms, owner=owner, filters=each.filters, limit=limit))
        around = self._ledger.segments.neighbours(bm25, owner=owner, before=CONTEXT, after=CONTEXT)
        numbers = [*all_rows(around.values())]
        vectors, codes = None, dict[int, bytes]()
        if self._dense is not None and not self._dense.why_not():
            vectors = self._dense.vectors_of(numbers)
            codes |= self._dense.codes_of(numbers)
        return OfWords(bm25, around, numbers, vectors, codes, corpus, self._waiting(owner))

    def _embedded(self, question: Question) -> tuple[Embedded | None, str | None]:
        """The embedded query; or why there is none."""
        if self._dense is None:
            return None, "no embedder is configured."
        if reason := self._dense.why_not():
            return None, reason
        try:
            return self._dense.embed_queries(question.texts), None
        except RondoError as error:
            return None, error.problem().in_words()

    def _by_meaning(
        self, question: Question, asked: Embedded, scopes: Sequence[_LookedAhead]
    ) -> Mapping[int, float]:
        """What lies near the query, in either language: cosines by segment."""
        dense, vector = self._dense, query_vector(asked.vectors)
        assert dense is not None
        moved = dense.in_other_language(vector, script_of(question.texts[0]))
        places = vector if moved is None else np.concatenate([vector, moved])
        nearest: dict[int, float] = {}
        for each in scopes:
            near, *of_moved = self._near(dense, places, each)
            nearest |= near
            for beyond in of_moved:
                nearest |= _nearer(dense, [*beyond], places)
        return nearest

    def _near(
        self, dense: DenseSide, vectors: Vectors, ahead: _LookedAhead
    ) -> Sequence[Mapping[int, float]]:
        """What lies near each of some vectors: cosines by segment."""
        few, few_vectors = ahead.few.result(), ahead.few_vectors.result()
        if few is not None and few_vectors is not None:
            return [_best([(few, few_vectors)], row, ahead.scope.count) for row in vectors]
        return self._offered(dense, vectors, ahead.scope, ahead.passing)

    def _offered(
        self, dense: DenseSide, vectors: Vectors, scope: SearchScope, passing: Passing
    ) -> Sequence[Mapping[int, float]]:
        """What the vector index offers for each of some vectors, as far as it passes the
        filters."""
        if scope.filters == _EVERYTHING:
            offered = dense.nearest(vectors, owner=scope.owner, limit=scope.count)
            return [dict(each) for each in offered]
        offered = dense.nearest(vectors, owner=scope.owner, limit=SIFTED_AT_FIRST * scope.count)
        return [
            self._sifted(dense, each, vector, scope, passing)
            for each, vector in zip(offered, vectors, strict=True)
        ]

    def _sifted(
        self,
        dense: DenseSide,
        offered: Sequence[Nearest],
        vector: Vectors,
        scope: SearchScope,
        passing: Passing,
    ) -> Mapping[int, float]:
        """What passes the filters, of what is offered for a vector and as much more as it takes."""
        asked = SIFTED_AT_FIRST * scope.count
        while True:
            passed = passing.among([each.number for each in offered])
            kept = [each for each in offered if each.number in passed][: scope.count]
            if len(kept) == scope.count or len(offered) < asked:
                return dict(kept)
            if asked >= self._sifted_at_most:
                # What passes is far from the query, all of it: rare, and worth the time.
                chunks = _chunks(passing.first(-1), self._filtered_exactly)
                batches = ((chunk, dense.vectors_of(chunk)) for chunk in chunks)
                return _best(batches, vector, scope.count)
            # As many as hold half more than enough, if as large a share of the next ones passes.
            enough = 3 * scope.count * asked // max(1, 2 * len(kept))
            asked = min(self._sifted_at_most, max(2 * asked, enough))
            (offered,) = dense.nearest(vector[None], owner=scope.owner, limit=asked)


class _LookedAhead(NamedTuple):
    """A scope, and what its filters leave, where they leave few: on its way."""

    scope: SearchScope
    passing: Passing
    few: Future[list[int] | None]
    few_vectors: Future[KnownVectors | None]


def _nearer(dense: DenseSide, numbers: Sequence[int], places: Vectors) -> Mapping[int, float]:
    """Of what lies near the question as it would be in the other language, what lies nearer to it
    than to the question as it is: of a store in one language, nothing. Cosines with the latter."""
    kept = dense.vectors_of(numbers)
    cosines = kept.matrix @ places.T
    nearer = kept.present & (cosines[:, 1] > cosines[:, 0])
    return {numbers[row]: float(cosines[row, 0]) for row in np.flatnonzero(nearer).tolist()}


def _best(
    chunks: Iterable[tuple[Sequence[int], KnownVectors]], vector: Vectors, count: int
) -> Mapping[int, float]:
    """The best of these segments by exact cosines."""
    best: list[tuple[float, int]] = []
    for numbers, vectors in chunks:
        cosines = vectors.matrix @ vector
        cosines[~vectors.present] = -np.inf
        top = np.argsort(-cosines, kind="stable")[:count].tolist()
        best += [(float(cosines[row]), numbers[row]) for row in top if vectors.present[row]]
        best = sorted(best, reverse=True)[:count]
    return {number: cosine for cosine, number in best}


def _chunks(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


def all_rows(around: Iterable[Around]) -> dict[int, SegmentRow]:
    """Segments and those beside them by their numbers, each once."""
    return {row.number: row for each in around for row in (each.segment, *each.before, *each.after)}
