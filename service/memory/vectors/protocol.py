"""What is asked of the engine that finds the nearest vectors.

A `VectorIndex` is one generation of the index; an `IndexPlace` opens and removes generations. No
words are given to either, nor anything else that a search is narrowed to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from service.memory.protocol import Vectors

STORED = np.dtype("<f2")
"""Vectors are kept as 16-bit floats, little-endian, of length 1 as nearly as these allow."""


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
    """16-bit floats, little-endian; see `as_matrix`."""


class VectorIndex(Protocol):
    """Finds segments by their vectors, all of one embedder: one generation of the index.

    The methods block and may be called from any thread. All raise, in words: IndexDamagedError,
    when what is stored cannot be read any more; IndexUnreachableError, when a server does not
    answer; ConflictError, once it is closed; StorageError, when the disk refuses.
    """

    def add(self, entries: Sequence[IndexEntry]) -> None:
        """Store vectors; one that is there already stays as it is."""
        ...

    def search(self, vectors: Vectors, *, owner: str, limit: int) -> list[list[Nearest]]:
        """The segments of this owner nearest to each of `vectors`, rows of length 1; best first."""
        ...

    def delete(self, numbers: Sequence[int], *, owner: str | None) -> None:
        """Remove segments of an owner, or of all (None); what is not there counts as removed."""
        ...

    def count(self) -> int:
        """How many vectors there are, of all owners."""
        ...

    def numbers(self) -> set[int]:
        """The segments that are there, of all owners. For 100,000 it takes a second."""
        ...

    def close(self) -> None:
        """Release the files, once searches under way are done."""
        ...


class IndexPlace(Protocol):
    """Where the index lives: opens and removes generations.

    The methods block; they raise StorageError in words.
    """

    name: str
    """Tells two places apart; shown to people."""

    def open(self, generation: int) -> VectorIndex:
        """Open a generation, or make it.

        Raises:
            IndexDamagedError: what is there cannot be opened.
            IndexUnreachableError: the server does not answer.
            StorageError: the disk refuses.
        """
        ...

    def exists(self, generation: int) -> bool:
        """Whether there is anything of this generation to be opened."""
        ...

    def identity(self, generation: int) -> str:
        """Which file a generation is in, to be compared with what it was when that was opened;
        empty where there is none, or none to be seen.

        Raises:
            StorageError: the disk refuses.
        """
        ...

    def fingerprint(self, generation: int) -> str:
        """What the files of a generation are like; empty where there are none to be seen."""
        ...

    def damage(self, generation: int) -> str | None:
        """What is wrong with its files, as far as can be seen without opening it, in words."""
        ...

    def remove(self, generation: int) -> None:
        """Delete all of a generation. What is not there counts as removed."""
        ...

    def set_aside(self, generation: int) -> str:
        """Take a damaged generation out of the way; where it is now, in words."""
        ...

    def set_aside_before(self) -> list[str]:
        """The names of what was set aside and is still there."""
        ...

    def remove_leftovers(self, generations: set[int], *, damaged: bool) -> None:
        """Delete what belongs to no known generation; what was set aside too, if asked to."""
        ...


def as_matrix(vectors: Sequence[bytes]) -> Vectors:
    """Stored vectors as rows of length 1."""
    matrix = np.frombuffer(b"".join(vectors), dtype=STORED).reshape(len(vectors), -1)
    rows = matrix.astype(np.float32)
    unit: Vectors = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return unit
