"""The daemon's router for each way of deciding, and what its model was trained on.

Beside the embedder that it uses the same one bare, as the baseline. Both work in the same kind of
worker thread: an engine may give the thread that loaded it another number of cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Literal

import anyio.to_thread

from service.domain.history.state import RunLoopState
from service.llm.protocol import LLM
from service.llm.scripted.script_language import Script
from service.llm.scripted.scripted_model import ScriptedModel
from service.memory.embedders.query_cache import QueryCache
from service.memory.protocol import Embedder, Vectors
from service.routing.router import Router
from service.routing.routing_options import RouterOptions

Method = Literal["embedding", "llm", "full"]
"""The trained model alone; the language model for every message; both, as the daemon asks them."""
Warm = Callable[[Sequence[RunLoopState]], Awaitable[None]]
"""Waits until the router has read what was said in these loops."""


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


def options_for(method: Method, options: RouterOptions) -> RouterOptions:
    """How a router decides by a method, where `options` are the daemon's own.

    A person is never asked, and no message is taken apart: each is decided upon by itself.
    """
    options = replace(options, ask_below=0.0, split_matters=False)
    if method == "embedding":
        return replace(options, use_llm=False, sure_above=0.0)
    if method == "llm":
        return replace(options, use_llm=True, sure_above=1.0)
    return options


@asynccontextmanager
async def router_for(
    method: Method, embedder: TimedEmbedder, llm: LLM | None, options: RouterOptions
) -> AsyncGenerator[tuple[Router, Warm]]:
    """A router that nothing was asked of yet.

    `Warm` embeds what was said in loops, as the daemon does once they come to rest.
    """
    llm = llm or ScriptedModel(Script())  # is never asked
    router = Router(llm, embedder.embed, options_for(method, options))
    yield router, router.prepare


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The router's model, and the sets that it was trained on."""

    version: str
    sets: Sequence[dict[str, Any]]
    """With ``set``, its name, and ``sha256`` of all its files, one after the other."""


def trained_on() -> TrainedOn:
    """What the shipped model says of itself."""
    file = resources.files("service.routing").joinpath("routing_model.json")
    written = json.loads(file.read_text("utf-8"))
    return TrainedOn(written["version"], written["trained_on"])
