"""The ledger: every remembered run loop, whole, and the segments that it was cut into.

It is derived from the journal and can be rebuilt from it. Archiving a run loop is one transaction
over loop, segments and words; archiving it again changes nothing, and a loop that has grown brings
in what is new.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from service.domain.anchors import AnchorRef, Segment
from service.domain.errors import InvalidInputError
from service.domain.run_loops import ACTIVE, RunLoop, RunLoopSummary
from service.memory.embedding_states import (
    EMBEDDING_SCHEMA,
    EmbeddingStates,
    drop_states,
    vector_needed,
    vectors_unneeded,
)
from service.memory.full_text import (
    FULL_TEXT_SCHEMA,
    FullTextIndex,
    forget_words,
    index_words,
)
from service.memory.segment_rows import SEGMENT_COLUMNS, epoch, segment_from_row
from service.memory.segmenter import segment
from service.memory.sqlite import SqliteFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS run_loops (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    digest TEXT NOT NULL,   -- of `whole`: an equal one means that nothing has changed
    summary TEXT NOT NULL,  -- RunLoopSummary as JSON
    whole TEXT NOT NULL,    -- RunLoop as JSON
    PRIMARY KEY (owner, id)
);
CREATE TABLE IF NOT EXISTS segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- a changed segment gets a new, higher number
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    type TEXT NOT NULL,
    timestamp TEXT NOT NULL,  -- ISO 8601, as it was given
    at REAL NOT NULL,         -- the same, in seconds since 1970
    text TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    UNIQUE (owner, run_loop_id, iteration, segment)
);
"""


class Ledger:
    """The SQLite file of long-term memory.

    The methods block and may be called from any thread; all raise StorageError when the disk
    refuses.
    """

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(
            path,
            _SCHEMA + FULL_TEXT_SCHEMA + EMBEDDING_SCHEMA,
            when_damaged=f"Stop the daemon, move {path.name}* out of {path.parent}, and start it"
            " again: finished run loops are brought in anew from the journal.",
        )
        self._writing = threading.Lock()
        self.words = FullTextIndex(self._file)
        """The lexical index over the segments."""
        self.embedding = EmbeddingStates(self._file, self._writing)
        """Which segments have their vectors."""

    def open(self) -> None:
        """Open the file, or create it."""
        self._file.open()

    def close(self) -> None:
        """Close the file, after the write that is under way."""
        with self._writing:
            self._file.close()

    def archive(
        self, run_loop: RunLoop, *, cut: Callable[[RunLoop], Sequence[Segment]] = segment
    ) -> int:
        """Remember a run loop as it is now.

        Returns:
            How many segments are new or changed; 0 when the loop was known just so.

        Raises:
            InvalidInputError: the loop's text is not valid Unicode.
        """
        whole = _to_json(run_loop)
        digest = hashlib.sha256(whole.encode()).hexdigest()
        if self._digest(run_loop) == digest:
            return 0
        segments = cut(run_loop)  # the long part, and before the lock is taken
        with self._writing:
            with self._file.transaction(durable=False) as db:
                changed = _write_segments(db, run_loop, segments)
                db.execute(
                    "INSERT OR REPLACE INTO run_loops VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        run_loop.owner,
                        run_loop.id,
                        run_loop.status,
                        digest,
                        _summary(run_loop).model_dump_json(),
                        whole,
                    ),
                )
            self._file.checkpoint()
        return changed

    def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        """A remembered run loop; None when this owner has none of that id."""
        for (whole,) in self._file.select(
            "SELECT whole FROM run_loops WHERE owner = ? AND id = ?", (owner, run_loop_id)
        ):
            return RunLoop.model_validate_json(whole)
        return None

    def summary(self, run_loop_id: str, *, owner: str) -> RunLoopSummary | None:
        """A remembered run loop without its words; None when this owner has none of that id."""
        for (summary,) in self._file.select(
            "SELECT summary FROM run_loops WHERE owner = ? AND id = ?", (owner, run_loop_id)
        ):
            return RunLoopSummary.model_validate_json(summary)
        return None

    def finished(self) -> frozenset[str]:
        """Ids of the run loops, of all owners, that are remembered and can change no more."""
        marks = ", ".join("?" * len(ACTIVE))
        rows = self._file.select(
            f"SELECT id FROM run_loops WHERE status NOT IN ({marks})", tuple(ACTIVE)
        )
        return frozenset(row[0] for row in rows)

    def segments(self, refs: Iterable[AnchorRef], *, owner: str) -> Mapping[AnchorRef, Segment]:
        """The segments at these anchors; those that this owner does not have are left out."""
        wanted = json.dumps([[*ref] for ref in refs])
        rows = self._file.select(
            f"SELECT {SEGMENT_COLUMNS}"
            " FROM (SELECT value FROM json_each(?)) AS wanted CROSS JOIN segments"
            " WHERE owner = ? AND run_loop_id = json_extract(wanted.value, '$[0]')"
            " AND iteration = json_extract(wanted.value, '$[1]')"
            " AND segment = json_extract(wanted.value, '$[2]')",
            (wanted, owner),
        )
        return {found.anchor.ref: found for found in map(segment_from_row, rows)}

    def before(self, ref: AnchorRef, *, owner: str, limit: int) -> list[Segment]:
        """The segments of the same run loop that stand before `ref`, nearest first."""
        return self._around(ref, owner, "<", "DESC", limit)

    def after(self, ref: AnchorRef, *, owner: str, limit: int) -> list[Segment]:
        """The segments of the same run loop that stand after `ref`, nearest first."""
        return self._around(ref, owner, ">", "ASC", limit)

    def count(self) -> tuple[int, int]:
        """How many run loops and segments there are, of all owners."""
        rows = self._file.select(
            "SELECT (SELECT count(*) FROM run_loops), (SELECT count(*) FROM segments)"
        )
        return rows[0][0], rows[0][1]

    def _around(
        self, ref: AnchorRef, owner: str, side: str, direction: str, limit: int
    ) -> list[Segment]:
        rows = self._file.select(
            f"SELECT {SEGMENT_COLUMNS} FROM segments"
            f" WHERE owner = ? AND run_loop_id = ? AND (iteration, segment) {side} (?, ?)"
            f" ORDER BY iteration {direction}, segment {direction} LIMIT ?",
            (owner, *ref, limit),
        )
        return [segment_from_row(row) for row in rows]

    def _digest(self, run_loop: RunLoop) -> str | None:
        rows = self._file.select(
            "SELECT digest FROM run_loops WHERE owner = ? AND id = ?",
            (run_loop.owner, run_loop.id),
        )
        return rows[0][0] if rows else None


def _write_segments(db: sqlite3.Connection, run_loop: RunLoop, segments: Sequence[Segment]) -> int:
    loop = (run_loop.owner, run_loop.id)
    known = {
        (iteration, index, *content): number
        for number, iteration, index, *content in db.execute(
            "SELECT id, iteration, segment, type, timestamp, text_hash FROM segments"
            " WHERE owner = ? AND run_loop_id = ?",
            loop,
        )
    }
    wanted = {_content_key(piece): piece for piece in segments}
    gone = {key: number for key, number in known.items() if key not in wanted}
    new = {key: piece for key, piece in wanted.items() if key not in known}

    _remove_segments(db, list(gone.values()))
    vectors_unneeded(db, run_loop.owner, [AnchorRef(run_loop.id, *key[:2]) for key in gone])
    for (*_, text_hash), piece in new.items():
        _insert_segment(db, piece, text_hash)
    return len(new)


def _insert_segment(db: sqlite3.Connection, piece: Segment, text_hash: str) -> None:
    anchor = piece.anchor
    cursor = db.execute(
        "INSERT INTO segments(owner, run_loop_id, iteration, segment, type, timestamp, at, text,"
        " text_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            piece.owner,
            *anchor.ref,
            anchor.segment_type,
            anchor.timestamp.isoformat(),
            epoch(anchor.timestamp),
            piece.content,
            text_hash,
        ),
    )
    assert cursor.lastrowid is not None
    index_words(db, cursor.lastrowid, piece.content)
    vector_needed(db, piece.owner, anchor.ref)


def _remove_segments(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    forget_words(db, numbers)
    drop_states(db, numbers)
    db.executemany("DELETE FROM segments WHERE id = ?", [(number,) for number in numbers])


def _content_key(piece: Segment) -> tuple[int, int, str, str, str]:
    anchor = piece.anchor
    return (
        anchor.iteration_index,
        anchor.segment_index,
        anchor.segment_type,
        anchor.timestamp.isoformat(),
        hashlib.sha256(piece.content.encode()).hexdigest(),
    )


def _to_json(run_loop: RunLoop) -> str:
    # Not the model's own JSON: that cuts moments to the millisecond, and this must read back equal.
    text = json.dumps(run_loop.model_dump(), ensure_ascii=False, default=datetime.isoformat)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"run loop {run_loop.id} holds half of a character ({error.reason})",
            advice="Send text that is valid Unicode.",
        ) from error
    return text


def _summary(run_loop: RunLoop) -> RunLoopSummary:
    moments = [iteration.timestamp for iteration in run_loop.iterations]
    moments += [moment for moment in (run_loop.created_at, run_loop.completed_at) if moment]
    return RunLoopSummary(
        id=run_loop.id,
        owner=run_loop.owner,
        goal=run_loop.goal,
        status=run_loop.status,
        created_at=run_loop.created_at,
        updated_at=max(moments, key=epoch),
        completed_at=run_loop.completed_at,
        predecessor_id=run_loop.predecessor_id,
        iteration_count=len(run_loop.iterations),
    )
