"""A fresh data folder that holds one set, brought in by the public path."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path

import anyio

from service.bench.parameters import BenchmarkError
from service.memory.exchange.importing import Importing
from service.memory.long_term import LongTermMemory
from service.memory.memory import Memory
from service.memory.protocol import Embedder
from service.memory.stores import long_term_memory

OWNER = "me"

_PIECE_BYTES = 1 << 16


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
