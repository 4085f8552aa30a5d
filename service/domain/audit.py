"""The audit trail: what tools have done, who asked for it, by whose leave, and what came of it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.history.tool_events import Grant
from service.domain.run_loops import Timestamp

AuditOutcome = Literal["done", "failed", "unknown", "running"]
"""``unknown``: it was interrupted, and nobody knows whether it did its work."""


class AuditGrant(Grant):
    """By whose leave a call ran, and since when they had given it."""

    given_at: Timestamp | None = None
    """For ``asked``: when the person said yes."""
    rule: str | None = None
    """For ``run_loop`` and ``always``: what that yes covers, in words."""


class AuditEntry(BaseModel):
    """A tool call that has begun to run."""

    model_config = ConfigDict(frozen=True)

    seq: int
    """The number of the event that tells of it."""
    at: Timestamp
    run_loop_id: str
    goal: str
    """What that run loop is about."""
    message_ids: tuple[str, ...]
    """What a person had said that the model heard last before it made this call."""
    call_id: str
    tool: str
    arguments: str
    """JSON, as it ran with them."""
    about: str | None
    """What it ran, where that is narrower than the tool, such as a script with its hash."""
    effect: ToolEffect | None
    """None: older journals do not tell."""
    idempotency_key: str
    grant: AuditGrant | None
    """None: older journals do not tell."""
    outcome: AuditOutcome
    finished_at: Timestamp | None
    result: str | None
    """What the model was told: of an over-long result the beginning and the end."""


class AuditPage(BaseModel):
    """Some of an owner's calls, newest first."""

    model_config = ConfigDict(frozen=True)

    entries: tuple[AuditEntry, ...]
    next: str | None
    """Where the next page begins; None where there is none."""
