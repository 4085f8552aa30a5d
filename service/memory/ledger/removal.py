"""Takes the words out of the ledger: one transaction over segments, words, vectors and notes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from service.domain.run_loops import RunLoop
from service.memory.ledger import loop_rows
from service.memory.ledger.pending_loops import forget_pending, forget_problem
from service.memory.ledger.segmenter import segments_of
from service.memory.vectors.generations import request_scrub


class Gone(NamedTuple):
    """How much has gone."""

    segments: int
    sentences: int
    """Of notes that cited them."""


def remove(
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
        loop_rows.remove(db, owner, run_loop_id)
        forget_pending(db, (owner, run_loop_id))
    for run_loop in changed:
        forget_problem(db, (owner, run_loop.id))
        if loop_rows.digest_of(db, (owner, run_loop.id)) is not None:
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
    known = dict(rows.fetchall())
    tail = {
        index: loop_rows.written(run_loop.id, each)
        for index, each in enumerate(run_loop.iterations)
    }
    pieces = {
        index: segments_of(run_loop, index)
        for index, each in tail.items()
        if known.get(index) != each.digest
    }
    row = loop_rows.loop_row(run_loop, [each.digest for each in tail.values()])
    loop_rows.write(db, run_loop, row, tail, pieces)


def _count(db: sqlite3.Connection, owner: str) -> Gone:
    row = db.execute(
        "SELECT (SELECT count(*) FROM segments WHERE owner = ?1), (SELECT count(*) FROM"
        " note_sentences JOIN notes ON notes.id = note_sentences.note WHERE owner = ?1)",
        (owner,),
    ).fetchone()
    return Gone(*row)
