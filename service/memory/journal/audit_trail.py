"""The audit trail, read from the events that run loops leave: nothing is written for it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from service.domain.audit import AuditPage


class AuditTrail(Protocol):
    """Tells what tools have done."""

    async def page(
        self,
        *,
        owner: str,
        since: datetime | None = None,
        until: datetime | None = None,
        tool: str | None = None,
        run_loop_id: str | None = None,
        with_read_only: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> AuditPage:
        """An owner's tool calls, newest first. Of copies in forks nothing is told: they never ran.

        Args:
            owner: whose.
            since: begun at or after.
            until: begun before.
            tool: only of this one.
            run_loop_id: only in this one.
            with_read_only: also those of tools that say that they only read.
            cursor: where a page before has ended.
            limit: at most so many.

        Raises:
            InvalidInputError: the cursor is none.
            StorageError: the file cannot be read.
        """
        ...
