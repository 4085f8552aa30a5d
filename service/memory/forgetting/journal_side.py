"""Carries a plan out on the journal: one transaction over all that it holds."""

from __future__ import annotations

from collections.abc import Iterable

from service.domain.forgetting_terms import Removed
from service.memory.forgetting.plan import Plan
from service.memory.journal.rewriting import Rewriter


def remove(rewriter: Rewriter, plan: Plan, unreadable_messages: Iterable[str]) -> Removed:
    """Within a transaction: carry a plan out.

    Args:
        rewriter: of the journal.
        plan: made from the journal as it is now.
        unreadable_messages: ids of messages in the inbox that nobody can read.

    Returns:
        What has gone; of long-term memory nothing yet.
    """
    owner = plan.owner
    gone = [rewriter.remove_loop(each, owner=owner) for each in plan.whole]
    messages = sum(each.messages for each in gone)
    approvals = sum(each.approvals for each in gone)
    rewritten = 0
    for run_loop_id, change in plan.changes.items():
        bodies = {seq: b for seq, b in change.bodies.items() if seq not in change.rendered}
        rewriter.rewrite_loop(change.after, bodies, change.quotations)
        rewritten += len(bodies)
        messages += rewriter.remove_messages(
            change.message_ids, owner=owner, run_loop_id=run_loop_id
        )
        approvals += rewriter.remove_approvals(
            owner=owner, scopes=change.approvals, run_loop_id=run_loop_id
        )
    if plan.selection.everything:
        messages += rewriter.remove_messages(unreadable_messages, owner=owner)
        approvals += rewriter.remove_approvals(owner=owner)
    return Removed(
        events=sum(each.events for each in gone),
        rewritten=rewritten,
        messages=messages,
        usage=sum(each.usage for each in gone),
        approvals=approvals,
    )
