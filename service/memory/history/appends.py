"""What is to be written to the journal, and what was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.domain.events import Event, EventBody
from service.domain.state import RunLoopState
from service.memory.history.standing_approvals import StandingApproval


@dataclass(frozen=True, slots=True)
class Commit:
    """What an append wrote, and the state that it led to."""

    events: tuple[Event, ...]
    state: RunLoopState
    copied: bool = False
    """Whether the events are a fork's beginning: of these only the first happened just now."""

    @property
    def news(self) -> tuple[Event, ...]:
        """The events that happened just now, and did not only come along from another loop."""
        return self.events[:1] if self.copied else self.events


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
    rewrites: int | None = None
    """How many loops had been rewritten when what is written was read: write only if none has been
    since. None: whatever was."""
    redelivering: Sequence[str] = ()
    """Messages that were delivered before, to another loop, and are in this one now."""
    to_archive: bool = False
    """Whether memory may hold more of the loop than there is now: it is archived anew, also after a
    crash."""
