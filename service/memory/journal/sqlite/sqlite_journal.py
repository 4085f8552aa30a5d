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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from service.domain.errors import ConflictError, StorageError
from service.domain.history.events import EventBody, RunLoopResumed
from service.domain.history.state import RunLoopState
from service.domain.run_loops import ACTIVE, RESUMABLE
from service.memory.journal import appends
from service.memory.journal.appends import Append, Forgotten, Trace, stamped
from service.memory.journal.change_feed import Change, Commit
from service.memory.journal.protocol import Listener
from service.memory.journal.rewriting import Rewriter
from service.memory.journal.sqlite import (
    approval_table,
    audit_query,
    change_table,
    inbox_table,
    journal_form,
    receipt_table,
    run_loop_table,
    schedule_rows,
    usage_table,
)
from service.memory.journal.sqlite import event_table as event_rows
from service.memory.journal.sqlite.approval_table import ApprovalTable
from service.memory.journal.sqlite.audit_query import AuditQuery
from service.memory.journal.sqlite.change_table import ChangeTable
from service.memory.journal.sqlite.event_table import EventReads, write
from service.memory.journal.sqlite.import_rows import ImportRows
from service.memory.journal.sqlite.inbox_table import InboxTable
from service.memory.journal.sqlite.receipt_table import ReceiptTable
from service.memory.journal.sqlite.rewriting_rows import RewritingRows
from service.memory.journal.sqlite.schedule_table import ScheduleTable
from service.memory.journal.sqlite.usage_table import UsageTable
from service.memory.journal.standing_approvals import StandingApproval
from service.schedules.schedule import Settlement
from service.storage.clock import moment_of
from service.storage.concurrency import in_background, run_to_end
from service.storage.sqlite_file import CHECKPOINT_BYTES, SqliteFile

log = logging.getLogger(__name__)

T = TypeVar("T")

COMMITS_BETWEEN_LOOKS = 64  # at the length of the write-ahead log
_ENDED_HELD = 8
_TABLES = (
    *(event_rows, audit_query, run_loop_table, usage_table, inbox_table),
    *(approval_table, change_table, receipt_table, journal_form, schedule_rows),
)


class SqliteJournal(EventReads):
    """A `Journal` in one SQLite file: appends events, folds them, and reads them back."""

    def __init__(
        self,
        path: Path,
        forgotten: Forgotten | None = None,
        *,
        trace: Trace | None = None,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        commits_between_looks: int = COMMITS_BETWEEN_LOOKS,
    ) -> None:
        """Name the file; the length of its write-ahead log is looked at every so many commits."""
        file = SqliteFile(
            path,
            "".join(each.SCHEMA for each in _TABLES),
            when_damaged=f"Stop the daemon, and restore {path.name} from a backup; or, to begin"
            f" anew without this history, move {path.name}*, memory.sqlite3* and chroma out of"
            f" {path.parent}.",
            version=journal_form.VERSION,
            upgrades=journal_form.UPGRADES,
            checkpoint_bytes=checkpoint_bytes,
        )
        super().__init__(file)
        self._lock = anyio.Lock(fast_acquire=True)
        self._forgotten = forgotten
        self._trace = trace
        self._listener: Listener = lambda change: None
        self._last_seq = 0
        self._commits = 0
        self._commits_between_looks = commits_between_looks
        self.changes = ChangeTable(self._file)
        self._closing = False
        self._tidying: asyncio.Task[None] | None = None
        self.usage = UsageTable(self._file, self._lock, self._threads)
        self.audit = AuditQuery(self._file, self.words, self.state, self._threads)
        self.inbox = InboxTable(self._file, self._lock, self._threads)
        self.standing_approvals = ApprovalTable(self._file, self._lock, self._threads)
        self.schedules = ScheduleTable(self._file, self._lock, self._threads)
        self.imports = ImportRows(self._file, self._lock, self._threads, self)
        self.receipts = ReceiptTable(self._file, self._lock, self._threads)

    def open(self, listener: Listener) -> list[RunLoopState]:
        """See `Journal.open`."""
        if (copy := journal_form.keep_copy(self._file.path)) is not None:
            log.info("the journal as it was is kept as %s until something is forgotten", copy)
        self._file.open()
        self._closing = False
        self.changes.open()
        self.usage.catch_up()
        self._listener = listener
        self.standing_approvals.load()
        self.schedules.load()
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
        self._file.note_damage(error)

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
        settling: Settlement | None = None,
    ) -> Commit:
        """See `Journal.append`."""
        ended, read_at = None, None
        if bodies and isinstance(bodies[0], RunLoopResumed):
            read_at = self.lost_words_at
            ended = await self.replay(run_loop_id)
            if ended.status not in RESUMABLE:
                raise ConflictError(f"run loop {run_loop_id} is {ended.status}")
        append = Append(
            run_loop_id,
            bodies,
            owner,
            if_last_seq,
            delivering,
            ended,
            granting=granting,
            settling=settling,
            read_at=read_at,
        )
        [append] = await appends.traced([append], self._trace, self, self._threads)
        if not durable and not self._lock.locked():
            return self._commit([append])[0]
        return (await run_to_end(self._append_in_turn([append], durable=durable)))[0]

    async def append_together(self, *batch: Append) -> list[Commit]:
        """See `Journal.append_together`."""
        with_references = await appends.traced(batch, self._trace, self, self._threads)
        return await run_to_end(self._append_in_turn(with_references, durable=True))

    @property
    def lost_words_at(self) -> int:
        """The newest change by which words were forgotten: other events kept their numbers."""
        return self.changes.last_lost_words

    def take_over_imports(self, imported: Sequence[Change]) -> None:
        """Take over what an import has written, in its turn."""
        for change in imported:
            self._discard(change.run_loop_id)
        if imported:
            self._last_seq = imported[-1].last_seq or self._last_seq
            self._publish(imported)

    async def _append_in_turn(self, batch: Sequence[Append], *, durable: bool) -> list[Commit]:
        async with self._lock:
            if not durable:
                return self._commit(batch)
            commits = self._prepare_all(batch)
            write = partial(self._write, commits, batch, durable=True)
            await to_thread.run_sync(write, limiter=self._threads)
            return self._take_over(commits, batch)

    def _commit(self, batch: Sequence[Append]) -> list[Commit]:
        commits = self._prepare_all(batch)
        self._write(commits, batch, durable=False)
        return self._take_over(commits, batch)

    def _prepare_all(self, batch: Sequence[Append]) -> list[Commit]:
        commits = list[Commit]()
        last_seq = self._last_seq
        for number, each in enumerate(batch, start=self.changes.last + 1):
            commits.append(self._prepare(each, last_seq, number))
            last_seq = commits[-1].state.last_seq
        return commits

    def _prepare(self, append: Append, last_seq: int, number: int) -> Commit:
        state = self._states.get(append.run_loop_id)
        if append.read_at not in (None, self.lost_words_at):
            raise ConflictError("words were forgotten while this was on its way")
        if append.ended is not None:
            if state or append.ended.last_seq != self._newest(append.run_loop_id):
                raise ConflictError(f"run loop {append.run_loop_id} was taken up meanwhile")
            state = append.ended
        if state is None and append.owner is None:
            raise ConflictError(f"run loop {append.run_loop_id} has ended")
        expected = append.if_last_seq
        if expected is not None and (state is None or state.last_seq != expected):
            raise ConflictError(f"run loop {append.run_loop_id} has gone on meanwhile")
        forgotten = self._forgotten if self.lost_words_at else None
        return stamped(append, state, last_seq, number, forgotten, self)

    def _newest(self, run_loop_id: str) -> int | None:
        query = "SELECT max(seq) FROM events WHERE run_loop_id = ?"
        rows = self._file.select(query, (run_loop_id,))
        return rows[0][0] if rows else None

    def _take_over(self, commits: list[Commit], batch: Sequence[Append]) -> list[Commit]:
        self.standing_approvals.take_over([], self._approvals_over(commits))
        for commit, each in zip(commits, batch, strict=True):
            self._last_seq = commit.state.last_seq
            self._replace(commit.state)
            if each.granting:
                self.standing_approvals.take_over(each.granting)
            if each.settling is not None:
                self.schedules.take_over(each.settling)
        self._publish(commits)
        return commits

    def _replace(self, state: RunLoopState) -> None:
        """Hold the newest state of a loop."""
        self._discard(state.id)
        if state.is_active:
            self._states[state.id] = state
        else:
            self._ended[state.id] = state
            if len(self._ended) > _ENDED_HELD:
                del self._ended[next(iter(self._ended))]

    def _discard(self, run_loop_id: str) -> None:
        self._states.pop(run_loop_id, None)
        self._ended.pop(run_loop_id, None)

    def _publish(self, published: Sequence[Change]) -> None:
        """Tell what was committed: the states are those after it."""
        self.changes.publish(published)
        for change in published:
            self._listener(change)
        self._commits += 1
        is_time = self._commits % self._commits_between_looks == 0
        if is_time and not (self._tidying or self._closing):
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

    def _write(self, commits: Sequence[Commit], batch: Sequence[Append], *, durable: bool) -> None:
        with self._file.transaction(durable=durable) as db:
            approval_table.remove(db, self._approvals_over(commits))
            for commit, each in zip(commits, batch, strict=True):
                write(db, commit, each, self._states.get(commit.run_loop_id))
            self.changes.write(db, commits)

    def _approvals_over(self, commits: Sequence[Commit]) -> list[StandingApproval]:
        return self.standing_approvals.over(moment_of(commits[0].at)) if commits else []

    async def trim_changes(self, *, before: int, limit: int = 1000) -> int:
        """See `Journal.trim_changes`."""

        def work() -> int:
            with self._file.transaction(durable=False) as db:
                return change_table.trim(db, before=before, limit=limit)

        return await self._in_turn(work)

    async def scrub(self) -> bool:
        """See `Journal.scrub`."""
        return await self._in_turn(self._file.scrub)

    async def delete_copies(self) -> int:
        """See `Journal.delete_copies`."""
        return await self._in_turn(lambda: journal_form.delete_copies(self._file.path))

    async def unmigrated(self) -> list[str]:
        """See `Journal.unmigrated`."""
        return await self._in_turn(lambda: journal_form.unmigrated(self._file))

    async def write_anew(self, run_loop_id: str, rows: Mapping[int, str]) -> None:
        """See `Journal.write_anew`."""
        await self._in_turn(lambda: journal_form.write_anew(self._file, run_loop_id, rows))

    async def _in_turn(self, work: Callable[[], T]) -> T:
        """Do something with the file, in a worker thread, while nobody writes."""

        async def do() -> T:
            async with self._lock:
                return await to_thread.run_sync(work, limiter=self._threads)

        return await run_to_end(do())

    async def rewrite(
        self,
        work: Callable[[Rewriter], T],
        then: Callable[[T], None] = lambda outcome: None,
    ) -> T:
        """See `Journal.rewrite`."""
        return await run_to_end(self._rewrite_in_turn(work, then))

    async def _rewrite_in_turn(self, work: Callable[[Rewriter], T], then: Callable[[T], None]) -> T:
        def write() -> tuple[T, RewritingRows, list[Change]]:
            with self._file.transaction(durable=True) as db:
                rows = RewritingRows(db)
                outcome = work(rows)
                rewritten = rows.changes(after=self.changes.last)
                self.changes.write(db, rewritten)
            return outcome, rows, rewritten

        async with self._lock:
            outcome, rows, rewritten = await to_thread.run_sync(write, limiter=self._threads)
            for _, run_loop_id in rows.removed:
                self._discard(run_loop_id)
            for state in rows.changed:
                self._replace(state)
            self._ended.clear()  # others may hold the words as well
            then(outcome)
            self._publish(rewritten)
            await to_thread.run_sync(self.standing_approvals.load, limiter=self._threads)
            await to_thread.run_sync(self.schedules.load, limiter=self._threads)
        return outcome
