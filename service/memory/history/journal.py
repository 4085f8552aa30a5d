"""The journal: what happened, append-only, in SQLite. It is the truth; all else is derived from it.

The tables of run loops and of usage, for lists, are written in the same transaction as the events.
The inbox lives in the same file, so that a message can move from it into a loop atomically.

What survives what: appends with ``durable=True`` survive power loss, the others survive the
process being killed (https://sqlite.org/pragma.html#pragma_synchronous). There is one writer and
one commit at a time. A commit that need not reach the disk takes some tens of microseconds and
runs where it is called; one that must reach it runs in a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from service.domain.errors import ConflictError, StorageError
from service.domain.events import (
    TRANSIENT,
    Event,
    EventBody,
    MemoryRecalled,
    RouteDecided,
    RunLoopResumed,
    ToolFinished,
)
from service.domain.fold import begin, evolve
from service.domain.run_loops import ACTIVE, RESUMABLE
from service.domain.state import RunLoopState
from service.memory.forgetting import records
from service.memory.history import imports, inbox, run_loop_table, standing_approvals, usage_table
from service.memory.history.imports import Imports
from service.memory.history.inbox import Inbox
from service.memory.history.journal_reads import JournalReads
from service.memory.history.run_loop_table import millis_of, moment_of, project
from service.memory.history.standing_approvals import StandingApproval, StandingApprovals
from service.memory.history.usage_table import UsageTable
from service.memory.sqlite import SqliteFile
from service.memory.tasks import in_background, run_to_end

log = logging.getLogger(__name__)

T = TypeVar("T")

_COMMITS_BETWEEN_LOOKS = 64  # at the length of the log

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice, also after forgetting
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    at INTEGER NOT NULL,                    -- milliseconds since the epoch
    body TEXT NOT NULL                      -- JSON
);
CREATE INDEX IF NOT EXISTS events_of_run_loop ON events (run_loop_id, seq);
"""


@dataclass(frozen=True, slots=True)
class Commit:
    """What an append wrote, and the state that it led to."""

    events: tuple[Event, ...]
    state: RunLoopState
    copied: bool = False
    """Whether the events are a fork's beginning: of these only the first happened just now."""

    @property
    def news(self) -> tuple[Event, ...]:
        """The events that happened just now, and did not only come along from another loop."""
        return self.events[:1] if self.copied else self.events


@dataclass(frozen=True, slots=True)
class _Append:
    """What somebody wants to be written."""

    run_loop_id: str
    bodies: Sequence[EventBody]
    owner: str | None
    if_last_seq: int | None
    delivering: str | None
    ended: RunLoopState | None = None
    """For ``run_loop.resumed``: the loop as it ended."""
    moments: Sequence[datetime] | None = None
    """When each thing happened; None: now."""
    granting: Sequence[StandingApproval] = ()
    rewrites: int = 0
    """With `ended`: how many had been rewritten when it was read."""


Listener = Callable[[Commit], None]


class Journal(JournalReads):
    """Appends events, folds them, and reads them back.

    The listener is called after each commit, in the order of commits, on the event loop's thread;
    it must neither block nor raise.
    """

    def __init__(self, path: Path) -> None:
        file = SqliteFile(
            path,
            _SCHEMA
            + run_loop_table.SCHEMA
            + usage_table.SCHEMA
            + inbox.SCHEMA
            + standing_approvals.SCHEMA
            + imports.SCHEMA
            + records.SCHEMA,
            when_damaged=f"Stop the daemon, and restore {path.name} from a backup; or, to begin"
            f" anew without this history, move {path.name}*, memory.sqlite3* and chroma out of"
            f" {path.parent}.",
        )
        super().__init__(file)
        self._lock = anyio.Lock(fast_acquire=True)
        self._listener: Listener = lambda commit: None
        self._last_seq = 0
        self._commits = 0
        self._rewrites = 0
        self.without_forgotten: Callable[[EventBody], EventBody] = lambda body: body
        """Takes out of what memory gave whatever was forgotten while it was on its way here."""
        self.is_current: Callable[[Sequence[EventBody]], bool] = lambda copies: True
        """Whether a fork's copies are as their originals are now: these may have been forgotten."""
        self._closing = False
        self._tidying: asyncio.Task[None] | None = None
        self.usage = UsageTable(self._file, self._lock, self._threads)
        self.inbox = Inbox(self._file, self._lock, self._threads)
        self.standing_approvals = StandingApprovals(self._file, self._lock, self._threads)
        self.imports = Imports(self._file, self._lock, self._threads, self)

    def open(self, listener: Listener) -> list[RunLoopState]:
        """Open or create the file; gives the states of all active loops.

        Raises:
            StorageError: the file cannot be opened, or is damaged.
        """
        self._file.open()
        self._closing = False
        self.usage.catch_up()
        self._listener = listener
        self.standing_approvals.load()
        rows = self._file.select("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        self._last_seq = rows[0][0] if rows else 0
        for loop_id in self.run_loops.ids(ACTIVE):
            try:
                state = self._replay(loop_id)
            except StorageError as error:
                self._set_aside(loop_id, error)
            else:
                self._states[loop_id] = state
        return list(self._states.values())

    def _set_aside(self, run_loop_id: str, error: StorageError) -> None:
        """One history that cannot be read must not keep the others from going on."""
        log.error("run loop %s is set aside as failed: %s", run_loop_id, error)
        self.run_loops.set_aside(run_loop_id)

    async def aclose(self) -> None:
        """Close the file, after the commit that is under way."""
        self._closing = True
        if self._tidying is not None:
            await asyncio.wait([self._tidying])
        async with self._lock:
            self._file.close()

    @property
    def last_seq(self) -> int:
        """The number of the newest event."""
        return self._last_seq

    async def append(
        self,
        run_loop_id: str,
        *bodies: EventBody,
        owner: str | None = None,
        durable: bool = False,
        if_last_seq: int | None = None,
        delivering: str | None = None,
        granting: Sequence[StandingApproval] = (),
    ) -> Commit:
        """Write events of one loop in one transaction.

        Args:
            run_loop_id: the loop; a new one when the first body is ``run_loop.started``, one that
                has ended when it is ``run_loop.resumed``.
            bodies: what happened, in order; at least one, none of them transient.
            owner: of a new loop.
            durable: whether it must survive power loss.
            if_last_seq: write only if the loop's last event is still this one.
            delivering: the inbox message that these events put into the loop.
            granting: what a person allows for good by the answer that these events hold.

        Raises:
            ConflictError: the loop has ended, or has gone on since `if_last_seq`, or the message
                was delivered before.
            StorageError: the disk refuses; nothing was written.
        """
        ended, rewrites = None, self._rewrites
        if bodies and isinstance(bodies[0], RunLoopResumed):
            ended = await self.replay(run_loop_id)
            if ended.status not in RESUMABLE:
                raise ConflictError(f"run loop {run_loop_id} is {ended.status}")
        wanted = _Append(
            run_loop_id,
            bodies,
            owner,
            if_last_seq,
            delivering,
            ended,
            granting=granting,
            rewrites=rewrites,
        )
        if not durable and not self._lock.locked():
            return self._commit(wanted)
        return await run_to_end(self._append_in_turn(wanted, durable=durable))

    async def append_copies(
        self, run_loop_id: str, events: Sequence[Event], *, owner: str
    ) -> Commit:
        """Write the history of a new loop that begins with copies; they keep their times.

        The commit is marked as `copied`: what the copies tell happened to another loop.

        Raises:
            ConflictError: what was copied has been forgotten since.
            StorageError: the disk refuses; nothing was written.
        """
        bodies = [event.body for event in events]
        moments = [event.at for event in events]
        wanted = _Append(run_loop_id, bodies, owner, None, None, moments=moments)
        return await run_to_end(self._append_in_turn(wanted, durable=True))

    @property
    def rewrites(self) -> int:
        """How many loops have been rewritten since the start: their events keep their numbers."""
        return self._rewrites

    def at_work(self) -> frozenset[str]:
        """The ids of all active loops."""
        return frozenset(self._states)

    def went_on(self, events: int) -> None:
        """Take over that an import has written so many events, in its turn."""
        self._last_seq += events
        self._count_commit()

    async def _append_in_turn(self, wanted: _Append, *, durable: bool) -> Commit:
        async with self._lock:
            if not durable:
                return self._commit(wanted)
            if wanted.moments is not None:
                check = partial(self.is_current, wanted.bodies)
                if not await to_thread.run_sync(check, limiter=self._threads):
                    raise ConflictError(
                        "the run loop that is copied has lost words just now",
                        advice="Fork it again, if it is still there.",
                    )
            commit = self._prepare(wanted)
            write = partial(self._write, commit, wanted, durable=True)
            await to_thread.run_sync(write, limiter=self._threads)
            return self._take_over(commit, wanted)

    def _commit(self, wanted: _Append) -> Commit:
        commit = self._prepare(wanted)
        self._write(commit, wanted, durable=False)
        return self._take_over(commit, wanted)

    def _prepare(self, wanted: _Append) -> Commit:
        state = self._states.get(wanted.run_loop_id)
        if wanted.ended is not None:
            old = wanted.rewrites != self._rewrites
            if state or old or wanted.ended.last_seq != self._newest(wanted.run_loop_id):
                raise ConflictError(f"run loop {wanted.run_loop_id} was taken up meanwhile")
            state = wanted.ended
        if state is None and wanted.owner is None:
            raise ConflictError(f"run loop {wanted.run_loop_id} has ended")
        expected = wanted.if_last_seq
        if expected is not None and (state is None or state.last_seq != expected):
            raise ConflictError(f"run loop {wanted.run_loop_id} has gone on meanwhile")
        return self._stamp(state, wanted)

    def _newest(self, run_loop_id: str) -> int | None:
        rows = self._file.select(
            "SELECT max(seq) FROM events WHERE run_loop_id = ?", (run_loop_id,)
        )
        return rows[0][0] if rows else None

    def _take_over(self, commit: Commit, wanted: _Append) -> Commit:
        self._last_seq = commit.state.last_seq
        if commit.state.is_active:
            self._states[commit.state.id] = commit.state
        else:
            self._states.pop(commit.state.id, None)
        self.standing_approvals.take_over(wanted.granting)
        self._listener(commit)
        self._count_commit()
        return commit

    def _count_commit(self) -> None:
        self._commits += 1
        if self._commits % _COMMITS_BETWEEN_LOOKS == 0 and not (self._tidying or self._closing):
            self._tidying = in_background(self._tidy_up())

    async def _tidy_up(self) -> None:
        """Move what the write-ahead log has gathered into the file, while others go on writing."""
        try:
            if self._file.log_is_long():
                await to_thread.run_sync(self._file.checkpoint, limiter=self._threads)
                async with self._lock:  # for the little that came meanwhile
                    await to_thread.run_sync(self._file.checkpoint, limiter=self._threads)
        finally:
            self._tidying = None

    def _stamp(self, state: RunLoopState | None, wanted: _Append) -> Commit:
        now = _now()
        events = []
        for index, body in enumerate(wanted.bodies):
            if isinstance(body, TRANSIENT):
                raise ValueError(f"{body.type} is transient and is not journaled")
            if isinstance(body, (MemoryRecalled, ToolFinished, RouteDecided)):
                body = self.without_forgotten(body)
            event = Event(
                seq=self._last_seq + 1 + index,
                at=_stored(wanted.moments[index]) if wanted.moments else now,
                owner=state.owner if state else wanted.owner or "",
                run_loop_id=wanted.run_loop_id,
                body=body,
            )
            # Folding comes before writing: what cannot be folded is never written.
            state = begin(event) if state is None else evolve(state, event)
            events.append(event)
        if state is None:
            raise ValueError("nothing to append")
        return Commit(tuple(events), state, copied=wanted.moments is not None)

    def _write(self, commit: Commit, wanted: _Append, *, durable: bool) -> None:
        rows = [
            (e.seq, e.owner, e.run_loop_id, millis_of(e.at), e.body.model_dump_json())
            for e in commit.events
        ]
        with self._file.transaction(durable=durable) as db:
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            project(db, commit.state)
            usage_table.project(db, commit.events)
            if wanted.granting:
                standing_approvals.grant(db, wanted.granting)
            if wanted.delivering is not None:
                first = rows[0][0] or 0
                inbox.deliver(db, wanted.delivering, commit.state.id, first)

    async def in_turn(
        self,
        work: Callable[[SqliteFile], T],
        then: Callable[[T], Sequence[RunLoopState | str]] = lambda outcome: (),
    ) -> T:
        """Do something with the file while nobody writes: for what is no append, but forgetting.

        Args:
            work: runs in a worker thread.
            then: told what it came to, on the event loop's thread, before anybody writes again;
                gives the run loops that are other than before: how they are now, or the ids of
                those that are gone.
        """
        return await run_to_end(self._do_in_turn(work, then))

    async def _do_in_turn(
        self, work: Callable[[SqliteFile], T], then: Callable[[T], Sequence[RunLoopState | str]]
    ) -> T:
        async with self._lock:
            outcome = await to_thread.run_sync(work, self._file, limiter=self._threads)
            for each in then(outcome):
                self._rewrites += 1
                if isinstance(each, str):
                    self._states.pop(each, None)
                elif each.is_active:
                    self._states[each.id] = each
            await to_thread.run_sync(self.standing_approvals.load, limiter=self._threads)
        return outcome


def _now() -> datetime:
    return _stored(datetime.now(UTC))


def _stored(at: datetime) -> datetime:
    """A moment in the milliseconds that are stored."""
    return moment_of(millis_of(at))
