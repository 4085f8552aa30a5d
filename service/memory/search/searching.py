"""Searching: a question's candidates, in order, folded, within bounds.

Folding: of pieces that say the same word for word, one is shown and names where the others are.

Two pieces of one type are the same

- when they are equal but for case, spaces and punctuation; but short everyday words ("OK", "Yes.")
  only when exactly equal: they answer different questions;
- when they are longer and nearly identical: the same words in the same order, but for articles,
  interjections and Chinese particles, which carry no fact.

Nothing looser than that: one other name, number or negation, or two names that have changed places,
make another fact of the longest text, and measures of likeness do not see it.

>>> fold_key("Flight on 12 May!") == fold_key("flight on 12  may")
True
>>> fold_key("Flight on 12 May") == fold_key("Flight on 13 May")
False
>>> fold_key("You sold it then.") == fold_key("You sold it then?")
False
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from service.domain.anchors import AnchorRef, MemoryHit, SearchResult
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import RondoError
from service.memory.ledger.protocol import Ledger, SegmentRow
from service.memory.memory_tuning import (
    FILTERED_EXACTLY,
    FOLD_AMONG,
    FOLD_LEAST_WORDS,
    FOLD_SHORT,
    FOLD_WIDER,
    SEEDS,
    SIFTED_AT_MOST,
)
from service.memory.protocol import NearSegment, SearchFilters, Vectors
from service.memory.rerankers.protocol import Reranker
from service.memory.search.candidates import Candidates, CandidateSource, SearchScope
from service.memory.search.query_terms import about_a_time, read_question
from service.memory.search.scoring import ScoredRow, Scorer, reranked
from service.memory.search.time.time_expressions import Timeliness
from service.memory.vectors.dense_search import DenseSide
from service.memory.vectors.embedding_queue import PENDING_COUNTED
from service.storage.clock import local_now

_EVERYTHING = SearchFilters()
Shown = TypeVar("Shown")

# Other marks mean something: 3 € is not 3 $, C++ not C, -5 not 5.
_LIGHT = re.compile(r"[\s.,;:!?…'\"’‘“”„«»()\[\]{}、。，；：！？（）「」『』【】《》—–·`*_]+")
_WORD = re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+")
_FILLERS = frozenset(
    ("a", "an", "the", "so", "well", "just", "really", "oh", "ah", "okay", "ok", "sure", "please")
) | frozenset("的了呢吧啊呀嘛哦嗯")


@dataclass(slots=True)
class Folded:
    """A piece that is shown, and those that say the same."""

    row: SegmentRow
    duplicates: list[SegmentRow] = field(default_factory=list)


def fold(rows: Iterable[SegmentRow]) -> list[Folded]:
    """Pieces, best first, with those that say the same under the first of them."""
    shown: dict[tuple[str, str], Folded] = {}
    for row in rows:
        shown.setdefault((row.segment_type, fold_key(row.text)), Folded(row)).duplicates.append(row)
    for folded in shown.values():
        del folded.duplicates[0]  # itself
    return list(shown.values())


def fold_key(text: str) -> str:
    """What two pieces have in common that say the same; whether something is asked counts."""
    bare = _LIGHT.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    if len(bare.encode("utf-8", "replace")) < FOLD_SHORT:
        return text.strip()
    words = [word for word in _WORD.findall(bare) if word not in _FILLERS]
    key = " ".join(words) if len(words) >= FOLD_LEAST_WORDS else bare
    return f"{key}?" if text.rstrip().endswith(("?", "？")) else key


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked of a `Searcher`."""

    query: str
    owner: str
    limit: int = 8
    max_tokens: int | None = None
    filters: SearchFilters = field(default_factory=SearchFilters)
    explain: bool = False
    rerank: bool = False
    """Whether the reranker, if there is one, has the last word."""
    fold: bool = True
    """Whether pieces that say the same are one hit."""
    words: bool = True
    """False: by vectors alone, to see what they are worth."""


class Searcher:
    """Searches the ledger's words and the dense side's vectors. The methods block."""

    def __init__(
        self,
        ledger: Ledger,
        dense: DenseSide | None,
        *,
        waiting: Callable[[str], int],
        reranker: Reranker | None = None,
        clock: Callable[[], datetime] = local_now,
        filtered_exactly: int = FILTERED_EXACTLY,
        sifted_at_most: int = SIFTED_AT_MOST,
    ) -> None:
        """Name the parts.

        Args:
            ledger: what is remembered.
            dense: None for words alone.
            waiting: how many segments of an owner the vector index does not hold yet, counted up
                to `PENDING_COUNTED`.
            reranker: who may be asked for another order.
            clock: the moment of asking, in the person's time zone.
            filtered_exactly: up to how many segments that pass the filters are compared one by one.
            sifted_at_most: of how many that the index offers those that pass are taken.
        """
        self._ledger = ledger
        self._reranker = reranker
        self._clock = clock
        self._source = CandidateSource(
            ledger,
            dense,
            waiting,
            filtered_exactly=filtered_exactly,
            sifted_at_most=sifted_at_most,
        )
        self._scorer = Scorer(ledger, dense)

    def close(self) -> None:
        """Release the threads."""
        self._source.close()

    def search(self, search: Search) -> SearchResult:
        """See `MemoryReader.search`. Blocks.

        Raises:
            StorageError: the ledger cannot be read.
        """
        if search.filters.types is not None and not search.filters.types:
            return SearchResult(hits=(), mode="lexical", notice="No segment type was asked for.")
        candidates, scored = self._find(search, 1)
        shown = self._shown(search, scored)
        if len(shown) < min(search.limit, len(scored)) and candidates.more:
            # Much is said again and again: what is not may stand further down.
            candidates, scored = self._find(search, FOLD_WIDER)
            shown = self._shown(search, scored)
        notices = [_notice(candidates)]
        if search.rerank:
            scored, problem = reranked(self._reranker, search.query, scored)
            shown = self._shown(search, scored)
            notices.append(problem)
        return SearchResult(
            hits=self._hits(search, shown, scored),
            mode="lexical" if candidates.vector is None else "hybrid",
            notice=" ".join(filter(None, notices)) or None,
        )

    def nearest(self, vectors: Vectors, scope: SearchScope) -> list[NearSegment]:
        """See `RecallReader.nearest`. Blocks.

        Raises:
            StorageError: the ledger or the index cannot be read.
        """
        nearest = self._source.nearest(vectors, scope)
        pieces = self._ledger.segments.numbered(nearest, owner=scope.owner)
        return [NearSegment(pieces[each], nearest[each]) for each in nearest if each in pieces]

    def _find(self, search: Search, times: int) -> tuple[Candidates, list[ScoredRow]]:
        question = read_question(search.query)
        timeliness = Timeliness(search.query, self._clock())
        seeds = max(SEEDS, search.limit)
        if search.rerank and self._reranker is not None:
            seeds = max(seeds, self._reranker.most)
        # A dialogue speaks of the days on which it is held.
        ranges = timeliness.ranges if len(question.texts) == 1 else ()
        if ranges:
            question = about_a_time(question, timeliness.rest, asks=timeliness.asks)
        scope = SearchScope(search.owner, search.filters, times * seeds, ranges)
        candidates = self._source.gather(question, scope, words=search.words)
        try:
            scored = self._scorer.score(question, candidates, timeliness, scope)
        except RondoError as error:
            if candidates.vector is None:
                raise
            # The dense side was taken away in between.
            candidates = replace(candidates, vector=None, why_words_only=error.problem().in_words())
            scored = self._scorer.score(question, candidates, timeliness, scope)
        if not search.words:
            scored.sort(key=lambda each: -each.found_by.get("cosine", -1.0))
        return candidates, scored

    def _shown(self, search: Search, scored: Sequence[ScoredRow]) -> list[Folded]:
        rows = [each.row for each in scored]
        if not search.fold:
            return [Folded(row) for row in rows]
        shown = fold(rows[: FOLD_AMONG * search.limit])
        return shown if len(shown) >= search.limit else fold(rows)

    def _hits(
        self, search: Search, shown: Sequence[Folded], scored: Sequence[ScoredRow]
    ) -> tuple[MemoryHit, ...]:
        chosen = _within(shown, search.limit, search.max_tokens, lambda folded: folded.row.text)
        refs = [folded.row.ref for folded in chosen]
        others = [row.ref for folded in chosen for row in folded.duplicates]
        pieces = self._ledger.segments.at([*refs, *others], owner=search.owner)
        partners = self._ledger.segments.partners(refs, owner=search.owner)
        of_ref = {each.row.ref: each for each in scored}
        hits = [
            MemoryHit(
                anchor=pieces[ref].anchor,
                content=pieces[ref].content,
                relevance=of_ref[ref].relevance,
                related=of_ref[ref].related,
                scores=of_ref[ref].scores if search.explain else None,
                duplicates=tuple(
                    pieces[row.ref].anchor for row in folded.duplicates if row.ref in pieces
                ),
                partners=partners.get(ref, ()),
            )
            for folded, ref in zip(chosen, refs, strict=True)
            if ref in pieces  # it may have been forgotten just now
        ]
        return self._with_newest_facts(search, hits)

    def _with_newest_facts(
        self, search: Search, hits: Sequence[MemoryHit]
    ) -> tuple[MemoryHit, ...]:
        """The hits, and before each that a fact corrects that fact, whether it was found or not."""
        superseding = self._ledger.facts.superseding(
            {hit.anchor.ref: hit.content for hit in hits}, owner=search.owner
        )
        if not superseding:
            return tuple(hits)
        found = {hit.anchor.ref: hit for hit in hits}
        newer = [each.anchor.ref for each in superseding.values()]
        if replace(search.filters, without_run_loop_id=None) != _EVERYTHING:
            newer = [ref for ref in newer if ref in found]  # what filters keep out stays out
        pieces = self._ledger.segments.at(newer, owner=search.owner)
        ordered: dict[AnchorRef, MemoryHit] = {}
        for hit in hits:
            fact = superseding.get(hit.anchor.ref)
            if fact is None:
                ordered.setdefault(hit.anchor.ref, hit)
                continue
            if (piece := pieces.get(fact.anchor.ref)) is not None:
                there = found.get(fact.anchor.ref) or MemoryHit(
                    anchor=piece.anchor, content=piece.content, relevance=0.0, related=False
                )
                better = {
                    "relevance": max(hit.relevance, there.relevance),
                    "related": hit.related or there.related,
                }
                ordered.setdefault(fact.anchor.ref, there.model_copy(update=better))
            corrected = hit.model_copy(update={"superseded_by": fact.anchor})
            ordered.setdefault(hit.anchor.ref, corrected)
        return tuple(
            _within([*ordered.values()], search.limit, search.max_tokens, lambda hit: hit.content)
        )


def _notice(candidates: Candidates) -> str | None:
    if candidates.why_words_only is not None:
        return f"Searched by words only: {candidates.why_words_only}"
    waiting = candidates.of_words.waiting
    if waiting:
        number = f"{waiting} or more" if waiting >= PENDING_COUNTED else str(waiting)
        return f"{number} segments have no vector yet and are found by words only."
    return None


def _within(
    best: Iterable[Shown],
    limit: int,
    max_tokens: int | None,
    words: Callable[[Shown], str],
) -> list[Shown]:
    """The best that fit, whole, at most `limit`; the very best in any case."""
    chosen: list[Shown] = []
    left = max_tokens
    for each in best:
        if left is not None:
            cost = estimate_tokens(words(each))
            if chosen and cost > left:
                continue
            left -= cost
        chosen.append(each)
        if len(chosen) == limit:
            break
    return chosen
