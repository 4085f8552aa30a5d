"""The vector index: an embedded Chroma, one collection for each embedder.

The collection's name is a hash of the embedder's identity, so that vectors of two models, or of two
versions of one, can never be compared with each other. Only one process may open the folder: two
corrupt it (see `data_folder`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from service.domain.anchors import AnchorRef, Segment
from service.domain.errors import StorageError
from service.memory.protocol import Candidate, SearchFilters, Vectors
from service.memory.segment_rows import epoch

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection


class ChromaIndex:
    """A `VectorIndex` in a folder. Making one imports and opens Chroma, which takes a second.

    Raises:
        StorageError: the folder is damaged or cannot be written; says what to do.
    """

    def __init__(self, folder: Path, *, identity: str) -> None:
        self._folder = folder
        with self._in_words("opened"):
            import chromadb
            from chromadb.config import Settings

            self._client: ClientAPI = chromadb.PersistentClient(
                str(folder), settings=Settings(anonymized_telemetry=False, allow_reset=False)
            )
            self._collection: Collection = self._client.get_or_create_collection(
                f"segments-{hashlib.sha256(identity.encode()).hexdigest()[:32]}",
                embedding_function=None,
                configuration={"hnsw": {"space": "cosine"}},
                metadata={"identity": identity},
            )
            self._largest_batch: int = self._client.get_max_batch_size()

    def upsert(self, segments: Sequence[Segment], vectors: Vectors) -> None:
        """See `VectorIndex.upsert`."""
        with self._in_words("written"):
            for start in range(0, len(segments), self._largest_batch):
                batch = segments[start : start + self._largest_batch]
                self._collection.upsert(
                    ids=[_vector_id(piece.owner, piece.anchor.ref) for piece in batch],
                    embeddings=vectors[start : start + self._largest_batch],
                    metadatas=[_metadata(piece) for piece in batch],
                )

    def search(
        self, vector: Vectors, *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        """See `VectorIndex.search`."""
        with self._in_words("read"):
            found = self._collection.query(
                query_embeddings=vector,
                n_results=limit,
                where=_where(owner, filters),
                include=["distances"],
            )
        return [
            Candidate(_ref(vector_id), 1.0 - distance)
            for vector_id, distance in zip(found["ids"][0], found["distances"][0], strict=True)
        ]

    def delete(self, refs: Sequence[AnchorRef], *, owner: str) -> None:
        """See `VectorIndex.delete`."""
        with self._in_words("written"):
            for start in range(0, len(refs), self._largest_batch):
                batch = refs[start : start + self._largest_batch]
                self._collection.delete(ids=[_vector_id(owner, ref) for ref in batch])

    def delete_run_loop(self, run_loop_id: str, *, owner: str) -> None:
        """See `VectorIndex.delete_run_loop`."""
        with self._in_words("written"):
            self._collection.delete(where=_where(owner, SearchFilters(run_loop_id=run_loop_id)))

    def count(self) -> int:
        """See `VectorIndex.count`."""
        with self._in_words("read"):
            return int(self._collection.count())

    def close(self) -> None:
        """See `VectorIndex.close`."""
        with self._in_words("closed"):
            self._client.close()

    @contextmanager
    def _in_words(self, what: str) -> Iterator[None]:
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        # Chroma raises errors of many kinds; a panic in its native part is no `Exception` at all.
        except BaseException as error:
            raise StorageError(
                f"the vector index in {self._folder} cannot be {what}: {error}",
                advice=f"Check the disk. If the index is damaged, stop the daemon, move "
                f"{self._folder} away and start again: the vectors are made anew from the ledger.",
            ) from error


def _vector_id(owner: str, ref: AnchorRef) -> str:
    return f"{quote(owner, safe='')}|{ref}"


def _ref(vector_id: str) -> AnchorRef:
    return AnchorRef.parse(vector_id.partition("|")[2])


def _metadata(piece: Segment) -> dict[str, str | int | float]:
    anchor = piece.anchor
    return {
        "owner": piece.owner,
        "run_loop_id": anchor.run_loop_id,
        "iteration": anchor.iteration_index,
        "segment": anchor.segment_index,
        "type": anchor.segment_type,
        "at": epoch(anchor.timestamp),
    }


def _where(owner: str, filters: SearchFilters) -> dict[str, object]:
    conditions: list[dict[str, object]] = [{"owner": owner}]
    if filters.types is not None:
        conditions.append({"type": {"$in": sorted(filters.types)}})
    if filters.since is not None:
        conditions.append({"at": {"$gte": epoch(filters.since)}})
    if filters.until is not None:
        conditions.append({"at": {"$lt": epoch(filters.until)}})
    if filters.run_loop_id is not None:
        conditions.append({"run_loop_id": filters.run_loop_id})
    return conditions[0] if len(conditions) == 1 else {"$and": conditions}
