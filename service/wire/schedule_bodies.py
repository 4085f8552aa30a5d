"""Reminders and schedules: one to add, a list, what became of each time, what is to be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.domain.run_loops import Status, Timestamp

ScheduleKind = Literal["reminder", "task"]


class NewSchedule(BaseModel):
    """What is to be told or done, and when."""

    model_config = ConfigDict(extra="forbid")

    what: Annotated[str, Field(max_length=2_000)]
    """For a reminder what is told then; for a task the message that is sent then in your name."""
    when: Annotated[str, Field(min_length=1, max_length=200)]
    """In words, English or Chinese, or a date and time of ISO 8601."""
    kind: ScheduleKind = "reminder"
    zone: str | None = None
    """The IANA name of the time zone that is meant; None: the daemon's."""
    allow: Annotated[list[str], Field(max_length=50)] = []
    """What a task may do without a yes: names of tools, or scopes as `/v1/approvals` lists them."""


class ScheduleLine(BaseModel):
    """A schedule."""

    id: str
    kind: ScheduleKind
    what: str
    when: str
    """As it was understood, in words."""
    zone: str
    state: Literal["active", "paused", "ended"]
    next: list[Timestamp]
    """Its next times, at most three."""
    created_at: Timestamp
    run_loop_id: str | None
    """The run loop in which it was set; None: by you, outside of any."""
    allow: list[str]


class ScheduleList(BaseModel):
    """All of an owner's, newest first."""

    schedules: list[ScheduleLine]


class OccurrenceLine(BaseModel):
    """What became of a time, or of several that were skipped one after another."""

    due: Timestamp
    state: Literal["pending", "ran", "skipped"]
    reason: Literal["late", "missed", "paused", "by_hand"] | None
    """``late``: told later, as nobody was there; ``missed``: nobody was there; ``by_hand``: you had
    it run."""
    decided_at: Timestamp | None
    run_loop_id: str | None
    """The run loop that it opened."""
    through: Timestamp | None
    """Of several the last."""
    count: int


class ScheduleDetails(ScheduleLine):
    """A schedule, and what became of its newest times."""

    occurrences: list[OccurrenceLine]
    """Newest first."""


class RanSchedule(BaseModel):
    """It runs now."""

    schedule_id: str
    run_loop_id: str


class DueNotice(BaseModel):
    """A run loop that a schedule has opened, of which no client has told its owner yet."""

    run_loop_id: str
    schedule_id: str
    kind: ScheduleKind
    what: str
    due: Timestamp
    status: Status
    text: str
    """What is to be told."""


class DueNotices(BaseModel):
    """Oldest first."""

    notices: list[DueNotice]


class SeenNotices(BaseModel):
    """What was told."""

    model_config = ConfigDict(extra="forbid")

    run_loop_ids: Annotated[list[str], Field(max_length=1_000)]
