"""What Rondo asks of long-term memory, and what long-term memory asks of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from service.domain.anchors import (
    AnchorRef,
    ExpandedContext,
    ExpandedWindow,
    SearchResult,
    Segment,
    SegmentType,
)
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop

Unit = Literal["segments", "iterations"]
"""What the surroundings of a segment are counted in."""

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
class Progress:
    """Work on the vector index that is under way."""

    doing: Literal["embedding", "reindexing", "rebuilding", "scrubbing"]
    done: int
    """Segments."""
    total: int
    rate: float
    """Segments a second, lately; 0 before that is known."""
    eta_seconds: float | None
    """How long it will still take at this rate."""


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What the vector index is, and what is being done about it."""

    place: str
    """Which Chroma it is in: ``embedded``, or a server's or the cloud's name."""
    generation: int | None
    """The one that is searched; None while it is being built."""
    built_by: str | None
    """Identity of the embedder whose vectors it holds."""
    configured: str | None
    """Identity of the embedder that the settings name; None before it is loaded, or without one."""
    indexed: int
    """Segments whose vector it holds."""
    scrub_pending: bool
    """Whether files are still to be rid of what was forgotten."""
    damaged: tuple[str, ...]
    """Names of folders that were set aside as damaged; they can be deleted."""
    notice: str | None
    """Why it is not used, when another embedder built it, and what to do."""
    progress: Progress | None
    """What is being done; None when nothing is."""


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
    notice: str | None = None
    """In words, while the ledger does not yet hold all that the journal does."""
    index: IndexStats | None = None


class Scored(NamedTuple):
    """A segment that the lexical index offers."""

    number: int
    """Its row in the ledger."""
    score: float
    """BM25: higher is better."""


class NearSegment(NamedTuple):
    """A segment, and its vector as it is remembered."""

    segment: Segment
    vector: npt.NDArray[np.float32]
    """Shape (dimension,), of length 1."""


class Nearest(NamedTuple):
    """A segment that the vector index offers."""

    number: int
    """Its row in the ledger; it may be gone from there."""
    cosine: float


class IndexEntry(NamedTuple):
    """A segment's vector on its way into the index."""

    number: int
    """Its row in the ledger; never used twice."""
    owner: str
    vector: bytes
    """16-bit floats, little-endian; see `service.memory.vectors.embedding_states.as_matrix`."""


class VectorIndex(Protocol):
    """Finds segments by their vectors, all of one embedder: one generation of the index.

    The methods block and may be called from any thread. All raise, in words: IndexDamagedError,
    when what is stored cannot be read any more; IndexUnreachableError, when a server does not
    answer; ConflictError, once it is closed; StorageError, when the disk refuses.
    """

    def add(self, entries: Sequence[IndexEntry]) -> None:
        """Store vectors; one that is there already stays as it is."""
        ...

    def search(self, vector: Vectors, *, owner: str, limit: int) -> list[Nearest]:
        """The segments of this owner nearest to `vector`, one row of length 1; best first."""
        ...

    def delete(self, numbers: Sequence[int], *, owner: str) -> None:
        """Remove segments of an owner; what is not there counts as removed."""
        ...

    def delete_anywhere(self, numbers: Sequence[int]) -> None:
        """Remove segments, whoever owns them."""
        ...

    def count(self) -> int:
        """How many vectors there are, of all owners."""
        ...

    def numbers(self) -> set[int]:
        """The segments that are there, of all owners. For 100,000 it takes a second."""
        ...

    def finds(self, entries: Sequence[IndexEntry]) -> int:
        """How many of these vectors a search for themselves finds: a lost graph finds none."""
        ...

    def close(self) -> None:
        """Release the files, once searches under way are done."""
        ...


class LiveRunLoops(Protocol):
    """Run loops as they are now, with what long-term memory does not have yet."""

    def open_states(self, owner: str) -> Sequence[RunLoopState]:
        """The states of this owner's open loops."""
        ...

    async def load(self, run_loop_id: str) -> RunLoop | None:
        """Any run loop, whole; None when there is none."""
        ...

    async def remember_now(self, run_loop_id: str) -> None:
        """Have what is done of an open run loop archived, before its time. MUST NOT raise."""
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
        asked_in: str | None = None,
    ) -> SearchResult:
        """Find segments by words and by meaning, best first.

        Args:
            asked_in: the run loop in which it is asked: what is done of that is found as well,
                however new.

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
        unit: Unit = "segments",
        max_tokens: int | None = None,
    ) -> ExpandedContext:
        """The segment at an anchor and what stood around it in its run loop.

        Args:
            before: how many segments, or iterations, before it.
            after: how many segments, or iterations, after it.
            unit: what is counted; iterations are given whole, the segment's own too.
            max_tokens: bound of the whole; the segments farthest from the focus fall first.

        Raises:
            NotFoundError: this owner has no such segment.
        """
        ...

    async def expand_many(
        self,
        refs: Sequence[AnchorRef],
        *,
        owner: str,
        before: int = 3,
        after: int = 3,
        unit: Unit = "segments",
        max_tokens: int | None = None,
    ) -> list[ExpandedWindow]:
        """The segments at several anchors and what stood around them, in the order asked for.

        Where the surroundings of two overlap or touch, they are one window, which stands where the
        first of its anchors was asked for.

        Args:
            refs: at least one.
            before: how many segments, or iterations, before each.
            after: how many segments, or iterations, after each.
            unit: what is counted; iterations are given whole, an anchor's own too.
            max_tokens: bound of all windows together; the segments farthest from what was asked for
                fall first.

        Raises:
            NotFoundError: this owner has no such segment.
        """
        ...

    async def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        """A remembered run loop, whole; None when there is none."""
        ...


class RecallReader(MemoryReader, Protocol):
    """What recall uses: it looks by vectors of its own, too."""

    async def nearest(
        self, vectors: Vectors, *, owner: str, types: frozenset[SegmentType], limit: int
    ) -> list[NearSegment]:
        """The segments of these types nearest to any of these vectors, at most `limit` for each.

        Nothing where vectors cannot be searched now, and nothing of what has no vector yet.

        Raises:
            StorageError: the ledger cannot be read.
        """
        ...
