"""What the vector index asks of the store of its vectors, which is the ledger's.

The vectors are kept beside the segments that they are of: an index that is lost is built anew from
them, without embedding anything again. Which index holds which of them is kept there, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from service.memory.protocol import Vectors
from service.memory.vectors.protocol import IndexEntry

PROBE = "ready?"
"""The question that every embedder is given, to know it again by its vector."""


class PendingSegment(NamedTuple):
    """A segment that waits for its vector."""

    number: int
    """Its row in the ledger."""
    owner: str
    text: str


class KnownVectors(NamedTuple):
    """The vectors of some segments."""

    matrix: Vectors
    """One row for each, of length 1; zeros where there is none."""
    present: npt.NDArray[np.bool_]
    """Which rows those of a vector are."""


Purpose = Literal["embedding", "reindexing", "rebuilding", "scrubbing"]


class Generation(NamedTuple):
    """A row of `generations`."""

    id: int
    embedder: int
    place: str
    state: Literal["active", "building", "retired"]
    purpose: Purpose
    scrub: int
    closed_as: str


class Unneeded(NamedTuple):
    """A vector that a generation holds, and shall drop."""

    number: int
    owner: str


class Lacking(NamedTuple):
    """What an index does not hold yet of an owner."""

    number: int
    complete_up_to: int
    """Beyond the number that was asked for, all of the owner's segments up to this one are held."""


class Generations(Protocol):
    """Which generations of an index there are. The methods block; all raise StorageError when the
    disk refuses."""

    def instance(self) -> str:
        """Names this ledger on a server that several share. Made once, at random."""
        ...

    def all(self) -> list[Generation]:
        """All that there are, the oldest first."""
        ...

    def live(self) -> tuple[Generation | None, Generation | None]:
        """The active one, and the one that is being built."""
        ...

    def create(
        self, embedder: int, place: str, state: Literal["active", "building"], purpose: Purpose
    ) -> None:
        """A new, empty one; what was in that state before is retired."""
        ...

    def retire(self, generation: int) -> None:
        """Let one be used no more."""
        ...

    def replace(self, generation: int, embedder: int, place: str, purpose: Purpose) -> None:
        """Retire one and have an empty one built instead, in one transaction.

        When another is being built already for the same embedder, that one serves.
        """
        ...

    def swap(self, building: int) -> None:
        """Make the one that was built the active one, in one transaction."""
        ...

    def set_closed(self, generation: int, closed_as: str) -> None:
        """Note what the files of one are like now that it is closed; empty: it is about to open."""
        ...

    def purge(self, generation: int) -> bool:
        """Drop some rows of a retired one, and at last its own; whether there are more."""
        ...


class IndexContents(Protocol):
    """Which vectors each generation of an index holds. The methods block; all raise StorageError
    when the disk refuses."""

    def mark_indexed(self, generation: int, entries: Sequence[tuple[int, str]]) -> None:
        """Note that an index holds the vectors of these segments, given as number and owner.

        One that was removed from the ledger meanwhile shall be dropped again.
        """
        ...

    def unmark_indexed(self, generation: int, numbers: Sequence[int]) -> None:
        """Note that an index lacks the vectors of these segments."""
        ...

    def indexed(self, generation: int) -> set[int]:
        """The segments that an index holds."""
        ...

    def count_indexed(self, generation: int) -> int:
        """How many segments an index holds, of all owners."""
        ...

    def count_held(self, generation: int) -> int:
        """How many vectors an index holds: those that it shall drop too."""
        ...

    def lacking(self, generation: int, *, beyond: int, owner: str, most: int) -> Lacking:
        """Which of an owner's segments with a higher number an index does not hold yet.

        Takes time in proportion to the segments beyond that number, up to the last that is counted.

        Args:
            generation: of the index.
            beyond: only segments with a higher number.
            owner: whose.
            most: counting ends here.
        """
        ...

    def unneeded(self, generation: int, *, limit: int) -> list[Unneeded]:
        """Vectors that an index shall drop."""
        ...

    def mark_dropped(self, generation: int, dropped: Sequence[Unneeded]) -> None:
        """Note that an index does not hold these vectors any more."""
        ...


class ScrubRequests(Protocol):
    """Requests to build the index anew, without the vectors of what was forgotten. The methods
    block; all raise StorageError when the disk refuses."""

    def request(self) -> None:
        """Have the index built anew from the vectors that remain, and its old files deleted."""
        ...

    def newest(self) -> int:
        """The number of the last request; 0 when there was none."""
        ...

    def is_pending(self) -> bool:
        """Whether a request is not carried out yet."""
        ...

    def settle(self, request: int) -> None:
        """Note that a request is carried out."""
        ...


class TokenCodes(Protocol):
    """The codes of segments' tokens, see `token_codes`. The methods block; all raise StorageError
    when the disk refuses."""

    def pending(
        self, coding: int, embedder: int, *, beyond: int, limit: int
    ) -> list[PendingSegment]:
        """The next segments that have a vector and no codes, in the order of their numbers.

        Args:
            coding: the number of the codes' identity, as `EmbeddingStore.embedder` gives it.
            embedder: whose vectors.
            beyond: only segments with a higher number.
            limit: at most so many.
        """
        ...

    def store(self, coding: int, numbers: Sequence[int], codes: Sequence[bytes]) -> None:
        """Keep the codes of segments; one that is gone meanwhile gets none."""
        ...

    def of(self, coding: int, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """The codes of segments, by number; those without are left out."""
        ...


class EmbeddingStore(Protocol):
    """The vectors of segments, by each embedder. The methods block; all raise StorageError when the
    disk refuses."""

    @property
    def generations(self) -> Generations:
        """Which generations of the index there are."""
        ...

    @property
    def contents(self) -> IndexContents:
        """Which of them holds which of the vectors."""
        ...

    @property
    def scrubs(self) -> ScrubRequests:
        """What is to be built anew since something was forgotten."""
        ...

    @property
    def codes(self) -> TokenCodes:
        """What is kept of the segments' tokens."""
        ...

    def embedder(self, identity: str, probe: Vectors | None = None) -> int:
        """The number under which this embedder's vectors are kept.

        Where another model is offered under the name of one that is known, it gets a number and an
        identity of its own: the name, and ``other=`` which one it is.

        Args:
            identity: see `Embedder.identity`.
            probe: its vector of `PROBE`, one row; None: the name alone decides.
        """
        ...

    def identity(self, embedder: int) -> str:
        """The identity of an embedder that is known by this number."""
        ...

    def pending(self, embedder: int, *, beyond: int, limit: int) -> list[PendingSegment]:
        """The next segments without a vector, in the order of their numbers.

        Args:
            embedder: whose vectors.
            beyond: only segments with a higher number.
            limit: at most so many.
        """
        ...

    def store(self, embedder: int, pending: Sequence[PendingSegment], vectors: Vectors) -> None:
        """Keep the vectors of segments; one that is gone meanwhile gets none.

        Args:
            embedder: whose they are.
            pending: the segments.
            vectors: a row of length 1 for each of them.
        """
        ...

    def vectors_of(self, embedder: int, numbers: Sequence[int], dimension: int) -> KnownVectors:
        """The vectors of segments, in the order of `numbers`, which may be any."""
        ...

    def to_index(
        self, generation: int, embedder: int, *, beyond: int, limit: int
    ) -> list[IndexEntry]:
        """The next vectors that this generation of the index lacks, in the order of numbers."""
        ...

    def sample(self, generation: int, embedder: int, count: int) -> list[IndexEntry]:
        """Up to `count` vectors that this generation holds, spread evenly, with first and last."""
        ...

    def count_segments(self, *, up_to: int | None = None) -> int:
        """How many segments there are, of all owners; all of them, or those numbered so at most."""
        ...

    def count_vectors(self, embedder: int) -> int:
        """How many segments have their vector by this embedder, of all owners."""
        ...

    def drop_vectors_of_others(self, needed: Iterable[int]) -> bool:
        """Drop some vectors, and codes of tokens, of embedders that are not needed any more.

        Returns:
            Whether there may be more.
        """
        ...
