"""Generations of the vector index: what each holds, which is searched, which is being built.

A generation is one index of one embedder, in one place. At most one is active and at most one is
being built beside it; the swap is one transaction, and what it leaves behind is retired: its rows
and files go afterwards, at the next start if need be.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Sequence
from typing import Literal

from service.memory.vectors.embedding_store import Generation, Lacking, Purpose, Unneeded
from service.storage.sqlite_file import SqliteFile

GENERATIONS_SCHEMA = """
CREATE TABLE IF NOT EXISTS generations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    embedder INTEGER NOT NULL,
    place TEXT NOT NULL,     -- which Chroma it is in
    state TEXT NOT NULL,     -- active, building or retired
    purpose TEXT NOT NULL,   -- what it was built for
    scrub INTEGER NOT NULL,  -- the last request to scrub that it was begun after
    closed_as TEXT NOT NULL DEFAULT ''  -- what its files were like then; '' while it is open
);
CREATE UNIQUE INDEX IF NOT EXISTS one_of_each ON generations(state) WHERE state <> 'retired';
CREATE TABLE IF NOT EXISTS indexed (
    generation INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    PRIMARY KEY (generation, segment)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unneeded (  -- what a generation holds, and shall drop
    generation INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    owner TEXT NOT NULL,
    PRIMARY KEY (generation, segment)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS index_notes (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""

_DROPPED_AT_ONCE = 5000


class _Rows:
    def __init__(self, file: SqliteFile, writing: threading.Lock) -> None:
        self._file = file
        self._writing = writing


class SqliteGenerations(_Rows):
    """`Generations` in the ledger's file."""

    def instance(self) -> str:
        """Names this ledger on a server that several share. Made once, at random."""
        with self._writing, self._file.transaction(durable=True) as db:
            db.execute(
                "INSERT OR IGNORE INTO index_notes VALUES ('instance', ?)", (secrets.token_hex(6),)
            )
            return str(_note(db, "instance"))

    def all(self) -> list[Generation]:
        """All that there are, the oldest first."""
        return [
            Generation(*row)
            for row in self._file.select(
                "SELECT id, embedder, place, state, purpose, scrub, closed_as FROM generations"
                " ORDER BY id"
            )
        ]

    def live(self) -> tuple[Generation | None, Generation | None]:
        """The active one, and the one that is being built."""
        by_state = {row.state: row for row in self.all()}
        return by_state.get("active"), by_state.get("building")

    def create(
        self, embedder: int, place: str, state: Literal["active", "building"], purpose: Purpose
    ) -> None:
        """A new, empty one; what was in that state before is retired."""
        with self._writing, self._file.transaction(durable=True) as db:
            _create(db, embedder, place, state, purpose)

    def retire(self, generation: int) -> None:
        """Let one be used no more."""
        with self._writing, self._file.transaction(durable=True) as db:
            db.execute("UPDATE generations SET state = 'retired' WHERE id = ?", (generation,))

    def replace(self, generation: int, embedder: int, place: str, purpose: Purpose) -> None:
        """See `Generations.replace`."""
        with self._writing, self._file.transaction(durable=True) as db:
            db.execute("UPDATE generations SET state = 'retired' WHERE id = ?", (generation,))
            building = db.execute(
                "SELECT embedder FROM generations WHERE state = 'building'"
            ).fetchone()
            if building is None or building[0] != embedder:
                _create(db, embedder, place, "building", purpose)

    def swap(self, building: int) -> None:
        """Make the one that was built the active one, in one transaction."""
        with self._writing, self._file.transaction(durable=True) as db:
            db.execute("UPDATE generations SET state = 'retired' WHERE state = 'active'")
            db.execute("UPDATE generations SET state = 'active' WHERE id = ?", (building,))

    def set_closed(self, generation: int, closed_as: str) -> None:
        """Note what the files of one are like now that it is closed; empty: it is about to open."""
        with self._writing, self._file.transaction(durable=True) as db:
            db.execute("UPDATE generations SET closed_as = ? WHERE id = ?", (closed_as, generation))

    def purge(self, generation: int) -> bool:
        """Drop some rows of a retired one, and at last its own; whether there are more."""
        with self._writing:
            with self._file.transaction(durable=False) as db:
                dropped = db.execute(
                    "DELETE FROM indexed WHERE generation = ? AND segment IN"
                    " (SELECT segment FROM indexed WHERE generation = ? LIMIT ?)",
                    (generation, generation, _DROPPED_AT_ONCE),
                ).rowcount
                if dropped == _DROPPED_AT_ONCE:
                    return True
                db.execute("DELETE FROM unneeded WHERE generation = ?", (generation,))
                db.execute("DELETE FROM generations WHERE id = ?", (generation,))
            self._file.checkpoint()
        return False


class SqliteIndexContents(_Rows):
    """`IndexContents` in the ledger's file."""

    def mark_indexed(self, generation: int, entries: Sequence[tuple[int, str]]) -> None:
        """See `Generations.mark_indexed`."""
        with self._writing:
            with self._file.transaction(durable=False) as db:
                for number, owner in entries:
                    there = db.execute(
                        "INSERT OR IGNORE INTO indexed SELECT ?, id FROM segments WHERE id = ?",
                        (generation, number),
                    ).rowcount
                    if not there and not _is_segment(db, number):
                        db.execute(
                            "INSERT OR IGNORE INTO unneeded VALUES (?, ?, ?)",
                            (generation, number, owner),
                        )
            self._file.checkpoint()

    def unmark_indexed(self, generation: int, numbers: Sequence[int]) -> None:
        """Note that an index lacks the vectors of these segments."""
        with self._writing, self._file.transaction(durable=False) as db:
            db.executemany(
                "DELETE FROM indexed WHERE generation = ? AND segment = ?",
                [(generation, number) for number in numbers],
            )

    def indexed(self, generation: int) -> set[int]:
        """The segments that an index holds."""
        rows = self._file.select("SELECT segment FROM indexed WHERE generation = ?", (generation,))
        return {row[0] for row in rows}

    def count_indexed(self, generation: int) -> int:
        """How many segments an index holds, of all owners."""
        rows = self._file.select("SELECT count(*) FROM indexed WHERE generation = ?", (generation,))
        return int(rows[0][0])

    def count_held(self, generation: int) -> int:
        """How many vectors an index holds: those that it shall drop too."""
        rows = self._file.select(
            "SELECT count(*) FROM unneeded WHERE generation = ?", (generation,)
        )
        return self.count_indexed(generation) + int(rows[0][0])

    def lacking(self, generation: int, *, beyond: int, owner: str, most: int) -> Lacking:
        """See `IndexContents.lacking`."""
        # The plus keeps SQLite from walking through all of the owner's by an index.
        rows = self._file.select(
            "SELECT count(*), min(id), (SELECT max(id) FROM segments) FROM (SELECT id FROM segments"
            " WHERE id > ? AND +owner = ? AND NOT EXISTS"
            " (SELECT 1 FROM indexed i WHERE i.generation = ? AND i.segment = segments.id)"
            " ORDER BY id LIMIT ?)",
            (beyond, owner, generation, most),
        )
        count, first, last = rows[0]
        return Lacking(count, max(beyond, first - 1 if count else last or 0))

    def unneeded(self, generation: int, *, limit: int) -> list[Unneeded]:
        """Vectors that an index shall drop."""
        rows = self._file.select(
            "SELECT segment, owner FROM unneeded WHERE generation = ? LIMIT ?", (generation, limit)
        )
        return [Unneeded(*row) for row in rows]

    def mark_dropped(self, generation: int, dropped: Sequence[Unneeded]) -> None:
        """Note that an index does not hold these vectors any more."""
        with self._writing, self._file.transaction(durable=False) as db:
            db.executemany(
                "DELETE FROM unneeded WHERE generation = ? AND segment = ?",
                [(generation, each.number) for each in dropped],
            )


class SqliteScrubRequests(_Rows):
    """`ScrubRequests` in the ledger's file."""

    def request(self) -> None:
        """Have the index built anew from the vectors that remain, and its old files deleted."""
        with self._writing, self._file.transaction(durable=True) as db:
            request_scrub(db)

    def newest(self) -> int:
        """The number of the last request; 0 when there was none."""
        return self._number("scrub")

    def is_pending(self) -> bool:
        """Whether a request is not carried out yet."""
        return self._number("scrub") > self._number("scrubbed")

    def settle(self, request: int) -> None:
        """Note that a request is carried out."""
        with self._writing, self._file.transaction(durable=True) as db:
            db.execute("INSERT OR REPLACE INTO index_notes VALUES ('scrubbed', ?)", (request,))

    def _number(self, name: str) -> int:
        rows = self._file.select("SELECT value FROM index_notes WHERE name = ?", (name,))
        return int(rows[0][0]) if rows else 0


def request_scrub(db: sqlite3.Connection) -> None:
    """The same as `SqliteScrubRequests.request`, within the caller's transaction."""
    db.execute(
        "INSERT INTO index_notes VALUES ('scrub', 1)"
        " ON CONFLICT (name) DO UPDATE SET value = value + 1"
    )


def drop_indexed(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Note what the indexes must drop, before segments are removed in the caller's transaction."""
    for number in numbers:
        db.execute(
            "INSERT OR IGNORE INTO unneeded SELECT i.generation, s.id, s.owner FROM generations g"
            " JOIN indexed i ON i.generation = g.id AND i.segment = ?"
            " JOIN segments s ON s.id = i.segment",
            (number,),
        )
        db.execute(
            "DELETE FROM indexed WHERE segment = ? AND generation IN (SELECT id FROM generations)",
            (number,),
        )


def _create(
    db: sqlite3.Connection, embedder: int, place: str, state: str, purpose: Purpose
) -> None:
    db.execute("UPDATE generations SET state = 'retired' WHERE state = ?", (state,))
    db.execute(
        "INSERT INTO generations(embedder, place, state, purpose, scrub) VALUES (?, ?, ?, ?, ?)",
        (embedder, place, state, purpose, int(_note(db, "scrub") or 0)),
    )


def _note(db: sqlite3.Connection, name: str) -> str | int | None:
    row = db.execute("SELECT value FROM index_notes WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def _is_segment(db: sqlite3.Connection, number: int) -> bool:
    return db.execute("SELECT 1 FROM segments WHERE id = ?", (number,)).fetchone() is not None
