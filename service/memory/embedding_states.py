"""Which segments have their vector, for each embedder: what makes embedding resumable.

A row in `embedded` says that the vector index holds the segment's vector; no row means pending. A
changed segment has a new number, so it is pending again, and pending ones never have a lower number
than the last one seen done in order. A vector that nothing stands behind any more is written down
in `unneeded_vectors` in the same transaction, and removed from the index later.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.domain.anchors import AnchorRef, Segment
from service.memory.segment_rows import SEGMENT_COLUMNS, segment_from_row
from service.memory.sqlite import SqliteFile

EMBEDDING_SCHEMA = """
CREATE TABLE IF NOT EXISTS embedders (
    id INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS embedded (
    segment INTEGER NOT NULL,
    embedder INTEGER NOT NULL,
    PRIMARY KEY (segment, embedder)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unneeded_vectors (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    UNIQUE (owner, run_loop_id, iteration, segment)
);
"""


class PendingSegment(NamedTuple):
    """A segment that waits for its vector."""

    number: int
    """Its row in the ledger."""
    segment: Segment


class UnneededVector(NamedTuple):
    """A vector to be removed from the index."""

    number: int
    owner: str
    ref: AnchorRef


class EmbeddingStates:
    """Reads and writes the embedding state of segments. The methods block."""

    def __init__(self, file: SqliteFile, writing: threading.Lock) -> None:
        self._file = file
        self._writing = writing

    def embedder(self, identity: str) -> int:
        """The number under which this embedder's states are kept."""
        with self._writing, self._file.transaction(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO embedders(identity) VALUES (?)", (identity,))
            row = db.execute("SELECT id FROM embedders WHERE identity = ?", (identity,)).fetchone()
        number: int = row[0]
        return number

    def pending(self, embedder: int, *, beyond: int, limit: int) -> list[PendingSegment]:
        """The next segments without a vector, in the order of their numbers.

        Args:
            embedder: whose vectors.
            beyond: only segments with a higher number.
            limit: at most so many.
        """
        rows = self._file.select(
            f"SELECT id, {SEGMENT_COLUMNS} FROM segments WHERE id > ? AND NOT EXISTS"
            " (SELECT 1 FROM embedded e WHERE e.segment = segments.id AND e.embedder = ?)"
            " ORDER BY id LIMIT ?",
            (beyond, embedder, limit),
        )
        return [PendingSegment(number, segment_from_row(row)) for number, *row in rows]

    def mark_embedded(self, embedder: int, numbers: Sequence[int]) -> None:
        """Note that the index holds the vectors of these segments.

        A segment that was replaced meanwhile has another number and stays pending.
        """
        with self._writing:
            with self._file.transaction(durable=False) as db:
                db.executemany(
                    "INSERT OR IGNORE INTO embedded(segment, embedder)"
                    " SELECT id, ? FROM segments WHERE id = ?",
                    [(embedder, number) for number in numbers],
                )
            self._file.checkpoint()

    def forget_embedded(self, embedder: int) -> None:
        """Note that the index holds none of this embedder's vectors: all segments are pending."""
        with self._writing, self._file.transaction(durable=False) as db:
            db.execute("DELETE FROM embedded WHERE embedder = ?", (embedder,))

    def count_embedded(self, embedder: int) -> int:
        """How many segments have their vector by this embedder, of all owners."""
        rows = self._file.select("SELECT count(*) FROM embedded WHERE embedder = ?", (embedder,))
        count: int = rows[0][0]
        return count

    def count_pending(self, embedder: int, *, beyond: int, owner: str) -> int:
        """How many of an owner's segments with a higher number than `beyond` have no vector."""
        rows = self._file.select(
            "SELECT count(*) FROM segments WHERE id > ? AND owner = ? AND NOT EXISTS"
            " (SELECT 1 FROM embedded e WHERE e.segment = segments.id AND e.embedder = ?)",
            (beyond, owner, embedder),
        )
        count: int = rows[0][0]
        return count

    def without_vector(
        self, embedder: int, refs: Iterable[AnchorRef], *, owner: str
    ) -> frozenset[AnchorRef]:
        """Those of an owner's segments that have no vector by this embedder."""
        rows = self._file.select(
            "SELECT run_loop_id, iteration, segment"
            " FROM (SELECT value FROM json_each(?)) AS asked CROSS JOIN segments"
            " WHERE owner = ? AND run_loop_id = json_extract(asked.value, '$[0]')"
            " AND iteration = json_extract(asked.value, '$[1]')"
            " AND segment = json_extract(asked.value, '$[2]')"
            " AND NOT EXISTS"
            " (SELECT 1 FROM embedded e WHERE e.segment = segments.id AND e.embedder = ?)",
            (json.dumps([[*ref] for ref in refs]), owner, embedder),
        )
        return frozenset(AnchorRef(*row) for row in rows)

    def unneeded(self, *, limit: int) -> list[UnneededVector]:
        """Vectors that nothing stands behind any more, the oldest first."""
        rows = self._file.select(
            "SELECT id, owner, run_loop_id, iteration, segment FROM unneeded_vectors"
            " ORDER BY id LIMIT ?",
            (limit,),
        )
        return [UnneededVector(number, owner, AnchorRef(*ref)) for number, owner, *ref in rows]

    def mark_removed(self, vectors: Sequence[UnneededVector]) -> None:
        """Note that the index does not hold these vectors any more."""
        with self._writing, self._file.transaction(durable=False) as db:
            db.executemany(
                "DELETE FROM unneeded_vectors WHERE id = ?", [(v.number,) for v in vectors]
            )


def drop_states(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Forget the states of segments that are removed, within the caller's transaction."""
    db.executemany("DELETE FROM embedded WHERE segment = ?", [(number,) for number in numbers])


def vectors_unneeded(db: sqlite3.Connection, owner: str, refs: Sequence[AnchorRef]) -> None:
    """Note that nothing stands at these anchors now, within the caller's transaction."""
    db.executemany(
        "INSERT OR REPLACE INTO unneeded_vectors(owner, run_loop_id, iteration, segment)"
        " VALUES (?, ?, ?, ?)",
        [(owner, *ref) for ref in refs],
    )


def vector_needed(db: sqlite3.Connection, owner: str, ref: AnchorRef) -> None:
    """Note that a segment stands at this anchor again: its vector will replace the old one."""
    db.execute(
        "DELETE FROM unneeded_vectors"
        " WHERE owner = ? AND run_loop_id = ? AND iteration = ? AND segment = ?",
        (owner, *ref),
    )
