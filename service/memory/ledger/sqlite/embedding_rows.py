"""The vectors of segments, by each embedder: what makes embedding resumable.

A segment without a row in `vectors` waits for its vector. A changed segment has a new number, so it
waits again, and those that wait never have a lower number than the last one done in order. Vectors
stay here when an index is lost: it is built anew from them, without embedding anything again.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Sequence

import numpy as np

from service.memory.ledger.sqlite.generation_rows import (
    GENERATIONS_SCHEMA,
    SqliteGenerations,
    SqliteIndexContents,
    SqliteScrubRequests,
    drop_indexed,
)
from service.memory.ledger.sqlite.token_rows import (
    SHIFT,
    TOKEN_CODES_SCHEMA,
    SqliteTokenCodes,
    drop_codes,
)
from service.memory.memory_tuning import SAME_EMBEDDER
from service.memory.protocol import (
    Vectors,
)
from service.memory.vectors.embedding_store import KnownVectors, PendingSegment
from service.memory.vectors.protocol import IndexEntry, as_matrix, stored_vectors
from service.storage.sqlite_file import SqliteFile

# A vector is kept as `stored_vectors` tells. Its key joins embedder and segment, since a table of
# long rows is read twice as fast by an integer key as by a pair.
EMBEDDING_SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS embedders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    identity TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS embedder_probes (
    embedder INTEGER PRIMARY KEY,
    vector BLOB NOT NULL  -- of `PROBE`
);
CREATE TABLE IF NOT EXISTS vectors (
    id INTEGER PRIMARY KEY,  -- (embedder << 40) + segment
    vector BLOB NOT NULL
);
"""
    + TOKEN_CODES_SCHEMA
    + GENERATIONS_SCHEMA
)

DROP_SUMS_OF_SCHEMA_2 = "DROP TABLE IF EXISTS vector_sums;"
"""That schema kept the sum of each owner's vectors, which nothing asked for."""

WITHOUT_ADDRESSES_OF_SCHEMA_4 = (
    EMBEDDING_SCHEMA  # a file of the first schema has none of its tables by now
    + """
UPDATE OR IGNORE embedders SET identity =
    'openai ' || substr(identity, 8 + instr(substr(identity, 8), ' '))
    WHERE identity LIKE 'openai % % dimension=%';
"""
)
"""That schema told endpoints apart by their addresses, not by their vectors."""

_NUMBERS = 1 << SHIFT
_DROPPED_AT_ONCE = 2000


class SqliteEmbeddings:
    """Reads and writes the vectors of segments. The methods block."""

    def __init__(self, file: SqliteFile, writing: threading.Lock) -> None:
        self._file = file
        self._writing = writing
        self.generations = SqliteGenerations(file, writing)
        self.contents = SqliteIndexContents(file, writing)
        self.scrubs = SqliteScrubRequests(file, writing)
        self.codes = SqliteTokenCodes(file, writing)

    def embedder(self, identity: str, probe: Vectors | None = None) -> int:
        """See `EmbeddingStore.embedder`."""
        with self._writing, self._file.transaction(durable=False) as db:
            other = 1
            name = identity
            while True:
                db.execute("INSERT OR IGNORE INTO embedders(identity) VALUES (?)", (name,))
                number: int
                number, stored_probe = db.execute(
                    "SELECT e.id, p.vector FROM embedders e"
                    " LEFT JOIN embedder_probes p ON p.embedder = e.id WHERE e.identity = ?",
                    (name,),
                ).fetchone()
                if (
                    probe is None
                    or stored_probe is None
                    or _is_same(as_matrix([stored_probe]), probe)
                ):
                    break
                other += 1
                name = f"{identity} other={other}"
            if probe is not None:
                (stored,) = stored_vectors(probe)
                db.execute("INSERT OR IGNORE INTO embedder_probes VALUES (?, ?)", (number, stored))
        return number

    def identity(self, embedder: int) -> str:
        """The identity of an embedder that is known by this number."""
        rows = self._file.select("SELECT identity FROM embedders WHERE id = ?", (embedder,))
        return str(rows[0][0]) if rows else "an unknown embedder"

    def pending(self, embedder: int, *, beyond: int, limit: int) -> list[PendingSegment]:
        """See `EmbeddingStore.pending`."""
        rows = self._file.select(
            "SELECT id, owner, text FROM segments WHERE id > ? AND NOT EXISTS"
            " (SELECT 1 FROM vectors v WHERE v.id = ? + segments.id) ORDER BY id LIMIT ?",
            (beyond, embedder << SHIFT, limit),
        )
        return [PendingSegment(*row) for row in rows]

    def store(self, embedder: int, pending: Sequence[PendingSegment], vectors: Vectors) -> None:
        """See `EmbeddingStore.store`."""
        rows = stored_vectors(vectors)
        first = embedder << SHIFT
        with self._writing:
            with self._file.transaction(durable=False) as db:
                db.executemany(
                    "INSERT OR IGNORE INTO vectors SELECT ? + id, ? FROM segments WHERE id = ?",
                    [(first, row, piece.number) for piece, row in zip(pending, rows, strict=True)],
                )
            self._file.checkpoint()

    def vectors_of(self, embedder: int, numbers: Sequence[int], dimension: int) -> KnownVectors:
        """The vectors of segments, in the order of `numbers`, which may be any."""
        first = embedder << SHIFT
        rows = self._file.select(
            "SELECT ids.key, vector"
            " FROM json_each(?) AS ids CROSS JOIN vectors v ON v.id = ids.value",
            (json.dumps([first + number for number in numbers]),),
        )
        matrix = np.zeros((len(numbers), dimension), dtype=np.float32)
        present = np.zeros(len(numbers), dtype=np.bool_)
        if rows:
            places = [row[0] for row in rows]
            matrix[places] = as_matrix([row[1] for row in rows])
            present[places] = True
        return KnownVectors(matrix, present)

    def to_index(
        self, generation: int, embedder: int, *, beyond: int, limit: int
    ) -> list[IndexEntry]:
        """The next vectors that this generation of the index lacks, in the order of numbers."""
        rows = self._file.select(
            "SELECT s.id, s.owner, v.vector FROM segments s JOIN vectors v ON v.id = ? + s.id"
            " WHERE s.id > ? AND NOT EXISTS"
            " (SELECT 1 FROM indexed i WHERE i.generation = ? AND i.segment = s.id)"
            " ORDER BY s.id LIMIT ?",
            (embedder << SHIFT, beyond, generation, limit),
        )
        return [IndexEntry(*row) for row in rows]

    def sample(self, generation: int, embedder: int, count: int) -> list[IndexEntry]:
        """Up to `count` vectors that this generation holds, spread evenly, with first and last."""
        numbers = [
            row[0]
            for row in self._file.select(
                "SELECT segment FROM indexed WHERE generation = ? ORDER BY segment", (generation,)
            )
        ]
        if len(numbers) > count:
            numbers = [numbers[round(i * (len(numbers) - 1) / (count - 1))] for i in range(count)]
        rows = self._file.select(
            "SELECT s.id, s.owner, v.vector FROM json_each(?) AS ids"
            " CROSS JOIN segments s ON s.id = ids.value JOIN vectors v ON v.id = ? + s.id",
            (json.dumps(numbers), embedder << SHIFT),
        )
        return [IndexEntry(*row) for row in rows]

    def count_segments(self, *, up_to: int | None = None) -> int:
        """See `EmbeddingStore.count_segments`."""
        rows = self._file.select(
            "SELECT count(*) FROM segments WHERE id <= ?", (_NUMBERS if up_to is None else up_to,)
        )
        return int(rows[0][0])

    def count_vectors(self, embedder: int) -> int:
        """How many segments have their vector by this embedder, of all owners."""
        first = embedder << SHIFT
        rows = self._file.select(
            "SELECT count(*) FROM vectors WHERE id BETWEEN ? AND ?", (first, first + _NUMBERS - 1)
        )
        return int(rows[0][0])

    def drop_vectors_of_others(self, needed: Iterable[int]) -> bool:
        """See `EmbeddingStore.drop_vectors_of_others`."""
        kept = json.dumps(sorted(needed))
        rows = self._file.select(
            "SELECT id FROM embedders WHERE id NOT IN (SELECT value FROM json_each(?)) LIMIT 1",
            (kept,),
        )
        if not rows:
            return False
        embedder = rows[0][0]
        first = embedder << SHIFT
        with self._writing:
            with self._file.transaction(durable=False) as db:
                dropped = [
                    db.execute(
                        f"DELETE FROM {table} WHERE id IN"
                        f" (SELECT id FROM {table} WHERE id BETWEEN ? AND ? LIMIT ?)",
                        (first, first + _NUMBERS - 1, _DROPPED_AT_ONCE),
                    ).rowcount
                    for table in ("vectors", "token_codes")
                ]
                if max(dropped) < _DROPPED_AT_ONCE:
                    db.execute("DELETE FROM embedder_probes WHERE embedder = ?", (embedder,))
                    db.execute("DELETE FROM embedders WHERE id = ?", (embedder,))
            self._file.checkpoint()
        return True


def _is_same(one: Vectors, other: Vectors) -> bool:
    return one.shape == other.shape and float((one @ other.T)[0, 0]) >= SAME_EMBEDDER


def drop_states(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Drop vectors and codes of segments about to be removed, within the caller's transaction.

    Comes before the segments' own rows are deleted. Notes what the indexes must drop.
    """
    embedders = [row[0] for row in db.execute("SELECT id FROM embedders")]
    keys = [(embedder << SHIFT) + number for number in numbers for embedder in embedders]
    db.executemany("DELETE FROM vectors WHERE id = ?", [(key,) for key in keys])
    drop_codes(db, keys)
    drop_indexed(db, numbers)
