"""Looking into the vector index of a memory: what it finds, and what the ledger says of it."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from service.memory.long_term import LongTermMemory
from service.memory.protocol import IndexStats, Vectors
from service.memory.vectors.protocol import as_matrix, stored_vectors
from tests.support.memory.remembering import WordEmbedder

OTHER_IDENTITY = "other-words v2 dimension=1024"


class DistinctEmbedder(WordEmbedder):
    """No two texts are near each other; with 32 numbers, so that files are small."""

    identity = "distinct dimension=32"

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), 32), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row += np.random.default_rng(zlib.crc32(text.encode())).standard_normal(32)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


class NoisyEmbedder(WordEmbedder):
    """Gives each text a vector in which no stretch of bytes is like that of another text."""

    identity = "noise dimension=64"

    def embed(self, texts: Sequence[str]) -> Vectors:
        seeds = [zlib.crc32(text.encode()) for text in texts]
        rows = np.stack([np.random.default_rng(seed).normal(size=64) for seed in seeds])
        unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit


def beginning_as_kept(embedder: WordEmbedder, text: str) -> list[bytes]:
    """How a text's vector begins in the ledger's file, and in those of the index."""
    [stored] = stored_vectors(embedder.embed([text]))
    return [stored[:16], as_matrix([stored])[0, :4].tobytes()]


def other_embedder() -> WordEmbedder:
    """An embedder of another identity."""
    embedder = WordEmbedder()
    embedder.identity = OTHER_IDENTITY
    return embedder


def rows(folder: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of the ledger, read beside the memory that is open."""
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as db:
        return db.execute(query, values).fetchall()


def texts_of(folder: Path, numbers: Sequence[int]) -> list[str]:
    """The words of segments, by their numbers."""
    return [rows(folder, "SELECT text FROM segments WHERE id = ?", n)[0][0] for n in numbers]


def nearest(
    memory: LongTermMemory, folder: Path, query: str, *, owner: str = "me", limit: int = 1
) -> list[str]:
    """The words of the segments that the index finds for a query."""
    dense = memory.index.dense
    assert dense is not None
    (neighbours,) = dense.nearest(dense.embed_queries([query]).vectors, owner=owner, limit=limit)
    return texts_of(folder, [each.number for each in neighbours])


def folders(folder: Path) -> list[str]:
    """What stands under ``chroma``."""
    place = folder / "chroma"
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


async def index_of(memory: LongTermMemory) -> IndexStats:
    """What there is to tell of the index."""
    stats = await memory.stats()
    assert stats.index is not None
    return stats.index


def assert_whole(folder: Path, *, segments: int, killed: bool = False) -> None:
    """Each segment has one vector and one mark, of the only generation; nothing else is there.

    A kill may tear the files of a generation, which is then set aside: that may be there, too.
    """
    assert rows(folder, "SELECT count(*) FROM segments") == [(segments,)]
    generations = rows(folder, "SELECT id, embedder, state FROM generations")
    assert [row[2] for row in generations] == ["active"]
    generation, embedder, _ = generations[0]
    vectors = rows(folder, "SELECT id - (? << 40) FROM vectors ORDER BY id", embedder)
    numbers = rows(folder, "SELECT id FROM segments ORDER BY id")
    assert vectors == numbers
    marks = rows(folder, "SELECT segment, generation FROM indexed ORDER BY segment")
    assert marks == [(number, generation) for (number,) in numbers]
    assert rows(folder, "SELECT count(*) FROM unneeded") == [(0,)]
    index_folders = [name for name in folders(folder) if not (killed and ".damaged-" in name)]
    assert index_folders in ([], [str(generation)])
