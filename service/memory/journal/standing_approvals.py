"""Standing approvals: what a person has allowed for good, until they take it back.

One is written in the very transaction that writes the answer by which it was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StandingApproval:
    """A yes that holds for good."""

    owner: str
    scope: str
    """What it covers, see `service.tools.approval.ApprovalPolicy.scope`."""
    tool: str
    granted_at: datetime
    run_loop_id: str
    """Where it was given."""


class StandingApprovals(Protocol):
    """What persons have allowed. Reading them asks no file; for the event loop's thread."""

    def of(self, owner: str) -> tuple[StandingApproval, ...]:
        """What an owner has allowed, newest first."""
        ...

    def scopes(self, owner: str) -> frozenset[str]:
        """The scopes of what an owner has allowed."""
        ...

    async def revoke(self, scope: str, *, owner: str) -> StandingApproval:
        """Take an approval back: from now on a person is asked again.

        Raises:
            NotFoundError: this owner has not given it.
            StorageError: the disk refuses; it still holds.
        """
        ...
