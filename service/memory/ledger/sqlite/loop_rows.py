"""Archiving: what of a run loop is new to the ledger, and the writing of just that; forgetting.

Each iteration has a digest, and the loop has one over all of them: equal ones mean that nothing has
changed. Only iterations whose digest is another than before are cut into segments and written, and
of these only the segments that differ. All of it is one transaction of the caller's.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from service.domain.anchors import Segment
from service.domain.errors import InvalidInputError
from service.domain.run_loops import Iteration, RunLoop, epoch
from service.memory.ledger.facts import facts_of
from service.memory.ledger.protocol import Gone
from service.memory.ledger.segmenter import segments_of
from service.memory.ledger.sqlite.embedding_rows import drop_states
from service.memory.ledger.sqlite.fact_rows import write_facts
from service.memory.ledger.sqlite.full_text import forget_words, index_words
from service.memory.ledger.sqlite.generation_rows import request_scrub
from service.memory.ledger.sqlite.pending_table import forget_pending, forget_problem

ARCHIVE_SCHEMA = """
CREATE TABLE IF NOT EXISTS run_loops (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    digest TEXT NOT NULL,   -- of all else about it; '' where something was taken out since
    summary TEXT NOT NULL,  -- RunLoopSummary as JSON
    predecessor_id TEXT,
    PRIMARY KEY (owner, id)
);
CREATE INDEX IF NOT EXISTS run_loops_by_predecessor ON run_loops (owner, predecessor_id)
    WHERE predecessor_id IS NOT NULL;
CREATE TABLE IF NOT EXISTS iterations (
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    digest TEXT NOT NULL,  -- of `whole`
    whole TEXT NOT NULL,   -- Iteration as JSON
    PRIMARY KEY (owner, run_loop_id, iteration)
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
    call_id TEXT,             -- of a tool call and of its result
    metadata TEXT,            -- of the iteration, as JSON with sorted names; NULL: none
    UNIQUE (owner, run_loop_id, iteration, segment)
);
CREATE INDEX IF NOT EXISTS segments_by_time ON segments (owner, at);
CREATE INDEX IF NOT EXISTS segments_by_type ON segments (owner, type, at);
CREATE INDEX IF NOT EXISTS segments_by_metadata ON segments (owner, metadata)
    WHERE metadata IS NOT NULL;
"""

DROP_ALL_OF_SCHEMA_1 = """
DROP TABLE IF EXISTS words;
DROP TABLE IF EXISTS embedded;
DROP TABLE IF EXISTS embedders;
DROP TABLE IF EXISTS unneeded_vectors;
DROP TABLE IF EXISTS segments;
DROP TABLE IF EXISTS run_loops;
"""
"""That schema kept loops whole. All of it is brought in anew from the journal."""

RECUT_TOOL_RESULTS_OF_SCHEMA_3 = (
    ARCHIVE_SCHEMA  # a file of the first schema has none of its tables by now
    + """
UPDATE iterations SET digest = '' WHERE (owner, run_loop_id, iteration) IN
    (SELECT owner, run_loop_id, iteration FROM segments WHERE type = 'tool_result');
UPDATE run_loops SET digest = '', status = '' WHERE (owner, id) IN
    (SELECT owner, run_loop_id FROM segments WHERE type = 'tool_result');
"""
)
"""That schema had segments of results that are no memory. Without its status, a loop is not the one
of the journal, and is archived anew; what is still wanted of it keeps its vectors."""

Cut = Callable[[RunLoop, int], Sequence[Segment]]
"""Gives the segments of one iteration of a run loop."""


class Written(NamedTuple):
    """An iteration as it is stored."""

    digest: str
    whole: str


class LoopRow(NamedTuple):
    """A run loop's own row."""

    status: str
    digest: str
    summary: str
    predecessor_id: str | None


def written(run_loop_id: str, iteration: Iteration) -> Written:
    """An iteration as JSON, and its digest.

    Raises:
        InvalidInputError: its text is not valid Unicode.
    """
    whole = _to_json(iteration.model_dump())
    return Written(_digest(run_loop_id, whole), whole)


def loop_row(run_loop: RunLoop, digests: Iterable[str]) -> LoopRow:
    """The row of a run loop whose iterations have these digests.

    Raises:
        InvalidInputError: its text is not valid Unicode.
    """
    summary = _to_json(run_loop.summary().model_dump())
    digest = _digest(run_loop.id, "\n".join((summary, *digests)))
    return LoopRow(run_loop.status, digest, summary, run_loop.predecessor_id)


def digest_of(db: sqlite3.Connection, key: tuple[str, str]) -> str | None:
    """The digest of a remembered run loop, by owner and id; None when there is none of that id."""
    row = db.execute("SELECT digest FROM run_loops WHERE owner = ? AND id = ?", key).fetchone()
    return row[0] if row else None


def write(
    db: sqlite3.Connection,
    run_loop: RunLoop,
    row: LoopRow,
    tail: Mapping[int, Written],
    pieces: Mapping[int, Sequence[Segment]],
) -> int:
    """Write a loop, and of its iterations those that are other than what is stored.

    Args:
        db: within a transaction.
        run_loop: as it is now.
        row: what to keep of it.
        tail: all its iterations from some index on; those before it are known not to have changed.
        pieces: the segments of the iterations that are other than what is stored.

    Returns:
        How many segments are new or changed.
    """
    loop = (run_loop.owner, run_loop.id)
    changed = 0
    gone = db.execute(
        "SELECT iteration FROM iterations"
        " WHERE owner = ? AND run_loop_id = ? AND iteration >= ? ORDER BY iteration",
        (*loop, len(run_loop.iterations)),
    ).fetchall()
    for (index,) in gone:
        changed += _replace_segments(db, loop, index, [], None)
        db.execute(
            "DELETE FROM iterations WHERE owner = ? AND run_loop_id = ? AND iteration = ?",
            (*loop, index),
        )
    for index, segments in pieces.items():
        metadata = _metadata(run_loop.iterations[index])
        changed += _replace_segments(db, loop, index, segments, metadata)
        write_facts(db, loop, index, facts_of(run_loop.iterations[index], segments))
        db.execute(
            "INSERT OR REPLACE INTO iterations VALUES (?, ?, ?, ?, ?)",
            (*loop, index, *tail[index]),
        )
    db.execute("INSERT OR REPLACE INTO run_loops VALUES (?, ?, ?, ?, ?, ?)", (*loop, *row))
    return changed


def remove(db: sqlite3.Connection, owner: str, run_loop_id: str) -> int:
    """Within a transaction: let nothing be left of a run loop; how many segments it had."""
    loop = (owner, run_loop_id)
    numbers = db.execute("SELECT id FROM segments WHERE owner = ? AND run_loop_id = ?", loop)
    gone = [row[0] for row in numbers.fetchall()]
    _remove_segments(db, gone)
    db.execute("DELETE FROM iterations WHERE owner = ? AND run_loop_id = ?", loop)
    db.execute("DELETE FROM run_loops WHERE owner = ? AND id = ?", loop)
    return len(gone)


def _replace_segments(
    db: sqlite3.Connection,
    loop: tuple[str, str],
    iteration: int,
    segments: Sequence[Segment],
    metadata: str | None,
) -> int:
    """Let an iteration have these segments; those that are there just so keep their numbers."""
    existing = {
        tuple(content): number
        for number, *content in db.execute(
            "SELECT id, segment, type, timestamp, text_hash, call_id, metadata FROM segments"
            " WHERE owner = ? AND run_loop_id = ? AND iteration = ?",
            (*loop, iteration),
        )
    }
    by_content = {_content(piece, metadata): piece for piece in segments}
    gone = {content: number for content, number in existing.items() if content not in by_content}
    new = [(content, piece) for content, piece in by_content.items() if content not in existing]
    if gone:
        _remove_segments(db, list(gone.values()))
    for (*_, text_hash, _call_id, _metadata), piece in new:
        _insert_segment(db, piece, text_hash, metadata)
    return len(new)


def _insert_segment(
    db: sqlite3.Connection, piece: Segment, text_hash: str, metadata: str | None
) -> None:
    anchor = piece.anchor
    cursor = db.execute(
        "INSERT INTO segments(owner, run_loop_id, iteration, segment, type, timestamp, at, text,"
        " text_hash, call_id, metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            piece.owner,
            *anchor.ref,
            anchor.segment_type,
            anchor.timestamp.isoformat(),
            epoch(anchor.timestamp),
            piece.content,
            text_hash,
            piece.call_id,
            metadata,
        ),
    )
    assert cursor.lastrowid is not None
    index_words(db, cursor.lastrowid, piece.content)


def _remove_segments(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    forget_words(db, numbers)
    drop_states(db, numbers)
    db.executemany("DELETE FROM segments WHERE id = ?", [(number,) for number in numbers])


def _content(piece: Segment, metadata: str | None) -> tuple[Any, ...]:
    """All by which one segment of an iteration differs from another; its index comes first."""
    anchor = piece.anchor
    return (
        anchor.segment_index,
        anchor.segment_type,
        anchor.timestamp.isoformat(),
        hashlib.sha256(piece.content.encode()).hexdigest(),
        piece.call_id,
        metadata,
    )


def _metadata(iteration: Iteration) -> str | None:
    if not iteration.metadata:
        return None
    return json.dumps(iteration.metadata, ensure_ascii=False, sort_keys=True)


def _to_json(fields: Mapping[str, Any]) -> str:
    # Not the model's own JSON: that cuts moments to the millisecond, and this must read back equal.
    return json.dumps(fields, ensure_ascii=False, default=datetime.isoformat)


def _digest(run_loop_id: str, text: str) -> str:
    try:
        return hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"run loop {run_loop_id} holds half of a character ({error.reason})",
            advice="Send text that is valid Unicode.",
        ) from error


def forget(
    db: sqlite3.Connection, owner: str, run_loop_ids: Iterable[str], changed: Iterable[RunLoop]
) -> Gone:
    """Within a transaction: let nothing be left of some run loops, nor of what others held before.

    Has the vector index built anew, as its files keep what is deleted.

    Args:
        db: the ledger's writing connection.
        owner: whose.
        run_loop_ids: run loops that are gone.
        changed: run loops as they are now; those that are not remembered stay so.
    """
    before = _count(db, owner)
    for run_loop_id in run_loop_ids:
        remove(db, owner, run_loop_id)
        forget_pending(db, (owner, run_loop_id))
    for run_loop in changed:
        forget_problem(db, (owner, run_loop.id))
        if digest_of(db, (owner, run_loop.id)) is not None:
            _bring_up_to_date(db, run_loop)
    request_scrub(db)
    after = _count(db, owner)
    return Gone(
        max(0, before.segments - after.segments), max(0, before.sentences - after.sentences)
    )


def _bring_up_to_date(db: sqlite3.Connection, run_loop: RunLoop) -> None:
    rows = db.execute(
        "SELECT iteration, digest FROM iterations WHERE owner = ? AND run_loop_id = ?",
        (run_loop.owner, run_loop.id),
    )
    digests = dict(rows.fetchall())
    tail = {index: written(run_loop.id, each) for index, each in enumerate(run_loop.iterations)}
    pieces = {
        index: segments_of(run_loop, index)
        for index, each in tail.items()
        if digests.get(index) != each.digest
    }
    row = loop_row(run_loop, [each.digest for each in tail.values()])
    write(db, run_loop, row, tail, pieces)


def _count(db: sqlite3.Connection, owner: str) -> Gone:
    row = db.execute(
        "SELECT (SELECT count(*) FROM segments WHERE owner = ?1), (SELECT count(*) FROM"
        " note_sentences JOIN notes ON notes.id = note_sentences.note WHERE owner = ?1)",
        (owner,),
    ).fetchone()
    return Gone(*row)
