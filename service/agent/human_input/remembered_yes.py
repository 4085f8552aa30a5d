"""Which calls a person has allowed before, and by which yes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from service.domain.conversation.messages import ToolCall
from service.domain.history.state import RunLoopState
from service.domain.history.tool_events import Grant
from service.memory.journal.protocol import Journal
from service.schedules.schedule import is_task


class RememberedYes:
    """What owners of run loops have said yes to for longer. Reads no files: for the brain."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def scopes(self, state: RunLoopState, call: ToolCall) -> frozenset[str]:
        """The scopes that count for a call, by its arguments, now.

        For a run loop that a schedule has opened: what was granted to that alone.
        """
        now = datetime.now(UTC)
        scopes = state.allowed | {
            rule.scope for rule in state.allowed_narrowly if rule.covers(call.arguments, now)
        }
        granted = self._journal.schedules.grants(state.id)
        if granted is not None or is_task(_opening_metadata(state)):
            return scopes | (granted or frozenset())
        standing = self._journal.standing_approvals
        narrowed = (each.rule for each in standing.narrowed(state.owner))
        covering = {rule.scope for rule in narrowed if rule.covers(call.arguments, now)}
        return scopes | standing.scopes(state.owner) | covering

    def grant(self, state: RunLoopState, call: ToolCall, about: str | None) -> Grant:
        """By which yes a call runs that one covers; the widest one.

        Args:
            state: of its run loop.
            call: as it runs.
            about: its scope.
        """
        now = datetime.now(UTC)
        if about in state.allowed:
            return Grant(kind="run_loop")
        for rule in state.allowed_narrowly:
            if rule.scope == about and rule.covers(call.arguments, now):
                return Grant(kind="run_loop", narrowed=rule.narrowing)
        standing = self._journal.standing_approvals
        if about not in standing.scopes(state.owner):
            for approval in standing.narrowed(state.owner):
                if approval.scope == about and approval.rule.covers(call.arguments, now):
                    return Grant(kind="always", narrowed=approval.rule.narrowing)
        return Grant(kind="always")


def _opening_metadata(state: RunLoopState) -> Mapping[str, object]:
    """What came along with the message that opened a loop."""
    if state.closed_iterations:
        return state.closed_iterations[0].metadata
    if state.iteration is not None:
        return state.iteration.metadata
    return state.unseen[0].metadata if state.unseen else {}
