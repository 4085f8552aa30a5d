"""A long-term memory that grows, and a bare Chroma that grows beside it; measured in turn.

The bare Chroma is the raw baseline: its own parameters, and nothing beside the vectors. It works in
the same kind of worker thread as Rondo: an engine may have settings of each thread, and give the
thread that loaded it another number of cores.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from service.bench.memory.memory_dataset import Corpus, MixedEmbedder
from service.bench.parameters import BenchmarkError
from service.domain.anchors import SearchResult
from service.domain.run_loops import RunLoop
from service.memory.ledger.segmenter import segment
from service.memory.long_term import LongTermMemory
from service.memory.protocol import Embedder, SearchFilters, Vectors

OWNER = "me"
BLOCK = 64
"""Segments, at least, that subject and baseline archive in turn."""
_FILL_BLOCK = 2_000
Filters = dict[str, SearchFilters]


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


class Piece(NamedTuple):
    """What is known of a segment that was archived."""

    run_loop_id: str
    at: datetime
    text: str


class Taken(NamedTuple):
    """Seconds that one block took."""

    segments: int
    subject: float
    baseline: float


class Searched(NamedTuple):
    """Milliseconds that one question took."""

    kind: str
    """The name of the filter; empty: without one."""
    subject: float
    baseline: float
    is_hit: bool
    """Whether what it asks about was among the hits."""


class Stores:
    """Both stores, filled with the same segments and vectors. `memory` must have been started."""

    def __init__(
        self,
        memory: LongTermMemory,
        baseline: BareChroma,
        model: Embedder,
        mixed: MixedEmbedder,
        corpus: Corpus,
        seed: int,
    ) -> None:
        """Take the parts; `memory` embeds by `mixed`, the baseline by `model`, which `mixed`
        uses."""
        self._memory = memory
        self._baseline = baseline
        self._model = model
        self._mixed = mixed
        self._corpus = corpus
        self._source = corpus.run_loops(owner=OWNER)
        self._random = random.Random(seed)
        self._pieces: list[Piece] = []
        self._targets: list[Piece] = []

    @property
    def segments(self) -> int:
        """How many each holds."""
        return len(self._pieces)

    async def fill(self, size: int) -> list[Taken]:
        """Grow to at least so many segments, with vectors that the model need not make.

        Returns:
            What each block took. Rondo draws its vectors within its time, which takes some
            twentieth of a millisecond each; the baseline is given them.
        """
        taken = []
        while self.segments < size:
            loops, texts = self._next(min(_FILL_BLOCK, size - self.segments))
            self._mixed.by_model = False
            subject = await self._archive(loops)
            self._mixed.by_model = True
            vectors = self._mixed.vectors_again(texts)
            begun = time.perf_counter()
            self._baseline.add(vectors)
            taken.append(Taken(len(texts), subject, time.perf_counter() - begun))
            self._targets += self._pieces[-len(texts) :]
        return taken

    async def archive(self, count: int) -> list[Taken]:
        """Grow by at least so many segments, embedded by the model, in blocks in turn."""
        taken: list[Taken] = []
        goal = self.segments + count
        while self.segments < goal:
            loops, texts = self._next(min(BLOCK, goal - self.segments))
            if len(taken) % 2:  # whoever is second finds the machine as the first has left it
                baseline = await anyio.to_thread.run_sync(self._add_to_baseline, texts)
                subject = await self._archive(loops)
            else:
                subject = await self._archive(loops)
                baseline = await anyio.to_thread.run_sync(self._add_to_baseline, texts)
            taken.append(Taken(len(texts), subject, baseline))
        return taken

    def filters(self) -> Filters:
        """The filters that are measured, by name; they follow the store's size."""
        count = len(self._pieces)
        moments = [piece.at for piece in self._pieces]
        first = self._random.randrange(count - count // 100)
        return {
            "type": SearchFilters(types=frozenset({"user_message"})),
            "half_of_time": SearchFilters(since=moments[count // 2]),
            "hundredth_of_time": SearchFilters(
                since=moments[first], until=moments[first + count // 100]
            ),
            "run_loop": SearchFilters(run_loop_id=self._random.choice(self._pieces).run_loop_id),
            "metadata": SearchFilters(metadata={"project": "project 7"}),
        }

    async def search(self, queries: int, filters: Filters, *, limit: int) -> list[Searched]:
        """Ask both, in turn, so many questions without a filter and with each; none twice."""
        kinds: list[tuple[str, SearchFilters | None]] = [("", None), *filters.items()]
        searched: list[Searched] = []
        for number in range(-1, queries):  # the first round only warms up
            self._random.shuffle(kinds)
            for kind, chosen in kinds:
                target = self._random.choice(self._targets)
                question = self._corpus.query(target.text)
                self._mixed.expect(question, target.text)
                if len(searched) % 2:
                    baseline = await anyio.to_thread.run_sync(self._ask_baseline, question, limit)
                    subject, result = await self._ask(question, chosen, limit)
                else:
                    subject, result = await self._ask(question, chosen, limit)
                    baseline = await anyio.to_thread.run_sync(self._ask_baseline, question, limit)
                is_hit = any(hit.content == target.text for hit in result.hits)
                if number >= 0:
                    searched.append(Searched(kind, subject, baseline, is_hit))
        return searched

    def _next(self, count: int) -> tuple[list[RunLoop], list[str]]:
        """Run loops of at least so many segments, and the texts of these."""
        loops: list[RunLoop] = []
        pieces: list[Piece] = []
        while len(pieces) < count:
            loop = next(self._source)
            loops.append(loop)
            pieces += [
                Piece(loop.id, piece.anchor.timestamp, piece.content) for piece in segment(loop)
            ]
        self._pieces += pieces
        return loops, [piece.text for piece in pieces]

    async def _archive(self, loops: Sequence[RunLoop]) -> float:
        begun = time.perf_counter()
        for loop in loops:
            await self._memory.archive(loop)
        progress = await self._memory.embed_pending()
        taken = time.perf_counter() - begun
        if progress.problem is not None:
            raise BenchmarkError(progress.problem.in_words())
        return taken

    def _add_to_baseline(self, texts: Sequence[str]) -> float:
        begun = time.perf_counter()
        self._baseline.add(self._model.embed_passages(texts))
        return time.perf_counter() - begun

    async def _ask(
        self, question: str, filters: SearchFilters | None, limit: int
    ) -> tuple[float, SearchResult]:
        begun = time.perf_counter()
        result = await self._memory.search(question, owner=OWNER, limit=limit, filters=filters)
        taken = (time.perf_counter() - begun) * 1000
        if result.mode != "hybrid":
            raise BenchmarkError(f"words alone searched: {result.notice}")
        return taken, result

    def _ask_baseline(self, question: str, limit: int) -> float:
        begun = time.perf_counter()
        real = self._model.embed_queries([question])
        embedded = time.perf_counter() - begun
        vector = self._mixed.for_question(question, real)
        begun = time.perf_counter()
        self._baseline.query(vector, limit=limit)
        return (embedded + time.perf_counter() - begun) * 1000


def bytes_in(folder: Path) -> int:
    """What the files in a folder take."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
