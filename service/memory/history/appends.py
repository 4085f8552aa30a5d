"""What is to be written to the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.domain.events import EventBody
from service.domain.state import RunLoopState
from service.memory.history.standing_approvals import StandingApproval


@dataclass(frozen=True, slots=True)
class Append:
    """Events that somebody wants to be written to one loop."""

    run_loop_id: str
    bodies: Sequence[EventBody]
    owner: str | None = None
    """Of a new loop."""
    if_last_seq: int | None = None
    """Write only if the loop's last event is still this one."""
    delivering: str | None = None
    """The inbox message that these events put into the loop."""
    ended: RunLoopState | None = None
    """For a loop that has ended: as it is."""
    moments: Sequence[datetime] | None = None
    """When each thing happened; None: now."""
    copied: bool = False
    """Whether the events are a fork's beginning."""
    granting: Sequence[StandingApproval] = ()
    read_at: int | None = None
    """The `Journal.lost_words_at` when what is written was read: write only if no words have been
    forgotten since. None: whatever was."""
    redelivering: Sequence[str] = ()
    """Messages that were delivered before, to another loop, and are in this one now."""
