"""Run loops to remember, an embedder that knows only words, and a memory in a folder."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from service.config import MemorySettings
from service.domain.anchors import SearchResult
from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.errors import EmbeddingError
from service.domain.run_loops import Iteration, RunLoop, Status
from service.memory.ledger.terms import terms
from service.memory.long_term import LongTermMemory
from service.memory.protocol import Embedder, LiveRunLoops, Vectors
from service.memory.stores import long_term_memory

NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)


def run_loop(
    loop_id: str,
    *turns: tuple[str, str] | Iteration,
    owner: str = "me",
    status: Status = "completed",
    at: datetime = NOON,
) -> RunLoop:
    """A loop of turns (question, answer), a minute apart."""
    iterations = tuple(
        turn
        if isinstance(turn, Iteration)
        else Iteration(
            user_message=turn[0], response=turn[1], timestamp=at + timedelta(minutes=index)
        )
        for index, turn in enumerate(turns)
    )
    return RunLoop(
        id=loop_id,
        owner=owner,
        goal=(iterations[0].user_message or "" if iterations else ""),
        status=status,
        iterations=iterations,
        created_at=at,
        completed_at=at if status == "completed" else None,
    )


def tool_turn(question: str, name: str, arguments: str, result: str, answer: str) -> Iteration:
    """A turn in which one tool was called."""
    return Iteration(
        user_message=question,
        tool_calls=(ToolCall(id="c1", name=name, arguments=arguments),),
        tool_results=(ToolResult(id="c1", content=result),),
        response=answer,
        timestamp=NOON,
    )


class WordEmbedder:
    """Hashes words into 1,024 numbers: texts that share words are near. Loads at once.

    It fails when told to: after so many passages, or for every query.
    """

    identity = "words dimension=1024"

    def __init__(self, *, fail_after: int | None = None, fail_queries: bool = False) -> None:
        self.fail_after = fail_after
        self.fail_queries = fail_queries
        self.passages: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        if self.fail_queries and texts != ["ready?"]:
            raise EmbeddingError("the model has left", advice="Call it back.")
        return self.embed(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if self.fail_after is not None and len(self.passages) + len(texts) > self.fail_after:
            raise EmbeddingError("the model has left", advice="Call it back.")
        self.passages += texts
        return self.embed(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.full((len(texts), 1024), 0.001, dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for term in terms(text):
                row[zlib.crc32(term.encode()) % 1024] += 1
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


@asynccontextmanager
async def remembering(
    folder: Path,
    embedder: Embedder | None,
    *loops: RunLoop,
    chroma: MemorySettings | None = None,
    live: LiveRunLoops | None = None,
) -> AsyncIterator[LongTermMemory]:
    """A memory that holds these loops, embedded as far as the embedder goes."""
    memory = long_term_memory(folder, embedder, chroma=chroma, live=live)
    await memory.start()
    try:
        for loop in loops:
            await memory.archive(loop)
        await memory.embed_pending()
        yield memory
    finally:
        await memory.aclose()


def anchors(result: SearchResult) -> list[str]:
    """The short forms of what was found, best first."""
    return [hit.anchor.text for hit in result.hits]
