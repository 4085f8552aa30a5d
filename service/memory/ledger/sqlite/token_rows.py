"""The codes of segments' tokens, beside their vectors."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence

from service.memory.vectors.embedding_store import PendingSegment
from service.storage.sqlite_file import SqliteFile

SHIFT = 40
"""Keys join an embedder and a segment: (embedder << `SHIFT`) + segment."""

# Two kilobytes a row: the same key as that of `vectors`, and a table of its own, so that what reads
# vectors alone reads no more than these.
TOKEN_CODES_SCHEMA = """
CREATE TABLE IF NOT EXISTS token_codes (
    id INTEGER PRIMARY KEY,  -- (embedder << 40) + segment; the embedder is a coding's row there
    codes BLOB NOT NULL  -- see `service.memory.vectors.token_codes`
);
"""


class SqliteTokenCodes:
    """See `TokenCodes`."""

    def __init__(self, file: SqliteFile, writing: threading.Lock) -> None:
        self._file = file
        self._writing = writing

    def pending(
        self, coding: int, embedder: int, *, beyond: int, limit: int
    ) -> list[PendingSegment]:
        """See `TokenCodes.pending`."""
        rows = self._file.select(
            "SELECT id, owner, text FROM segments WHERE id > ?"
            " AND EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + segments.id)"
            " AND NOT EXISTS (SELECT 1 FROM token_codes c WHERE c.id = ? + segments.id)"
            " ORDER BY id LIMIT ?",
            (beyond, embedder << SHIFT, coding << SHIFT, limit),
        )
        return [PendingSegment(*row) for row in rows]

    def store(self, coding: int, numbers: Sequence[int], codes: Sequence[bytes]) -> None:
        """See `TokenCodes.store`."""
        with self._writing:
            with self._file.transaction(durable=False) as db:
                db.executemany(
                    "INSERT OR REPLACE INTO token_codes"
                    " SELECT ? + id, ? FROM segments WHERE id = ?",
                    [
                        (coding << SHIFT, each, number)
                        for number, each in zip(numbers, codes, strict=True)
                    ],
                )
            self._file.checkpoint()

    def of(self, coding: int, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """See `TokenCodes.of`."""
        first = coding << SHIFT
        rows = self._file.select(
            "SELECT c.id, codes FROM json_each(?) AS ids CROSS JOIN token_codes c"
            " ON c.id = ids.value",
            (json.dumps([first + number for number in numbers]),),
        )
        return {row[0] - first: row[1] for row in rows}


def drop_codes(db: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Drop the codes of these keys, within the caller's transaction."""
    db.executemany("DELETE FROM token_codes WHERE id = ?", [(key,) for key in keys])
