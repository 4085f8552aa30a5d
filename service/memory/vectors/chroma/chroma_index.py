"""One generation of the vector index, open: a Chroma collection for each owner.

An owner has a collection of their own because a filter that most vectors pass costs Chroma fifty
times what the search itself does. Ids are the numbers of segments; nothing else is stored with a
vector: no words, no names, no filters.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from service.domain.errors import ConflictError
from service.memory.memory_tuning import HNSW
from service.memory.protocol import Vectors
from service.memory.vectors.protocol import IndexEntry, Nearest, as_matrix

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

_PAGE = 100


class ChromaIndex:
    """A `VectorIndex` by Chroma. Making one opens it.

    Raises:
        IndexDamagedError: what is there cannot be opened.
        IndexUnreachableError: the server does not answer.
        StorageError: the disk refuses.
    """

    def __init__(
        self,
        client: ClientAPI,
        prefix: str,
        errors: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        """Open what a client gives; the client is closed with the index.

        Args:
            client: of the place where the generation is.
            prefix: of the generation's collections.
            errors: gives a context that turns Chroma's errors into ours; told what is done.
        """
        self._errors = errors
        self._client, self._prefix = client, prefix
        self._collections: dict[str, Collection] = {}  # by name
        self._making = threading.Lock()
        self._idle = threading.Condition()
        self._users = 0
        self._closed = False
        try:
            with self._errors("opened"):
                self._largest_batch: int = self._client.get_max_batch_size()
                for name in collection_names(self._client):
                    if name.startswith(self._prefix):
                        self._collections[name] = self._client.get_collection(
                            name, embedding_function=None
                        )
        except BaseException:
            self._client.close()
            raise

    def add(self, entries: Sequence[IndexEntry]) -> None:
        """See `VectorIndex.add`."""
        by_owner: defaultdict[str, list[IndexEntry]] = defaultdict(list)
        for entry in entries:
            by_owner[entry.owner].append(entry)
        with self._in_use("written"):
            for owner, of_owner in by_owner.items():
                collection = self._collection_to_write(owner)
                for start in range(0, len(of_owner), self._largest_batch):
                    batch = of_owner[start : start + self._largest_batch]
                    collection.upsert(
                        ids=[str(entry.number) for entry in batch],
                        embeddings=as_matrix([entry.vector for entry in batch]),
                    )

    def search(self, vectors: Vectors, *, owner: str, limit: int) -> list[list[Nearest]]:
        """See `VectorIndex.search`."""
        collection = self._collections.get(self._name(owner))
        if collection is None:
            return [[] for _ in vectors]
        with self._in_use("read"):
            nearest = collection.query(
                query_embeddings=vectors, n_results=limit, include=["distances"]
            )
        distances = nearest["distances"]
        assert distances is not None
        return [
            [Nearest(int(number), 1.0 - distance) for number, distance in zip(*row, strict=True)]
            for row in zip(nearest["ids"], distances, strict=True)
        ]

    def delete(self, numbers: Sequence[int], *, owner: str | None) -> None:
        """See `VectorIndex.delete`."""
        condemned = list(self._collections.values())
        if owner is not None:
            of_owner = self._collections.get(self._name(owner))
            condemned = [] if of_owner is None else [of_owner]
        if condemned:
            with self._in_use("written"):
                for collection in condemned:
                    for start in range(0, len(numbers), self._largest_batch):
                        batch = numbers[start : start + self._largest_batch]
                        collection.delete(ids=[str(number) for number in batch])

    def count(self) -> int:
        """See `VectorIndex.count`."""
        with self._in_use("read"):
            return sum(collection.count() for collection in list(self._collections.values()))

    def numbers(self) -> set[int]:
        """See `VectorIndex.numbers`."""
        numbers: set[int] = set()
        with self._in_use("read"):
            for collection in list(self._collections.values()):
                offset = 0
                while page := collection.get(limit=self._largest_batch, offset=offset, include=[])[
                    "ids"
                ]:
                    numbers.update(map(int, page))
                    offset += len(page)
        return numbers

    def close(self) -> None:
        """See `VectorIndex.close`."""
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: not self._users)
        with self._errors("closed"):
            self._client.close()

    def _collection_to_write(self, owner: str) -> Collection:
        with self._making:
            name = self._name(owner)
            if name not in self._collections:
                self._collections[name] = self._client.get_or_create_collection(
                    name,
                    embedding_function=None,
                    configuration={"hnsw": {"space": "cosine", **HNSW}},
                )
            return self._collections[name]

    def _name(self, owner: str) -> str:
        return self._prefix + hashlib.sha256(owner.encode()).hexdigest()[:24]

    @contextmanager
    def _in_use(self, what: str) -> Iterator[None]:
        """Keep the client open meanwhile: a search may be under way while a swap closes it."""
        with self._idle:
            if self._closed:
                raise ConflictError("the vector index was just replaced", advice="Try again.")
            self._users += 1
        try:
            with self._errors(what):
                yield
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()


def collection_names(client: ClientAPI) -> list[str]:
    """The names of all collections, asked for in pages: the cloud gives no more at a time."""
    names: list[str] = []
    while True:
        page = client.list_collections(limit=_PAGE, offset=len(names))
        names += [collection.name for collection in page]
        if len(page) < _PAGE:
            return names
