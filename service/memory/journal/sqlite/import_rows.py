"""Imported run loops in the journal: what is known of them, and many of them in one commit.

A loop that comes from a file is one event, ``run_loop.imported``, and another one when it has
grown there. Nobody is told while it happens: it is not news, and there may be a hundred thousand.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import anyio
from anyio import to_thread

from service.domain.history.events import Event
from service.domain.history.fold import begin, evolve
from service.domain.history.state import RunLoopState
from service.memory.journal.change_feed import Change
from service.memory.journal.imported_loops import ExistingLoop, Import, Written
from service.memory.journal.sqlite.change_table import ChangeTable
from service.memory.journal.sqlite.run_loop_table import project
from service.storage.clock import millis_of, moment_of
from service.storage.concurrency import run_to_end
from service.storage.sqlite_file import Row, SqliteFile


class Numbering(Protocol):
    """What the journal knows of events and loops. Asked and told by whoever has its turn."""

    @property
    def last_seq(self) -> int:
        """The number of the newest event."""
        ...

    @property
    def lost_words_at(self) -> int:
        """The newest change since the start by which words were forgotten."""
        ...

    @property
    def changes(self) -> ChangeTable:
        """Where what is written is told."""
        ...

    def state(self, run_loop_id: str) -> RunLoopState | None:
        """The state of an active loop."""
        ...

    def take_over_imports(self, imported: Sequence[Change]) -> None:
        """These changes were written."""
        ...


class ImportRows:
    """`Imports` in the journal's tables. The file and the turn to write in it are the journal's."""

    def __init__(
        self,
        file: SqliteFile,
        lock: anyio.Lock,
        threads: anyio.CapacityLimiter,
        numbering: Numbering,
    ) -> None:
        self._file = file
        self._lock = lock
        self._threads = threads
        self._numbering = numbering

    async def existing(self, run_loop_ids: Iterable[str]) -> dict[str, ExistingLoop]:
        """See `Imports.existing`."""
        rows = await to_thread.run_sync(
            self._file.select,
            "SELECT loops.id, loops.owner, events.seq, coalesce(events.body, '')"
            " FROM json_each(?) AS ids JOIN run_loops AS loops ON loops.id = ids.value"
            " LEFT JOIN events ON events.seq ="
            " (SELECT max(seq) FROM events WHERE run_loop_id = loops.id)",
            (json.dumps(list(run_loop_ids)),),
            limiter=self._threads,
        )
        return {loop_id: ExistingLoop(owner, seq, body) for loop_id, owner, seq, body in rows}

    async def append(self, imports: Sequence[Import], *, owner: str) -> Written:
        """See `Imports.append`."""
        return await run_to_end(self._append(imports, owner))

    async def _append(self, imports: Sequence[Import], owner: str) -> Written:
        async with self._lock:
            write = partial(self._write, imports, owner)
            written, imported = await to_thread.run_sync(write, limiter=self._threads)
            self._numbering.take_over_imports(imported)
        return written

    def _write(self, imports: Sequence[Import], owner: str) -> tuple[Written, list[Change]]:
        now = moment_of(millis_of(datetime.now(UTC)))
        feed = self._numbering.changes
        seq, number = self._numbering.last_seq, feed.last
        states: list[RunLoopState] = []
        missed: list[Import] = []
        imported: list[Change] = []
        with self._file.transaction(durable=True) as db:
            for each in imports:
                expected = each.grown_from.last_seq if each.grown_from else None
                # What was forgotten of a loop has left its numbers as they were.
                old = each.read_at != self._numbering.lost_words_at
                gone_on = _newest(db, each.run_loop_id) != expected
                if self._numbering.state(each.run_loop_id) or old or gone_on:
                    missed.append(each)
                    continue
                seq, number = seq + 1, number + 1
                states.append(_write_one(db, each, owner=owner, at=now, seq=seq))
                imported.append(_change(each.run_loop_id, owner, now, number, seq))
            feed.write(db, imported)
        return Written(tuple(states), tuple(missed), number), imported


def _change(run_loop_id: str, owner: str, at: datetime, number: int, seq: int) -> Change:
    return Change(
        number=number,
        at=millis_of(at),
        kind="imported",
        owner=owner,
        run_loop_id=run_loop_id,
        first_seq=seq,
        last_seq=seq,
    )


def _newest(db: sqlite3.Connection, run_loop_id: str) -> int | None:
    row: Row = db.execute(
        "SELECT max(seq) FROM events WHERE run_loop_id = ?", (run_loop_id,)
    ).fetchone()
    newest: int | None = row[0]
    return newest


def _write_one(
    db: sqlite3.Connection, loop: Import, *, owner: str, at: datetime, seq: int
) -> RunLoopState:
    event = Event(seq=seq, at=at, owner=owner, run_loop_id=loop.run_loop_id, body=loop.body)
    # Folding comes before writing: what cannot be folded is never written.
    state = evolve(loop.grown_from, event) if loop.grown_from else begin(event)
    db.execute(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
        (seq, owner, loop.run_loop_id, millis_of(at), loop.written),
    )
    project(db, state)
    return state
