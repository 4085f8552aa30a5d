"""How consolidation works, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class ConsolidationOptions:
    """When the model writes notes on what was said."""

    idle_seconds: float = 300
    """How long nothing may have been going on before."""
    max_tokens_per_day: int = 50_000
    """What it may use in a day, for all owners together."""
    min_new_segments: int = 10
    """How much must be new before it begins."""
    first_pause: float = 60
    """Seconds before a failed step is tried again; doubles each time it fails."""


State = Literal["waiting", "writing", "used up", "failing"]
"""``waiting``: for idle time, or for something new; ``used up``: the day's tokens are; ``failing``:
the model cannot be asked, or answers otherwise than it was asked to."""


@dataclass(frozen=True, slots=True)
class ConsolidationStatus:
    """How consolidation gets on. The counts are of this process."""

    state: State
    tokens_today: int
    max_tokens_per_day: int
    sentences_written: int
    sentences_dropped: Mapping[str, int]
    """By reason: what the model wrote and could not show to be true."""
    passages_set_aside: int
    """Segments to which the model gives no usable answer; tried again at the next start."""
    last_written_at: datetime | None
    problem: str | None
    """Why it does not go on, in words."""
