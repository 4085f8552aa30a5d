"""The vector index: an embedded Chroma, one collection for each embedder and owner.

A collection belongs to one embedder's identity, so that vectors of two models, or of two versions
of one, can never be compared with each other. And it belongs to one owner: a filter that most
vectors pass costs Chroma fifty times what the search itself does. Only one process may open the
folder: two corrupt it (see `data_folder`).
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from service.domain.anchors import AnchorRef, Segment
from service.domain.errors import StorageError
from service.memory.protocol import Candidate, SearchFilters, Vectors
from service.memory.segment_rows import epoch
from service.memory.tuned import HNSW

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

_T = TypeVar("_T")


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
            self._largest_batch: int = self._client.get_max_batch_size()
            self._collections: dict[str, Collection] = {
                collection.metadata["owner"]: collection
                for collection in self._client.list_collections()
                if (collection.metadata or {}).get("identity") == identity
            }
        self._identity = identity
        self._making = threading.Lock()

    def upsert(self, segments: Sequence[Segment], vectors: Vectors) -> None:
        """See `VectorIndex.upsert`."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, piece in enumerate(segments):
            rows[piece.owner].append(row)
        with self._in_words("written"):
            for owner, of_owner in rows.items():
                for batch in self._batches(of_owner):
                    self._collection_to_write(owner).upsert(
                        ids=[str(segments[row].anchor.ref) for row in batch],
                        embeddings=vectors[batch],
                        metadatas=[_metadata(segments[row]) for row in batch],
                    )

    def search(
        self, vector: Vectors, *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        """See `VectorIndex.search`."""
        collection = self._collections.get(owner)
        if collection is None:
            return []
        with self._in_words("read"):
            found = collection.query(
                query_embeddings=vector,
                n_results=limit,
                where=_where(filters),
                include=["distances"],
            )
        return [
            Candidate(AnchorRef.parse(ref), 1.0 - distance)
            for ref, distance in zip(found["ids"][0], found["distances"][0], strict=True)
        ]

    def delete(self, refs: Sequence[AnchorRef], *, owner: str) -> None:
        """See `VectorIndex.delete`."""
        collection = self._collections.get(owner)
        if collection is not None:
            with self._in_words("written"):
                for batch in self._batches(refs):
                    collection.delete(ids=[str(ref) for ref in batch])

    def delete_run_loop(self, run_loop_id: str, *, owner: str) -> None:
        """See `VectorIndex.delete_run_loop`."""
        collection = self._collections.get(owner)
        if collection is not None:
            with self._in_words("written"):
                collection.delete(where={"run_loop_id": run_loop_id})

    def count(self) -> int:
        """See `VectorIndex.count`."""
        with self._in_words("read"):
            return sum(collection.count() for collection in list(self._collections.values()))

    def close(self) -> None:
        """See `VectorIndex.close`."""
        with self._in_words("closed"):
            self._client.close()

    def _collection_to_write(self, owner: str) -> Collection:
        with self._making:
            if owner not in self._collections:
                self._collections[owner] = self._client.get_or_create_collection(
                    f"segments-{_short_hash(self._identity)}-{_short_hash(owner)}",
                    embedding_function=None,
                    configuration={"hnsw": {"space": "cosine", **HNSW}},
                    metadata={"identity": self._identity, "owner": owner},
                )
            return self._collections[owner]

    def _batches(self, items: Sequence[_T]) -> Iterator[Sequence[_T]]:
        for start in range(0, len(items), self._largest_batch):
            yield items[start : start + self._largest_batch]

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


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


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


def _where(filters: SearchFilters) -> dict[str, object] | None:
    conditions: list[dict[str, object]] = []
    if filters.types is not None:
        conditions.append({"type": {"$in": sorted(filters.types)}})
    if filters.since is not None:
        conditions.append({"at": {"$gte": epoch(filters.since)}})
    if filters.until is not None:
        conditions.append({"at": {"$lt": epoch(filters.until)}})
    if filters.run_loop_id is not None:
        conditions.append({"run_loop_id": filters.run_loop_id})
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return {"$and": conditions}
