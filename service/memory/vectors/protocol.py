"""What is asked of the engine that finds the nearest vectors.

A `VectorIndex` is one generation of the index; an `IndexPlace` opens and removes generations. No
words are given to either, nor anything else that a search is narrowed to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from service.memory.protocol import Vectors

_FLOATS = np.dtype("<f2")
_STEPS = 127
"""Of the largest number of a vector, to either side."""


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
    """As it is kept, see `stored_vectors`."""


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


def stored_vectors(vectors: Vectors) -> list[bytes]:
    """Vectors as they are kept, one of each row: a byte a number.

    Each number is told in 127ths of the vector's largest one, which changes the cosine of two
    texts by some hundred-thousandths. Behind them stand one or two bytes that say how many they
    are, so that the length is odd: that of the older form, 16-bit floats, little-endian, is even.

    Args:
        vectors: shape (count, dimension), finite, no row of zeros alone.
    """
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0.0), 1e-30)
    steps = np.rint(vectors / largest * _STEPS).astype(np.int8)
    padding = 2 if vectors.shape[1] % 2 else 1
    return [row.tobytes() + bytes([padding]) * padding for row in steps]


def as_matrix(vectors: Sequence[bytes]) -> Vectors:
    """Stored vectors, of either form, as rows of length 1."""
    small = [len(each) % 2 == 1 for each in vectors]
    if all(small):
        rows = _of_bytes(vectors)
    elif not any(small):
        rows = _of_floats(vectors)
    else:
        places = np.array(small)
        of_bytes = _of_bytes([each for each in vectors if len(each) % 2])
        rows = np.empty((len(vectors), of_bytes.shape[1]), dtype=np.float32)
        rows[places] = of_bytes
        rows[~places] = _of_floats([each for each in vectors if not len(each) % 2])
    unit: Vectors = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return unit


def _of_bytes(vectors: Sequence[bytes]) -> Vectors:
    rows = np.frombuffer(b"".join(vectors), dtype=np.int8).reshape(len(vectors), -1)
    return rows[:, : rows.shape[1] - int(rows[0, -1])].astype(np.float32)


def _of_floats(vectors: Sequence[bytes]) -> Vectors:
    rows = np.frombuffer(b"".join(vectors), dtype=_FLOATS).reshape(len(vectors), -1)
    return rows.astype(np.float32)
