"""Asking a store, and what was found."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from service.bench.relevance.question_stores import Asked, Store
from service.bench.retrieval.evaluation_store import OWNER, fill, opened
from service.bench.retrieval.retrieval_metrics import Place
from service.domain.anchors import MemoryHit
from service.memory.protocol import Embedder, Vectors
from service.memory.run_loop_lines import line_of

LOOKED_AT = 10
"""How many hits are asked for."""


class Answer(NamedTuple):
    """A question, and what a store had to say."""

    asked: Asked
    hits: Sequence[MemoryHit]
    """Best first, explained."""
    segments: int
    """How many the store has."""

    @property
    def relevance(self) -> float:
        """Of the best hit; 0 where there is none."""
        return self.hits[0].relevance if self.hits else 0.0

    @property
    def related(self) -> bool:
        """Whether any hit seems to be about the question."""
        return any(hit.related for hit in self.hits)

    @property
    def evidence(self) -> list[MemoryHit]:
        """The hits that answer it."""
        places = self.asked.query.places
        return [hit for hit in self.hits if Place.of(hit.anchor) in places]


async def ask(store: Store, embedder: Embedder | None, *, now: datetime) -> list[Answer]:
    """Fill a fresh folder with a store, and ask each question once.

    Raises:
        BenchmarkError: the store could not be filled.
    """
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        home, lines = Path(folder) / "data", Path(folder) / "run_loops.jsonl"
        home.mkdir(mode=0o700)
        lines.write_bytes(b"".join(map(line_of, store.run_loops)))
        await fill(home, lines, embedder)
        async with opened(home, embedder, now=now) as memory:
            segments = (await memory.stats()).segments
            answers = []
            for asked in store.asked:
                words = asked.query.query
                results = await memory.search(words, owner=OWNER, limit=LOOKED_AT, explain=True)
                answers.append(Answer(asked, results.hits, segments))
            return answers


class KeptVectors:
    """Keeps all vectors: most texts stand in several stores. Satisfies `Embedder`."""

    def __init__(self, embedder: Embedder) -> None:
        """Put it before an embedder."""
        self._embedder = embedder
        self._passages: dict[str, Vectors] = {}

    @property
    def identity(self) -> str:
        """The embedder's own."""
        return self._embedder.identity

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        return self._embedder.embed_queries(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`."""
        import numpy as np

        missing = [text for text in dict.fromkeys(texts) if text not in self._passages]
        if missing:
            vectors = self._embedder.embed_passages(missing)
            self._passages |= {text: vectors[at] for at, text in enumerate(missing)}
        return np.stack([self._passages[text] for text in texts])
