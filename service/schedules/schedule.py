"""What is kept of a schedule, and of each time that it was due."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from service.schedules.recurrence import Timing

ScheduleKind = Literal["reminder", "task"]
"""``reminder``: its words are told to the person; ``task``: they are a message of theirs."""
ScheduleState = Literal["active", "paused", "ended"]
OccurrenceState = Literal["pending", "ran", "skipped"]
OccurrenceReason = Literal["late", "missed", "paused", "by_hand"]
"""Of one that ran: ``late``, as nobody was there when it was due; ``by_hand``, as a person wished.
Of one that was skipped: ``missed``, as nobody was there; ``paused``."""

LONGEST_WHAT = 2_000
"""How long the words of a schedule may be, in characters."""
MOST_SCHEDULES = 500
"""How many that have not ended an owner may have."""
SCHEDULED = "schedule"
"""Under this name the metadata of a message tells of which schedule, and of which time, it is."""


def is_task(metadata: Mapping[str, object]) -> bool:
    """Whether a message with this metadata is a task that a schedule sent.

    A client can send the same: so it may take rights away, and never give any.
    """
    return _about(metadata).get("kind") == "task"


def is_telling(metadata: Mapping[str, object]) -> bool:
    """Whether what answers a message with this metadata are words of Rondo's own: a reminder, or
    that something was missed."""
    return _about(metadata).get("kind") in ("reminder", "missed")


def is_told_again(metadata: Mapping[str, object]) -> bool:
    """Whether the words of such a message come again and again, and say nothing new."""
    return is_telling(metadata) and _about(metadata).get("recurs") is True


def _about(metadata: Mapping[str, object]) -> Mapping[str, object]:
    about = metadata.get(SCHEDULED)
    return about if isinstance(about, Mapping) else {}


def stands_in_arguments(what: str, arguments: str) -> bool:
    """Whether a text stands in arguments of a tool, where it is written as JSON, in one of two
    ways.

    >>> stands_in_arguments("给妈妈", '{"what": "给妈妈打电话"}'), stands_in_arguments('"', "{}")
    (True, False)
    """
    forms = (json.dumps(what)[1:-1], json.dumps(what, ensure_ascii=False)[1:-1])
    return any(form in arguments for form in forms)


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is to be told or done, and when."""

    id: str
    owner: str
    kind: ScheduleKind
    what: str
    timing: Timing
    created_at: datetime
    state: ScheduleState = "active"
    run_loop_id: str | None = None
    """The run loop in which it was made; None: by its owner, outside of any."""
    grants: tuple[str, ...] = ()
    """What a task may do unasked, as scopes of `service.tools.approval.ApprovalPolicy`."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A time at which a schedule was due, and what has become of it."""

    schedule_id: str
    due: datetime
    state: OccurrenceState
    reason: OccurrenceReason | None = None
    decided_at: datetime | None = None
    """When it ran or was skipped; None while it is pending."""
    run_loop_id: str | None = None
    """The run loop that it opened."""
    through: datetime | None = None
    """Where it stands for several that were skipped, one after another: the last of them."""
    count: int = 1
    """For how many it stands."""
    seen: bool = False
    """Whether a client was told of the run loop."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What has become of all times of a schedule up to now, to be written in one transaction."""

    schedule_id: str
    pending: datetime | None
    """The time that was pending: written only if it still is. None: whichever is, stays."""
    occurrences: tuple[Occurrence, ...]
    next_due: datetime | None
    """The time that is pending from now on; None: there is none, and the schedule has ended."""
    while_paused: bool = False
    """Whether it is paused, and not active; else it is not written."""
