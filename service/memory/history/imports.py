"""Imported run loops in the journal: what is known of them, and many of them in one commit.

A loop that comes from a file is one event, ``run_loop.imported``, and another one when it has
grown there. Nobody is told while it happens: it is not news, and there may be a hundred thousand.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import anyio
from anyio import to_thread

from service.domain.events import Event, RunLoopImported
from service.domain.fold import begin, evolve
from service.domain.state import RunLoopState
from service.memory.history.run_loop_table import millis_of, moment_of, project
from service.memory.sqlite import Row, SqliteFile
from service.memory.tasks import run_to_end

SCHEMA = """
CREATE TABLE IF NOT EXISTS grown_imports (  -- not known to be archived as they are now
    run_loop_id TEXT PRIMARY KEY
) WITHOUT ROWID;
"""
IMPORTED = '{"type":"run_loop.imported"'
"""How the body of such an event begins, as pydantic writes it."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the journal has under an id."""

    owner: str
    last_seq: int | None
    newest: str
    """The body of its newest event, as JSON."""


@dataclass(frozen=True, slots=True)
class Import:
    """A loop to be written."""

    run_loop_id: str
    body: RunLoopImported
    written: str
    """`body` as JSON."""
    grown_from: RunLoopState | None = None
    """The loop as it is here; None: it is new."""
    rewrites: int = 0
    """How many loops had been rewritten when it was looked up."""


@dataclass(frozen=True, slots=True)
class Written:
    """What one commit came to."""

    states: tuple[RunLoopState, ...]
    missed: tuple[Import, ...]
    """Those whose loops have changed since they were looked at: nothing was written of them."""


class Numbering(Protocol):
    """What the journal knows of events and loops. Asked and told by whoever has its turn."""

    @property
    def last_seq(self) -> int:
        """The number of the newest event."""
        ...

    @property
    def rewrites(self) -> int:
        """How many loops have been rewritten since the start, their numbers as before."""
        ...

    def at_work(self) -> frozenset[str]:
        """The ids of all active loops."""
        ...

    def went_on(self, events: int) -> None:
        """So many events were written."""
        ...


class Imports:
    """Looks loops up, and writes them. The file and the turn to write in it are the journal's."""

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

    async def known(self, run_loop_ids: Iterable[str]) -> dict[str, Known]:
        """What is here under these ids, of any owner; those that are new are left out.

        Raises:
            StorageError: the file cannot be read.
        """
        rows = await to_thread.run_sync(
            self._file.select,
            "SELECT loops.id, loops.owner, events.seq, coalesce(events.body, '')"
            " FROM json_each(?) AS wanted JOIN run_loops AS loops ON loops.id = wanted.value"
            " LEFT JOIN events ON events.seq ="
            " (SELECT max(seq) FROM events WHERE run_loop_id = loops.id)",
            (json.dumps(list(run_loop_ids)),),
            limiter=self._threads,
        )
        return {loop_id: Known(owner, seq, body) for loop_id, owner, seq, body in rows}

    async def append(self, imports: Sequence[Import], *, owner: str) -> Written:
        """Write loops, each id at most once, in one transaction that survives power loss.

        Nobody is told of them.

        Raises:
            StorageError: the disk refuses; nothing was written.
        """
        return await run_to_end(self._append(imports, owner))

    async def _append(self, imports: Sequence[Import], owner: str) -> Written:
        async with self._lock:
            write = partial(
                self._write,
                imports,
                owner,
                self._numbering.last_seq,
                self._numbering.at_work(),
                self._numbering.rewrites,
            )
            written = await to_thread.run_sync(write, limiter=self._threads)
            self._numbering.went_on(len(written.states))
        return written

    def _write(
        self,
        imports: Sequence[Import],
        owner: str,
        last_seq: int,
        at_work: frozenset[str],
        rewrites: int,
    ) -> Written:
        now = moment_of(millis_of(datetime.now(UTC)))
        states: list[RunLoopState] = []
        missed: list[Import] = []
        with self._file.transaction(durable=True) as db:
            for each in imports:
                expected = each.grown_from.last_seq if each.grown_from else None
                # What was forgotten of a loop has left its numbers as they were.
                old = each.rewrites != rewrites
                gone_on = _newest(db, each.run_loop_id) != expected
                if each.run_loop_id in at_work or old or gone_on:
                    missed.append(each)
                    continue
                last_seq += 1
                states.append(_write_one(db, each, owner=owner, at=now, seq=last_seq))
        return Written(tuple(states), tuple(missed))

    async def grown(self) -> dict[str, int]:
        """Loops whose newest part long-term memory may lack, each with its newest event.

        Raises:
            StorageError: the file cannot be read.
        """
        rows = await to_thread.run_sync(
            self._file.select,
            "SELECT run_loop_id, (SELECT max(seq) FROM events"
            " WHERE events.run_loop_id = grown_imports.run_loop_id) FROM grown_imports",
            limiter=self._threads,
        )
        return dict(rows)

    async def settle(self, archived: Mapping[str, int]) -> None:
        """Strike loops off the list of `grown`: they are archived, each as of this event.

        One that has grown again since stays on it.

        Raises:
            StorageError: the disk refuses.
        """
        async with self._lock:
            await to_thread.run_sync(self._strike_off, archived, limiter=self._threads)

    def _strike_off(self, archived: Mapping[str, int]) -> None:
        with self._file.transaction(durable=False) as db:
            db.executemany(
                "DELETE FROM grown_imports WHERE run_loop_id = ?1"
                " AND NOT EXISTS (SELECT 1 FROM events WHERE run_loop_id = ?1 AND seq > ?2)",
                list(archived.items()),
            )


def _newest(db: sqlite3.Connection, run_loop_id: str) -> int | None:
    row: Row = db.execute(
        "SELECT max(seq) FROM events WHERE run_loop_id = ?", (run_loop_id,)
    ).fetchone()
    newest: int | None = row[0]
    return newest


def put_on_list(db: sqlite3.Connection, run_loop_id: str) -> None:
    """Within a transaction: put a loop on the list of `Imports.grown`."""
    db.execute("INSERT OR IGNORE INTO grown_imports VALUES (?)", (run_loop_id,))


def _write_one(
    db: sqlite3.Connection, wanted: Import, *, owner: str, at: datetime, seq: int
) -> RunLoopState:
    event = Event(seq=seq, at=at, owner=owner, run_loop_id=wanted.run_loop_id, body=wanted.body)
    # Folding comes before writing: what cannot be folded is never written.
    state = evolve(wanted.grown_from, event) if wanted.grown_from else begin(event)
    db.execute(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
        (seq, owner, wanted.run_loop_id, millis_of(at), wanted.written),
    )
    project(db, state)
    if wanted.grown_from:
        put_on_list(db, wanted.run_loop_id)
    return state
