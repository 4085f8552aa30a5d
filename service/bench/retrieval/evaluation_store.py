"""A fresh data folder that holds one set, filled and asked as everybody does it."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import anyio

from service.bench.parameters import Arm, BenchmarkError
from service.bench.retrieval.retrieval_dataset import Query
from service.bench.retrieval.retrieval_metrics import DEEPEST, Place
from service.domain.anchors import MemoryHit
from service.domain.conversation.token_estimates import estimate_tokens
from service.memory.exchange.importing import Importing
from service.memory.long_term import LongTermMemory
from service.memory.memory import Memory
from service.memory.protocol import Embedder
from service.memory.stores import long_term_memory

OWNER = "me"

_PIECE_BYTES = 1 << 16
_WARM_UP = "Where is the nearest lighthouse?"


async def fill(folder: Path, run_loops: Path, embedder: Embedder | None) -> str | None:
    """Import a file of run loops, and embed all of it where there is an embedder.

    Returns:
        The embedder's identity.

    Raises:
        BenchmarkError: a line could not go in, or not all could be embedded.
        RondoError: the folder cannot be written.
    """
    async with Memory(folder, embedder) as memory, aclosing(_pieces(run_loops)) as pieces:
        report = await Importing(memory, owner=OWNER).take(pieces)
        if report.failed:
            first = report.failed[0]
            raise BenchmarkError(f"{run_loops}, line {first.line}: {first.problem}")
        problem = (await memory.long_term.embed_pending()).problem
        if problem is not None:
            raise BenchmarkError(problem.in_words())
        return (await memory.long_term.stats()).embedder


@asynccontextmanager
async def opened(
    folder: Path, embedder: Embedder | None, *, now: datetime
) -> AsyncIterator[LongTermMemory]:
    """The memory of a folder that `fill` has filled.

    Args:
        folder: where it is.
        embedder: None: its words alone are searched.
        now: the moment of asking, by which "last week" is understood.

    Raises:
        BenchmarkError: the embedder cannot be used.
    """
    memory = long_term_memory(folder, embedder, clock=lambda: now)
    await memory.start()
    try:
        problem = await memory.warm_up()
        if problem is not None:
            raise BenchmarkError(problem.in_words())
        yield memory
    finally:
        await memory.aclose()


async def _pieces(path: Path) -> AsyncGenerator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while piece := await file.read(_PIECE_BYTES):
            yield piece


class Answer(NamedTuple):
    """What one query found, and how long that took."""

    query: Query
    hits: tuple[Place, ...]
    """Best first."""
    ms: float
    tokens: tuple[int, ...] = ()
    """Of each hit, estimated."""
    relevance: float = 0.0
    """Of the best hit; 0 without one."""


async def ask_all(
    memory: LongTermMemory, queries: Sequence[Query], arm: Arm, *, owner: str, seed: int
) -> list[Answer]:
    """Ask each query once, one after the other, in an order drawn by `seed`.

    A question of no set comes first and is not counted: it opens what opens at the first search.

    Raises:
        BenchmarkError: the search had to do without vectors, and says why.
    """
    order = random.Random(seed).sample(list(queries), len(queries))
    await _search(memory, _WARM_UP, arm, owner)
    answers = []
    for query in order:
        begun = time.perf_counter()
        hits = await _search(memory, query.query, arm, owner)
        ms = (time.perf_counter() - begun) * 1000
        answers.append(
            Answer(
                query,
                tuple(Place.of(hit.anchor) for hit in hits),
                ms,
                tuple(estimate_tokens(hit.content) for hit in hits),
                hits[0].relevance if hits else 0.0,
            )
        )
    return answers


async def _search(memory: LongTermMemory, text: str, arm: Arm, owner: str) -> Sequence[MemoryHit]:
    result = await memory.search(text, owner=owner, limit=DEEPEST, words=arm != "dense")
    if arm != "lexical" and result.mode == "lexical":
        raise BenchmarkError(f"{arm} was to search, but words alone did: {result.notice}")
    return result.hits
