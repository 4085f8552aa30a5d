"""Takes words out of the journal's tables, within one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from service.domain.history.events import EventBody
from service.domain.history.references import Quotation
from service.domain.history.state import RunLoopState
from service.memory.journal.change_feed import Change, ChangeKind, numbered
from service.memory.journal.kept_words import kept
from service.memory.journal.rewriting import Record, Removal
from service.memory.journal.sqlite import approval_table, receipt_table, schedule_rows
from service.memory.journal.sqlite.run_loop_table import project
from service.storage.clock import millis_of

_OF_RUN_LOOP = {
    "events": "DELETE FROM events WHERE run_loop_id = ?",
    # The idempotency key and the hash of a message tell of its words.
    "messages": "DELETE FROM inbox WHERE run_loop_id = ?",
    # What was spent stays spent: a cap is not lifted by forgetting.
    "usage": "UPDATE usage SET run_loop_id = '' WHERE run_loop_id = ?",
}


class RewritingRows:
    """A `Rewriter` over the journal's writing connection; knows what it has done."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.changed: list[RunLoopState] = []
        """The run loops that lost words, as they are then."""
        self.removed: list[tuple[str, str]] = []
        """Owner and id of those that went."""
        self.schedules = 0
        """How many schedules went as their words are not in what stayed of a run loop."""
        self.approvals = 0
        """How many standing approvals went for the same reason."""

    def remove_loop(self, run_loop_id: str, *, owner: str) -> Removal:
        """See `Rewriter.remove_loop`."""
        gone = {
            name: self._db.execute(statement, (run_loop_id,)).rowcount
            for name, statement in _OF_RUN_LOOP.items()
        }
        gone["approvals"] = approval_table.remove_of(self._db, run_loop_id=run_loop_id)
        gone["schedules"] = schedule_rows.remove_with_loop(self._db, run_loop_id)
        self._db.execute("DELETE FROM run_loops WHERE id = ?", (run_loop_id,))
        self.removed.append((owner, run_loop_id))
        return Removal(**gone)

    def rewrite_loop(
        self,
        after: RunLoopState,
        bodies: Mapping[int, EventBody],
        quotations: Mapping[int, Sequence[Quotation]],
    ) -> None:
        """See `Rewriter.rewrite_loop`."""
        self._db.executemany(
            "UPDATE events SET body = ? WHERE seq = ? AND run_loop_id = ?",
            [(kept(body, quotations.get(seq, ())), seq, after.id) for seq, body in bodies.items()],
        )
        project(self._db, after)
        iterations = after.run_loop().iterations
        called = [call.arguments for each in iterations for call in each.tool_calls]
        self.approvals += approval_table.remove_unsaid(self._db, after.id, called)
        self.schedules += schedule_rows.remove_unsaid(
            self._db,
            after.id,
            called=called,
            said=[each.user_message or "" for each in iterations],
        )
        self.changed.append(after)

    def remove_messages(
        self, message_ids: Iterable[str], *, owner: str, run_loop_id: str | None = None
    ) -> int:
        """See `Rewriter.remove_messages`."""
        return sum(
            self._db.execute(
                "DELETE FROM inbox WHERE message_id = ? AND owner = ?"
                " AND (?3 IS NULL OR run_loop_id = ?3)",
                (message_id, owner, run_loop_id),
            ).rowcount
            for message_id in message_ids
        )

    def remove_approvals(
        self,
        *,
        owner: str,
        scopes: Collection[str] | None = None,
        run_loop_id: str | None = None,
    ) -> int:
        """See `Rewriter.remove_approvals`."""
        return approval_table.remove_of(
            self._db,
            owner=owner,
            scopes=None if scopes is None else json.dumps(sorted(scopes)),
            run_loop_id=run_loop_id,
        )

    def remove_schedules(self, *, owner: str) -> int:
        """See `Rewriter.remove_schedules`."""
        return schedule_rows.remove_of(self._db, owner)

    def keep(self, record: Record) -> None:
        """See `Rewriter.keep`."""
        receipt_table.write(self._db, record)

    def changes(self, *, after: int) -> list[Change]:
        """What is written into the change feed behind the change of this number."""
        kinds: list[tuple[ChangeKind, str, str]] = [
            *(("rewritten", state.owner, state.id) for state in self.changed),
            *(("removed", *each) for each in self.removed),
        ]
        return numbered(after, kinds, at=millis_of(datetime.now(UTC)))
