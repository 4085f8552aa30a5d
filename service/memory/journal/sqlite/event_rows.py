"""The table of events: writing commits into it, and reading rows as they are kept."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from service.domain.history.events import Event
from service.domain.history.state import RunLoopState
from service.memory.journal.appends import Append
from service.memory.journal.change_feed import Commit
from service.memory.journal.kept_words import SAME_AS, WENT_TO, Copied, handed_over, kept, kept_as
from service.memory.journal.sqlite import approval_table, inbox_table, usage_table
from service.memory.journal.sqlite.run_loop_table import project
from service.storage.clock import millis_of
from service.storage.sqlite_file import Row, SqliteFile, insert

SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice, also after forgetting
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    at INTEGER NOT NULL,                    -- milliseconds since the epoch
    body TEXT NOT NULL                      -- JSON
);
CREATE INDEX IF NOT EXISTS events_of_run_loop ON events (run_loop_id, seq);
"""
_LINK = len(f',"{SAME_AS}":')  # as long as that of the other name
_IS_COPY = f"substr(body, instr(body, ','), {_LINK}) IN (',\"' || ? || '\":', ',\"' || ? || '\":')"
"""Of a row, with both names: whether it names an event so."""
_COPIES = f"""
WITH copies AS (
    SELECT seq, run_loop_id, owner, substr(body, instr(body, ',') + 2, {_LINK - 3}) AS how,
        CAST(substr(body, instr(body, ',') + {_LINK}, 20) AS INTEGER) AS original
    FROM events WHERE owner = ? AND {_IS_COPY}
)
SELECT copies.seq, copies.run_loop_id, original, events.run_loop_id, how = '{SAME_AS}'
FROM copies JOIN events ON events.seq = original AND events.owner = copies.owner
ORDER BY copies.seq
"""


class EventRows:
    """`KeptRows` of the journal's file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def at(self, seqs: Sequence[int]) -> list[Row]:
        """See `KeptRows.at`."""
        return self._file.select(
            "SELECT seq, owner, run_loop_id, body FROM events"
            " WHERE seq IN (SELECT value FROM json_each(?))",
            (json.dumps(seqs),),
        )

    def goals(self, run_loop_ids: Sequence[str]) -> list[Row]:
        """See `KeptRows.goals`."""
        return self._file.select(
            "SELECT id, owner, goal FROM run_loops WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(run_loop_ids),),
        )

    def copies(self, owner: str) -> list[Copied]:
        """See `KeptRows.copies`."""
        return [Copied(*row) for row in self._file.select(_COPIES, (owner, SAME_AS, WENT_TO))]


def write(
    db: sqlite3.Connection, commit: Commit, append: Append, before: RunLoopState | None
) -> None:
    """Within a transaction: write events, and what is told of them elsewhere in the file."""
    same_as = dict(enumerate(append.same_as))
    rows = [
        (
            *(e.seq, e.owner, e.run_loop_id, millis_of(e.at)),
            kept_as(e.body, other)
            if (other := same_as.get(index))
            else kept(e.body, commit.quotations.get(index, ())),
        )
        for index, e in enumerate(commit.events)
    ]
    insert(db, "INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
    for index, original in append.taking_over.items():
        _hand_over(db, original, commit.events[index])
    project(db, commit.state, before)
    usage_table.project(db, commit.events)
    if append.granting:
        approval_table.grant(db, append.granting)
    first = rows[0][0] or 0
    if append.delivering is not None:
        inbox_table.deliver(db, append.delivering, commit.state.id, first)
    if append.redelivering:
        inbox_table.redeliver(db, append.redelivering, commit.state.id, first)


def _hand_over(db: sqlite3.Connection, original: Event, now: Event) -> None:
    """Within a transaction: let an event refer to the one that holds its words from now on.

    One that holds none of its own, as it was inherited by a fork, stays as it is.
    """
    db.execute(
        f"UPDATE events SET body = ? WHERE seq = ? AND NOT {_IS_COPY}",
        (handed_over(original.body, now), original.seq, SAME_AS, WENT_TO),
    )
