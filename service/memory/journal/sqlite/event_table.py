"""The table of events: commits into it, rows as they are kept, and the states they lead to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Unpack

import anyio
from anyio import to_thread

from service.domain.errors import Problem, StorageError
from service.domain.history.events import Event, EventBody
from service.domain.history.fold import fold
from service.domain.history.state import RunLoopState
from service.memory.journal.appends import Append
from service.memory.journal.change_feed import Commit
from service.memory.journal.event_reader import EventSelection
from service.memory.journal.imported_loops import IMPORTED
from service.memory.journal.kept_words import (
    SAME_AS,
    WENT_TO,
    Copied,
    KeptRow,
    Words,
    handed_over,
    kept,
    kept_as,
)
from service.memory.journal.sqlite import approval_table, inbox_table, schedule_rows, usage_table
from service.memory.journal.sqlite.history_search import HistorySearch
from service.memory.journal.sqlite.run_loop_table import RunLoopTable, project
from service.storage.clock import millis_of, moment_of
from service.storage.sqlite_file import Row, SqliteFile, Where, insert

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
    if append.settling is not None:
        schedule_rows.settle(db, append.settling)
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


# Bodies begin with their type, as pydantic writes them.
_DECIDED = '{"type":"route.decided"'
_MOVED = '{"type":"message.moved"'


class EventReads:
    """An `EventReader` over the tables. Whoever writes them keeps the active states here."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        # Threads of its own: others may use up those that are shared, tools above all.
        self._threads = anyio.CapacityLimiter(4)
        self._states: dict[str, RunLoopState] = {}
        self._ended: dict[str, RunLoopState] = {}
        """Those that ended last: they are about to be archived. Replaced by whoever writes."""
        self.run_loops = RunLoopTable(file, self._threads)
        self.words = Words(EventRows(file))
        self.histories = HistorySearch(file)

    def states(self, owner: str | None = None) -> list[RunLoopState]:
        """The states of the active loops, those that changed last first; from any thread."""
        mine = [s for s in list(self._states.values()) if owner is None or s.owner == owner]
        return sorted(mine, key=lambda state: state.last_seq, reverse=True)

    def state(self, run_loop_id: str) -> RunLoopState | None:
        """The state of an active loop; None when it is not active."""
        return self._states.get(run_loop_id)

    @property
    def damage(self) -> Problem | None:
        """What could not be read since the start, and what to do; None as long as all could."""
        return self._file.damage

    async def read(self, **filters: Unpack[EventSelection]) -> list[Event]:
        """See `EventReader.read`."""
        work = partial(self.read_blocking, **filters)
        return await to_thread.run_sync(work, limiter=self._threads)

    def read_blocking(self, **filters: Unpack[EventSelection]) -> list[Event]:
        """As `read`, in the calling thread, whichever that is."""
        where = Where("seq > ?", filters.get("after", 0))
        where.add("run_loop_id = ?", filters.get("run_loop_id"))
        where.add("owner = ?", filters.get("owner"))
        kind = filters.get("kind")
        # Not read as JSON: earlier versions could write numbers that SQLite does not read.
        where.add("instr(body, ?) = 1", kind and f'{{"type":"{kind}"')
        where.add("body NOT LIKE ?", f"{IMPORTED}%" if filters.get("news") else None)
        text = filters.get("holding")
        where.add("instr(body, ?) > 0", text and json.dumps(text, ensure_ascii=False)[1:-1])
        limit = filters.get("limit")
        rows = self._file.select(
            f"SELECT seq, owner, run_loop_id, at, body FROM events {where} ORDER BY seq LIMIT ?",
            (*where.values, -1 if limit is None else limit),
        )
        bodies = self.words.bodies((seq, whose, body) for seq, whose, _, _, body in rows)
        return [
            Event(seq=seq, owner=whose, run_loop_id=loop_id, at=moment_of(at), body=body)
            for (seq, whose, loop_id, at, _), body in zip(rows, bodies, strict=True)
        ]

    async def decided_last(self, run_loop_ids: Sequence[str]) -> dict[str, list[EventBody]]:
        """See `EventReader.decided_last`."""

        def work() -> dict[str, list[EventBody]]:
            rows = self._file.select(
                "SELECT run_loop_id, seq, owner, body FROM json_each(?) AS ids"
                " JOIN events ON events.run_loop_id = ids.value"
                f" WHERE body LIKE '{_DECIDED}%' OR body LIKE '{_MOVED}%' ORDER BY seq",
                (json.dumps(list(run_loop_ids)),),
            )
            newest: dict[str, list[KeptRow]] = {}
            for run_loop_id, *row in rows:
                if row[-1].startswith(_DECIDED):
                    newest[run_loop_id] = []
                newest.setdefault(run_loop_id, []).append((row[0], row[1], row[2]))
            return {each: self.words.bodies(its) for each, its in newest.items()}

        return await to_thread.run_sync(work, limiter=self._threads)

    async def replay(self, run_loop_id: str, *, owner: str | None = None) -> RunLoopState:
        """See `EventReader.replay`."""
        await self.run_loops.check_owner(run_loop_id, owner=owner)
        state = self._states.get(run_loop_id) or self._ended.get(run_loop_id)
        if state is None:
            state = await to_thread.run_sync(self._replay, run_loop_id, limiter=self._threads)
        return state

    def _replay(self, run_loop_id: str) -> RunLoopState:
        try:
            state = fold(self.read_blocking(run_loop_id=run_loop_id))
            if state is None:
                raise ValueError("it has no events")
        except ValueError as error:  # pydantic's errors are of this kind too
            raise StorageError(
                f"the history of run loop {run_loop_id} cannot be read: {error}",
                advice="It may be of a newer version of Rondo; the other run loops go on.",
            ) from error
        return state
