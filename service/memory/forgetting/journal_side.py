"""Takes the words out of the journal: one transaction over all of its tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from service.domain.forgetting_terms import Removed
from service.memory.forgetting.plan import Change, Plan
from service.memory.journal.kept_words import kept
from service.memory.journal.run_loop_table import project

_OF_RUN_LOOP = {
    "events": "DELETE FROM events WHERE run_loop_id = ?",
    "run_loops": "DELETE FROM run_loops WHERE id = ?",
    "usage": "DELETE FROM usage WHERE run_loop_id = ?",
    # The idempotency key and the hash of a message tell of its words.
    "messages": "DELETE FROM inbox WHERE run_loop_id = ?",
    "approvals": "DELETE FROM standing_approvals WHERE run_loop_id = ?",
}


def remove(db: sqlite3.Connection, plan: Plan, unreadable_messages: Iterable[str]) -> Removed:
    """Within a transaction: carry a plan out.

    Args:
        db: the journal's writing connection.
        plan: made from the journal as it is now.
        unreadable_messages: ids of messages in the inbox that nobody can read.

    Returns:
        What has gone; of long-term memory nothing yet.
    """
    gone = dict.fromkeys(_OF_RUN_LOOP, 0)
    for run_loop_id in plan.whole:
        for name, statement in _OF_RUN_LOOP.items():
            gone[name] += db.execute(statement, (run_loop_id,)).rowcount
    for run_loop_id, change in plan.changes.items():
        messages, approvals = _rewrite(db, plan.owner, run_loop_id, change)
        gone["messages"] += messages
        gone["approvals"] += approvals
    if plan.selection.everything:
        for message_id in unreadable_messages:
            gone["messages"] += db.execute(
                "DELETE FROM inbox WHERE message_id = ? AND owner = ?", (message_id, plan.owner)
            ).rowcount
        gone["approvals"] += db.execute(
            "DELETE FROM standing_approvals WHERE owner = ?", (plan.owner,)
        ).rowcount
    return Removed(
        events=gone["events"],
        rewritten=sum(len(each.bodies) - len(each.rendered) for each in plan.changes.values()),
        messages=gone["messages"],
        usage=gone["usage"],
        approvals=gone["approvals"],
    )


def _rewrite(
    db: sqlite3.Connection, owner: str, run_loop_id: str, change: Change
) -> tuple[int, int]:
    """Let a loop's events be without words; how many messages and approvals went."""
    db.executemany(
        "UPDATE events SET body = ? WHERE seq = ? AND run_loop_id = ?",
        [
            (kept(body, change.told.get(seq, ())), seq, run_loop_id)
            for seq, body in change.bodies.items()
            if seq not in change.rendered
        ],
    )
    project(db, change.after)
    messages = sum(
        db.execute(
            "DELETE FROM inbox WHERE message_id = ? AND run_loop_id = ?", (message_id, run_loop_id)
        ).rowcount
        for message_id in change.message_ids
    )
    approvals = sum(
        db.execute(
            "DELETE FROM standing_approvals WHERE owner = ? AND scope = ? AND run_loop_id = ?",
            (owner, scope, run_loop_id),
        ).rowcount
        for scope in change.approvals
    )
    return messages, approvals
