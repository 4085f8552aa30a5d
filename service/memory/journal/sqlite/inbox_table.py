"""The table of messages that were accepted, until they are in a run loop."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence

import anyio
from anyio import to_thread
from pydantic import BaseModel

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, NotFoundError
from service.domain.json_values import Metadata
from service.domain.run_loops import SendMode
from service.memory.journal.inbox import Delivery, InboxEntry, Receipt
from service.storage.concurrency import run_to_end
from service.storage.sqlite_file import SqliteFile

log = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS inbox (
    message_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,           -- milliseconds since the epoch
    request TEXT,                           -- JSON of the words, until they are in a run loop
    idempotency_key TEXT,
    request_hash TEXT,
    run_loop_id TEXT,                       -- where it went
    first_seq INTEGER,                      -- of the commit that put it there
    UNIQUE (owner, idempotency_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS waiting_messages ON inbox (accepted_at) WHERE run_loop_id IS NULL;
"""


class InboxTable:
    """An `Inbox` in the journal's file; shares its lock of one writer."""

    def __init__(
        self,
        file: SqliteFile,
        lock: anyio.Lock,
        threads: anyio.CapacityLimiter,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._file = file
        self._lock = lock
        self._threads = threads
        self._clock = clock
        self.unreadable: set[str] = set()
        """Messages that were found to be stored in a form that cannot be read."""

    async def accept(
        self,
        entry: InboxEntry,
        *parts: InboxEntry,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
    ) -> Receipt:
        """See `Inbox.accept`."""
        return await run_to_end(self._accept_in_turn(entry, parts, idempotency_key, request_hash))

    async def _accept_in_turn(
        self,
        entry: InboxEntry,
        parts: Sequence[InboxEntry],
        key: str | None,
        request_hash: str | None,
    ) -> Receipt:
        async with self._lock:
            return await to_thread.run_sync(
                self._accept, entry, parts, key, request_hash, limiter=self._threads
            )

    def _accept(
        self,
        entry: InboxEntry,
        parts: Sequence[InboxEntry],
        key: str | None,
        request_hash: str | None,
    ) -> Receipt:
        with self._file.transaction(durable=True) as db:
            if key is not None:
                row = db.execute(
                    "SELECT message_id, request_hash FROM inbox"
                    " WHERE owner = ? AND idempotency_key = ?",
                    (entry.owner, key),
                ).fetchone()
                if row is not None and row[1] != request_hash:
                    raise ConflictError(
                        f"the idempotency key {key!r} was used for another message",
                        advice="Use a new key for a new message.",
                    )
                if row is not None:
                    return Receipt(row[0], replayed=True, parts=_parts_of(db, row[0]))
            _store(db, entry, key, request_hash, self._clock())
            for part in parts:
                _store(db, part, None, None, self._clock())
        ids = tuple(part.message_id for part in parts)
        return Receipt(entry.message_id, replayed=False, parts=ids)

    async def undelivered(self) -> list[InboxEntry]:
        """See `Inbox.undelivered`."""
        return await self._waiting("ORDER BY accepted_at, message_id")

    async def waiting(self, message_id: str) -> InboxEntry | None:
        """A message, if it is in no run loop yet and can be read."""
        entries = await self._waiting("AND message_id = ?", message_id)
        return entries[0] if entries else None

    async def _waiting(self, clause: str, *values: str) -> list[InboxEntry]:
        rows = await to_thread.run_sync(
            self._file.select,
            f"SELECT message_id, owner, request FROM inbox WHERE run_loop_id IS NULL {clause}",
            values,
            limiter=self._threads,
        )
        entries = []
        for message_id, owner, request in rows:
            try:
                entries.append(_Request.model_validate_json(request).entry(message_id, owner))
            except ValueError as error:  # pydantic's errors are of this kind
                # One that an other version wrote must not keep the rest from being answered.
                self.unreadable.add(message_id)
                log.error("message %s is left in the inbox, unread: %s", message_id, error)
        return entries

    async def delivery(self, message_id: str) -> Delivery | None:
        """See `Inbox.delivery`."""
        rows = await to_thread.run_sync(
            self._file.select,
            "SELECT run_loop_id, first_seq FROM inbox WHERE message_id = ?",
            (message_id,),
            limiter=self._threads,
        )
        if not rows:
            raise NotFoundError(f"no message {message_id} was accepted")
        run_loop_id, first_seq = rows[0]
        return None if run_loop_id is None else Delivery(run_loop_id, first_seq)


def _store(
    db: sqlite3.Connection,
    entry: InboxEntry,
    key: str | None,
    request_hash: str | None,
    now_ns: int,
) -> None:
    db.execute(
        # Later than all that wait, whatever the clock says: it tells their order.
        "INSERT INTO inbox SELECT ?, ?, max(?, coalesce(max(accepted_at) + 1, 0)),"
        " ?, ?, ?, NULL, NULL FROM inbox WHERE run_loop_id IS NULL",
        (
            entry.message_id,
            entry.owner,
            now_ns // 1_000_000,
            _Request.of(entry).model_dump_json(),
            key,
            request_hash,
        ),
    )


def _parts_of(db: sqlite3.Connection, message_id: str) -> tuple[str, ...]:
    rows = db.execute(
        # A dot, and what comes next behind it.
        "SELECT message_id FROM inbox WHERE message_id > ? AND message_id < ?",
        (f"{message_id}.", f"{message_id}/"),
    ).fetchall()
    return tuple(sorted((row[0] for row in rows), key=lambda each: (len(each), each)))


def deliver(db: sqlite3.Connection, message_id: str, run_loop_id: str, first_seq: int) -> None:
    """Within a transaction that writes a message into a loop: let it leave the inbox.

    Raises:
        ConflictError: it was delivered before.
    """
    done = db.execute(
        "UPDATE inbox SET run_loop_id = ?, first_seq = ?, request = NULL"
        " WHERE message_id = ? AND run_loop_id IS NULL",
        (run_loop_id, first_seq, message_id),
    )
    if done.rowcount != 1:
        raise ConflictError(f"message {message_id} was delivered before")


def redeliver(
    db: sqlite3.Connection, message_ids: Iterable[str], run_loop_id: str, first_seq: int
) -> None:
    """Within a transaction that moves messages into another loop: let their senders find them."""
    db.executemany(
        "UPDATE inbox SET run_loop_id = ?, first_seq = ?"
        " WHERE message_id = ? AND run_loop_id IS NOT NULL",
        [(run_loop_id, first_seq, message_id) for message_id in message_ids],
    )


class _Request(BaseModel):
    """An entry's words, as stored."""

    message: Message
    run_loop_id: str | None
    metadata: Metadata
    mode: SendMode = "steer"
    model: str | None = None

    @classmethod
    def of(cls, entry: InboxEntry) -> _Request:
        return cls(
            message=entry.message,
            run_loop_id=entry.requested_run_loop_id,
            metadata=entry.metadata,
            mode=entry.mode,
            model=entry.model,
        )

    def entry(self, message_id: str, owner: str) -> InboxEntry:
        return InboxEntry(
            message_id=message_id,
            owner=owner,
            message=self.message,
            requested_run_loop_id=self.run_loop_id,
            metadata=self.metadata,
            mode=self.mode,
            model=self.model,
        )
