"""What Rondo asks of long-term memory, and what long-term memory asks of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from service.domain.anchors import (
    AnchorRef,
    ExpandedContext,
    ExpandedWindow,
    RememberedFact,
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


class TokenStates(NamedTuple):
    """What a model makes of each token of a text, those of prompt, beginning and end left out."""

    states: Vectors
    """Shape (tokens, dimension), each row of length 1, counted from the model's usual state."""
    information: npt.NDArray[np.float32]
    """Shape (tokens,): how little each was to be expected, in nats."""


class Embedded(NamedTuple):
    """Texts, embedded."""

    vectors: Vectors
    tokens: Sequence[TokenStates] | None
    """Of each text; None while the model gives none."""


class TokenEmbedder(Embedder, Protocol):
    """An embedder that gives the states of tokens as well."""

    @property
    def token_identity(self) -> str | None:
        """Names all that the states depend on: those of two identities never mix. None: it gives
        none."""
        ...

    def embed_queries_by_token(self, texts: Sequence[str]) -> Embedded:
        """Vectors of questions, and the states of their tokens.

        Raises:
            EmbeddingError: with what to do.
        """
        ...

    def embed_passages_by_token(self, texts: Sequence[str]) -> Embedded:
        """Vectors of what is remembered, and the states of its tokens.

        Raises:
            EmbeddingError: with what to do.
        """
        ...

    def wait_for_tokens(self, seconds: float) -> bool | None:
        """Wait, so long at most, until it gives states of tokens.

        Returns:
            Whether it does; None: it never will.
        """
        ...


def by_token(embedder: Embedder) -> TokenEmbedder | None:
    """The same embedder, if it gives states of tokens.

    Looks at its class alone: who asks an embedder for its identity may have it loaded.
    """
    gives = hasattr(type(embedder), "embed_queries_by_token")
    return cast(TokenEmbedder, embedder) if gives else None


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

    @property
    def narrows(self) -> bool:
        """Whether they may leave few segments: all but one run loop are most of them."""
        return (
            self.types is not None
            or self.since is not None
            or self.until is not None
            or self.run_loop_id is not None
            or bool(self.metadata)
        )


Doing = Literal["embedding", "reindexing", "rebuilding", "scrubbing", "indexing tokens"]
"""What is done for the vector index; the last for late interaction."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Work on the vector index that is under way."""

    doing: Doing
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


class NearSegment(NamedTuple):
    """A segment, and its vector as it is remembered."""

    segment: Segment
    vector: npt.NDArray[np.float32]
    """Shape (dimension,), of length 1."""


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

    async def facts(self, *, owner: str) -> list[RememberedFact]:
        """All that an owner asked to be remembered, the newest first, corrected facts too."""
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
