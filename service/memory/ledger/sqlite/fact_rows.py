"""The facts in the ledger: a row for each call that keeps one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from service.domain.anchors import Anchor, AnchorRef, RememberedFact
from service.memory.ledger.facts import Correction, KeptFact, newest, superseded
from service.storage.sqlite_file import SqliteFile

FACTS_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (
    segment INTEGER PRIMARY KEY,  -- of the call; of several the first
    owner TEXT NOT NULL,
    text TEXT NOT NULL,
    old_run_loop TEXT,            -- with the next two: the address of what it corrects
    old_iteration INTEGER,
    old_segment INTEGER
);
CREATE INDEX IF NOT EXISTS facts_by_owner ON facts (owner);
CREATE INDEX IF NOT EXISTS facts_by_what_they_correct ON facts (owner, old_run_loop)
    WHERE old_run_loop IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS facts_fall_with_a_segment AFTER DELETE ON segments BEGIN
    DELETE FROM facts WHERE segment = OLD.id;
END;
"""
"""Needs the table of segments, so it comes after that."""

_FACTS = (
    "SELECT s.run_loop_id, s.iteration, s.segment, s.timestamp, f.text,"
    " f.old_run_loop, f.old_iteration, f.old_segment, coalesce(older.text, o.text, '')"
    " FROM facts f CROSS JOIN segments s ON s.id = f.segment"
    " LEFT JOIN segments o ON o.owner = f.owner AND o.run_loop_id = f.old_run_loop"
    " AND o.iteration = f.old_iteration AND o.segment = f.old_segment"
    " LEFT JOIN facts older ON older.segment = o.id"
)


def write_facts(
    db: sqlite3.Connection, loop: tuple[str, str], iteration: int, facts: Iterable[KeptFact]
) -> None:
    """Within a transaction: let an iteration, whose segments are written, have these facts."""
    db.execute(
        "DELETE FROM facts WHERE segment IN"
        " (SELECT id FROM segments WHERE owner = ? AND run_loop_id = ? AND iteration = ?)",
        (*loop, iteration),
    )
    db.executemany(
        "INSERT OR REPLACE INTO facts SELECT id, owner, ?, ?, ?, ? FROM segments"
        " WHERE owner = ? AND run_loop_id = ? AND iteration = ? AND segment = ?",
        [(each.text, *(each.replaces or (None, None, None)), loop[0], *each.ref) for each in facts],
    )


class SqliteFacts:
    """See `FactStore`."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def of(self, owner: str) -> list[RememberedFact]:
        """See `FactStore.of`."""
        rows = self._file.select(
            f"{_FACTS} WHERE f.owner = ? ORDER BY s.at DESC, s.id DESC", (owner,)
        )
        facts = [_fact(row) for row in rows]
        last = newest([each for row in rows if (each := _correction(row)) is not None])
        return [
            each.model_copy(update={"superseded_by": last[each.anchor.ref].anchor})
            if each.anchor.ref in last
            else each
            for each in facts
        ]

    def superseding(
        self, contents: Mapping[AnchorRef, str], *, owner: str
    ) -> Mapping[AnchorRef, RememberedFact]:
        """See `FactStore.superseding`."""
        corrections: dict[tuple[AnchorRef, AnchorRef], Correction] = {}
        wanted, asked = {ref.run_loop_id for ref in contents}, set[str]()
        while wanted - asked:  # what corrects can be corrected in its turn
            rows = self._file.select(
                f"{_FACTS} WHERE f.owner = ?"
                " AND f.old_run_loop IN (SELECT value FROM json_each(?))",
                (owner, json.dumps([*(wanted - asked)])),
            )
            asked |= wanted
            for each in filter(None, map(_correction, rows)):
                corrections[each.old, each.new.anchor.ref] = each
                wanted.add(each.new.anchor.run_loop_id)
        return superseded(contents, [*corrections.values()]) if corrections else {}


def _fact(row: tuple[Any, ...]) -> RememberedFact:
    run_loop_id, iteration, segment, timestamp, text, old_loop, *old = row
    return RememberedFact(
        anchor=Anchor(
            run_loop_id=run_loop_id,
            iteration_index=iteration,
            segment_index=segment,
            segment_type="tool_call",
            timestamp=datetime.fromisoformat(timestamp),
        ),
        text=text,
        replaces=None if old_loop is None else str(AnchorRef(old_loop, old[0], old[1])),
    )


def _correction(row: tuple[Any, ...]) -> Correction | None:
    old_loop, old_iteration, old_segment, old_text = row[5:]
    if old_loop is None:
        return None
    return Correction(AnchorRef(old_loop, old_iteration, old_segment), old_text, _fact(row))
