"""The raw baseline: a bare Chroma with its own parameters, and nothing beside the vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.memory.protocol import Vectors


class BareChroma:
    """An embedded Chroma in a folder that does not exist yet. Opening it takes a second."""

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self._client: Any = chromadb.PersistentClient(
            str(folder), settings=Settings(anonymized_telemetry=False)
        )
        self._collection: Any = self._client.create_collection("baseline", embedding_function=None)
        self._added = 0

    def add(self, vectors: Vectors) -> None:
        """Add vectors, numbered on."""
        numbers = range(self._added, self._added + len(vectors))
        self._collection.add(ids=[str(number) for number in numbers], embeddings=vectors)
        self._added += len(vectors)

    def query(self, vector: Vectors, *, limit: int) -> int:
        """How many of the nearest there were, at most `limit`; `vector` has the shape (1, n)."""
        response = self._collection.query(
            query_embeddings=vector, n_results=limit, include=["distances"]
        )
        return len(response["ids"][0])

    def close(self) -> None:
        """Release the files."""
        self._client.close()
