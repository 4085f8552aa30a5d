"""Searching: what words and vectors offer to a query, in one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from service.domain.anchors import AnchorRef, MemoryHit, SearchResult
from service.domain.errors import Problem, RondoError
from service.memory.dense import DenseFound, DenseSide
from service.memory.embedding import EmbeddingQueue
from service.memory.ledger import Ledger
from service.memory.protocol import Candidate, SearchFilters
from service.memory.ranking import Ranked, fuse
from service.memory.tokens import estimate_tokens
from service.memory.tuned import CANDIDATES


class _Meaning(NamedTuple):
    """What the dense side says to a query, and what it does not know yet."""

    found: DenseFound
    waiting: int
    without_vector: frozenset[AnchorRef]


class Searcher:
    """Searches the ledger's words and the dense side's vectors. The methods block."""

    def __init__(
        self,
        ledger: Ledger,
        dense: DenseSide | None,
        queue: EmbeddingQueue | None,
        *,
        why_not: Callable[[], Problem | None],
    ) -> None:
        """Name the parts; `why_not` tells why the dense side cannot be used just now."""
        self._ledger = ledger
        self._dense = dense
        self._queue = queue
        self._why_not = why_not

    def search(
        self,
        query: str,
        *,
        owner: str,
        limit: int,
        max_tokens: int | None,
        filters: SearchFilters,
        explain: bool,
    ) -> SearchResult:
        """See `MemoryReader.search`. Blocks.

        Raises:
            StorageError: the ledger cannot be read.
        """
        if filters.types is not None and not filters.types:
            return SearchResult(hits=(), mode="lexical", notice="No segment type was asked for.")
        count = max(limit, CANDIDATES)
        words = self._ledger.words.search(query, owner=owner, filters=filters, limit=count)
        meaning = self._search_dense(query, words, owner, filters, count)
        if isinstance(meaning, str):
            hits = self._hits(fuse(words, None), owner, limit, max_tokens, explain)
            notice = f"Searched by words only: {meaning}"
            return SearchResult(hits=hits, mode="lexical", notice=notice)
        ranked = fuse(
            words,
            meaning.found.candidates,
            lowest_cosine=meaning.found.lowest,
            without_vector=meaning.without_vector,
        )
        hits = self._hits(ranked, owner, limit, max_tokens, explain)
        notice = f"{meaning.waiting} segments have no vector yet and are found by words only."
        return SearchResult(hits=hits, mode="hybrid", notice=notice if meaning.waiting else None)

    def _search_dense(
        self,
        query: str,
        words: Sequence[Candidate],
        owner: str,
        filters: SearchFilters,
        count: int,
    ) -> _Meaning | str:
        """What the vectors say; or why they say nothing, in words."""
        if self._dense is None or self._queue is None:
            return "no embedder is configured."
        if self._dense.identity is None:
            problem = self._why_not()
            return problem.in_words() if problem else "the embedder is still being loaded."
        # Asked before the vectors are, so that a segment embedded meanwhile cannot fall between.
        waiting = self._queue.count_pending(owner)
        refs = [candidate.ref for candidate in words] if waiting else []
        without_vector = self._queue.without_vector(refs, owner)
        try:
            found = self._dense.search(query, owner=owner, filters=filters, limit=count)
        except RondoError as error:
            return error.problem().in_words()
        return _Meaning(found, waiting, without_vector)

    def _hits(
        self,
        ranked: Sequence[Ranked],
        owner: str,
        limit: int,
        max_tokens: int | None,
        explain: bool,
    ) -> tuple[MemoryHit, ...]:
        # A vector may be older than the ledger: what is no longer there is skipped.
        found = self._ledger.segments([entry.ref for entry in ranked], owner=owner)
        hits: list[MemoryHit] = []
        left = max_tokens
        for entry in ranked:
            piece = found.get(entry.ref)
            if piece is None:
                continue
            if left is not None:
                cost = estimate_tokens(piece.content)
                if hits and cost > left:
                    continue
                left -= cost
            hits.append(
                MemoryHit(
                    anchor=piece.anchor,
                    content=piece.content,
                    relevance=entry.relevance,
                    scores=entry.scores if explain else None,
                )
            )
            if len(hits) == limit:
                break
        return tuple(hits)
