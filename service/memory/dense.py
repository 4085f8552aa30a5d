"""The dense side of memory: an embedder and the vector index that belongs to it, as one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from service.domain.anchors import AnchorRef, Segment
from service.domain.errors import EmbeddingError
from service.memory.protocol import Candidate, Embedder, SearchFilters, VectorIndex, Vectors


class DenseFound(NamedTuple):
    """What the vectors say to a query."""

    candidates: list[Candidate]
    """The nearest segments, best first."""
    lowest: float
    """The cosine of the farthest segment of all that were asked for."""


class _Loaded(NamedTuple):
    identity: str
    vectors: VectorIndex


class DenseSide:
    """Loads both halves on the first call of `load`. The methods block; callers use threads."""

    def __init__(self, embedder: Embedder, open_index: Callable[[str], VectorIndex]) -> None:
        self._embedder = embedder
        self._open_index = open_index
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def identity(self) -> str | None:
        """The embedder's identity; None before it is loaded."""
        return self._loaded.identity if self._loaded else None

    def load(self) -> bool:
        """Load the embedder and open the index, once, from whichever thread comes first.

        Returns:
            Whether this call did it.

        Raises:
            EmbeddingError: the embedder cannot be used.
            StorageError: the index cannot be opened.
        """
        with self._loading:
            if self._loaded is not None:
                return False
            self._embedder.embed_queries(["ready?"])  # whatever is loaded lazily is loaded now
            identity = self._embedder.identity
            self._loaded = _Loaded(identity, self._open_index(identity))
            return True

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions.

        Raises:
            EmbeddingError: they cannot be embedded.
        """
        return self._embedder.embed_queries(texts)

    def search(self, query: str, *, owner: str, filters: SearchFilters, limit: int) -> DenseFound:
        """The segments of this owner nearest in meaning.

        Raises:
            EmbeddingError: the query cannot be embedded.
            StorageError: the index cannot be read.
        """
        index = self._index()
        vector = self._embedder.embed_queries([query])
        nearest = index.search(vector, owner=owner, filters=filters, limit=limit)
        farthest = index.search(-vector, owner=owner, filters=filters, limit=1)
        return DenseFound(nearest, -farthest[0].score if farthest else 1.0)

    def add(self, segments: Sequence[Segment]) -> None:
        """Embed segments and put their vectors into the index.

        Raises:
            EmbeddingError: they cannot be embedded.
            StorageError: the index cannot be written.
        """
        vectors = self._embedder.embed_passages([piece.content for piece in segments])
        self._index().upsert(segments, vectors)

    def remove(self, refs: Sequence[AnchorRef], *, owner: str) -> None:
        """Take vectors out of the index.

        Raises:
            StorageError: the index cannot be written.
        """
        self._index().delete(refs, owner=owner)

    def count(self) -> int:
        """How many vectors the index holds, of all owners.

        Raises:
            StorageError: the index cannot be read.
        """
        return self._index().count()

    def close(self) -> None:
        """Release the index."""
        with self._loading:
            loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.vectors.close()

    def _index(self) -> VectorIndex:
        if self._loaded is None:
            raise EmbeddingError("the embedder is not loaded", advice="Try again in a moment.")
        return self._loaded.vectors
