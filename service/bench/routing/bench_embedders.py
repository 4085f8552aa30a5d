"""The embedder that the router uses, and the same one bare, as the baseline.

Both work in the same kind of worker thread: an engine may give the thread that loaded it another
number of cores.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import anyio.to_thread

from service.memory.embedders.query_cache import QueryCache
from service.memory.protocol import Embedder, Vectors


class TimedEmbedder:
    """An embedder with the cache that the daemon has before it. Counts what is embedded."""

    def __init__(self, embedder: Embedder | None) -> None:
        """Put a cache before an embedder; without one, nothing is embedded."""
        self._bare = embedder
        self._cache = QueryCache(_Counting(embedder, self)) if embedder else None
        self.embedded = 0
        """Texts that went to the model since this was last set."""

    async def embed(self, texts: Sequence[str]) -> Vectors | None:
        """As the daemon embeds for its router."""
        if self._cache is None:
            return None
        return await anyio.to_thread.run_sync(self._cache.embed_queries, texts)

    async def bare_ms(self, text: str) -> float | None:
        """Milliseconds that the model alone takes for one message."""
        if self._bare is None:
            return None
        return await anyio.to_thread.run_sync(_timed, self._bare, text)


class _Counting:
    """Counts for a `TimedEmbedder`. Satisfies `Embedder`."""

    def __init__(self, embedder: Embedder, counter: TimedEmbedder) -> None:
        self._embedder = embedder
        self._counter = counter

    @property
    def identity(self) -> str:
        return self._embedder.identity

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self._counter.embedded += len(texts)
        return self._embedder.embed_queries(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_passages(texts)


def _timed(embedder: Embedder, text: str) -> float:
    begun = time.perf_counter()
    embedder.embed_queries([text])
    return (time.perf_counter() - begun) * 1000
