"""The journal: what happened, append-only. It is the truth; all else is derived from it.

`append`, `read`, `state` and `changes` are what all live off; what else is kept in the same
transactions has small protocols of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from service.domain.errors import Problem
from service.domain.history.events import EventBody, Usage, UsagePurpose
from service.domain.history.state import RunLoopState
from service.domain.usage import Grouping, UsageLine, UsageTotals
from service.memory.journal.appends import Append
from service.memory.journal.audit_trail import AuditTrail
from service.memory.journal.change_feed import Change, ChangeFeed, Commit
from service.memory.journal.event_reader import EventReader
from service.memory.journal.imported_loops import Imports
from service.memory.journal.inbox import Inbox
from service.memory.journal.rewriting import Receipts, Rewriter
from service.memory.journal.schedule_store import Schedules
from service.memory.journal.standing_approvals import StandingApproval, StandingApprovals
from service.schedules.schedule import Settlement

T = TypeVar("T")

Listener = Callable[[Change], None]
"""Told each change within its commit, in the order of commits, on the event loop's thread, once
the states of active loops are those after it. MUST neither block nor raise."""


class UsageLedger(Protocol):
    """What model calls used; those of run loops are counted with their events."""

    async def add(self, usage: Usage, *, owner: str, at: datetime, run_loop_id: str = "") -> None:
        """Count a call of which no run loop has an event.

        Args:
            usage: what it used.
            owner: for whom.
            at: when.
            run_loop_id: the loop that it was made for; empty where it belongs to none.

        Raises:
            StorageError: the disk refuses; it is not counted.
        """
        ...

    async def spent(self, purpose: UsagePurpose, *, since: datetime) -> int:
        """How many tokens, in and out, all owners together have used for something since then.

        Raises:
            StorageError: the file cannot be read.
        """
        ...

    async def lines(
        self,
        *,
        owner: str,
        by: Grouping,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> list[UsageLine]:
        """The usage of an owner by days (newest first), or by something else (most tokens first).

        Args:
            owner: whose.
            by: what is summed up in one line.
            since: calls at or after.
            until: calls before.
            limit: at most so many lines.

        Raises:
            StorageError: the file cannot be read.
        """
        ...

    async def total(
        self, *, owner: str | None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals:
        """All usage of an owner (None: of all together) in a time.

        Raises:
            StorageError: the file cannot be read.
        """
        ...


class Journal(EventReader, Protocol):
    """Appends events, folds them, and reads them back. One process writes it."""

    @property
    def changes(self) -> ChangeFeed:
        """What has changed, in the order of commits; whoever lives off that subscribes here."""
        ...

    @property
    def inbox(self) -> Inbox:
        """Messages that are in no run loop yet."""
        ...

    @property
    def imports(self) -> Imports:
        """Brings in run loops that happened elsewhere."""
        ...

    @property
    def usage(self) -> UsageLedger:
        """What model calls used."""
        ...

    @property
    def audit(self) -> AuditTrail:
        """What tools have done."""
        ...

    @property
    def standing_approvals(self) -> StandingApprovals:
        """What persons have allowed for good."""
        ...

    @property
    def schedules(self) -> Schedules:
        """What is to be told or done, and when."""
        ...

    @property
    def receipts(self) -> Receipts:
        """What was forgotten."""
        ...

    @property
    def damage(self) -> Problem | None:
        """What could not be read since the start, and what to do; None as long as all could."""
        ...

    def open(self, listener: Listener) -> list[RunLoopState]:
        """Open or create the file; gives the states of all active loops.

        Raises:
            StorageError: the file cannot be opened, or is damaged.
        """
        ...

    async def aclose(self) -> None:
        """Close the file, after the commit that is under way."""
        ...

    @property
    def last_seq(self) -> int:
        """The number of the newest event."""
        ...

    @property
    def lost_words_at(self) -> int:
        """The newest change by which words were forgotten: other events kept their numbers."""
        ...

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
            settling: what became of the times of the schedule that opens this new loop.

        Raises:
            ConflictError: the loop has ended, or has gone on since `if_last_seq`, or the message
                was delivered before, or the schedule was changed meanwhile.
            StorageError: the disk refuses; nothing was written.
        """
        ...

    async def append_together(self, *batch: Append) -> list[Commit]:
        """Write events of several loops, each at most once, in one transaction.

        It survives power loss. Listeners hear of one loop after another, in the order given.

        Raises:
            ConflictError: one of the loops has ended, or has gone on since its `if_last_seq`.
            StorageError: the disk refuses; nothing was written.
        """
        ...

    async def trim_changes(self, *, before: int, limit: int = 1000) -> int:
        """Delete some of the changes that all durable readers have passed; how many.

        Raises:
            StorageError: the disk refuses.
        """
        ...

    async def rewrite(
        self,
        work: Callable[[Rewriter], T],
        then: Callable[[T], None] = lambda outcome: None,
    ) -> T:
        """Let run loops lose words, or go, in one transaction that survives power loss.

        Args:
            work: does it, within the transaction, in a worker thread.
            then: told what it came to, on the event loop's thread, before anybody is told of the
                changes, and before anybody writes again.

        Raises:
            StorageError: the disk refuses; nothing was written.
        """
        ...

    async def scrub(self) -> bool:
        """Write the file anew without what was deleted; whether its log could be emptied, too.

        Raises:
            StorageError: the disk refuses; nothing is lost.
        """
        ...

    async def delete_copies(self) -> int:
        """Delete the copies that were kept of an older form; how many there were."""
        ...

    async def unmigrated(self) -> list[str]:
        """The run loops of which rows may be of an older form."""
        ...

    async def write_anew(self, run_loop_id: str, rows: Mapping[int, str]) -> None:
        """Write rows of a run loop in the form of today, by their numbers: it is done with.

        Raises:
            StorageError: the disk refuses; nothing was written.
        """
        ...
