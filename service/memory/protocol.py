"""What the house asks of long-term memory, and what long-term memory asks of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from service.domain.anchors import (
    AnchorRef,
    ExpandedContext,
    SearchResult,
    Segment,
    SegmentType,
)
from service.domain.run_loops import RunLoop

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dimension), each row of length 1."""


class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how near they are in meaning.

    The methods are blocking and safe to call from several threads; callers run them in a worker
    thread. Constructing one MUST be cheap: the first call loads what is heavy.
    """

    @property
    def identity(self) -> str:
        """Names model, weights, dimension and prompts: vectors of two identities never mix."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions.

        Raises:
            EmbeddingError: with what to do.
        """
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of what is remembered.

        Raises:
            EmbeddingError: with what to do.
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """What a search is narrowed to. None: not narrowed."""

    types: frozenset[SegmentType] | None = None
    since: datetime | None = None
    """Inclusive."""
    until: datetime | None = None
    """Exclusive."""
    run_loop_id: str | None = None
    without_run_loop_id: str | None = None
    """All run loops but this one: what stands in a conversation needs not be found from it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Only what was sent with all of these names and values, see `Iteration.metadata`."""


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """How much is remembered, and how much of it is still to be embedded."""

    run_loops: int
    segments: int
    embedded: int
    pending: int
    """Segments that wait for their vector; lexical search finds them already."""
    embedder: str | None
    """Identity of the embedder in use; None before it is loaded or without one."""
    problem: str | None = None
    """Why embedding does not go on, in words."""


class Candidate(NamedTuple):
    """A segment that one index offers, and how well it fits: higher is better."""

    ref: AnchorRef
    score: float
    """On the index's own scale: BM25, or a cosine."""


class LexicalIndex(Protocol):
    """Finds segments by their words. The methods block and may be called from any thread."""

    def search(
        self, query: str, *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        """The best segments of this owner that hold a word of the query, best first.

        The query is plain words in any language: nothing in it is syntax. Filters are exact.

        Raises:
            StorageError: the index cannot be read.
        """
        ...


class VectorIndex(Protocol):
    """Finds segments by their vectors, all of one embedder.

    The methods block and may be called from any thread; all raise StorageError, in words.
    """

    def upsert(self, segments: Sequence[Segment], vectors: Vectors) -> None:
        """Store one vector a segment; what stood at the same anchor is replaced."""
        ...

    def search(
        self, vector: Vectors, *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        """The segments of this owner nearest to `vector`, shape (1, dimension), best first.

        Scores are cosines. Filters are exact.
        """
        ...

    def delete(self, refs: Sequence[AnchorRef], *, owner: str) -> None:
        """Remove these segments; what is not there counts as removed."""
        ...

    def delete_run_loop(self, run_loop_id: str, *, owner: str) -> None:
        """Remove all segments of a run loop."""
        ...

    def count(self) -> int:
        """How many vectors there are, of all owners."""
        ...

    def close(self) -> None:
        """Release the files."""
        ...


class MemoryReader(Protocol):
    """The reading half of long-term memory: what tools, the router and recall use."""

    async def search(
        self,
        query: str,
        *,
        owner: str,
        limit: int = 8,
        max_tokens: int | None = None,
        filters: SearchFilters | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Find segments by words and by meaning, best first.

        Raises:
            InvalidInputError: the query is empty, or a bound makes no sense.
        """
        ...

    async def expand(
        self,
        ref: AnchorRef,
        *,
        owner: str,
        before: int = 3,
        after: int = 3,
        max_tokens: int | None = None,
    ) -> ExpandedContext:
        """The segment at an anchor and what stood around it in its run loop.

        Args:
            before: how many segments before it.
            after: how many segments after it.
            max_tokens: bound of the whole; the segments farthest from the focus fall first.

        Raises:
            NotFoundError: this owner has no such segment.
        """
        ...

    async def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        """A remembered run loop, whole; None when there is none."""
        ...
