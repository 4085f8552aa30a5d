"""A run loop in so few words that all loops of two files can be compared."""

from __future__ import annotations

from typing import NamedTuple


class Outline(NamedTuple):
    """How far a run loop has come. The journal's and the ledger's are equal when both are in step.

    Ids and counts alone would not do: a loop can be taken up again and fail where it failed before.
    """

    owner: str
    id: str
    status: str
    iterations: int
    ended_at: int | None
    """Milliseconds since the epoch; None while it is open."""

    @property
    def key(self) -> tuple[str, str]:
        """Owner and id."""
        return (self.owner, self.id)
