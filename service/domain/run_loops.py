"""Run loops as people see them: a goal and what was observed, thought, done and said.

These are also the lines of the exchange format (one `RunLoop` a line).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from service.domain.conversation.messages import FinishReason, ToolCall, ToolResult
from service.domain.json_values import Metadata

Status = Literal["running", "waiting_for_human_input", "idle", "completed", "failed", "cancelled"]
ACTIVE: frozenset[Status] = frozenset(("running", "waiting_for_human_input", "idle"))
"""The statuses of a run loop that a message can still join."""
RESUMABLE: frozenset[Status] = frozenset(("cancelled", "failed"))
"""The statuses of a run loop that has ended before it was done, and can be taken up again."""

DEFAULT_MODEL_NAME = "default"
"""What the model is called that answers where a message names none."""
SendMode = Literal["steer", "followup", "interrupt"]
"""How a message joins a loop that is at work: seen at its next step, after its answer, or at once,
in place of what it is doing."""

Timestamp = Annotated[
    datetime,
    PlainSerializer(
        lambda at: at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        return_type=str,
        when_used="json",
    ),
]
"""A moment with its time zone; ISO 8601 in JSON."""


def epoch(moment: datetime) -> float:
    """Seconds since 1970; a moment without a time zone is taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class Iteration(BaseModel):
    """One turn of the loop: observe, think, act, say."""

    model_config = ConfigDict(frozen=True)

    user_message: str | None = None
    """What was observed: the words of the messages that came in since the iteration before."""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    response: str | None = None
    finish_reason: FinishReason | None = Field(default=None, exclude_if=lambda value: value is None)
    """Why the response is not whole. Where the tokens were used up the next iteration may go on
    with it: its response then is the next part, to be put right behind this one."""
    response_id: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Under which the model's provider knows what it answered."""
    timestamp: Timestamp
    metadata: Metadata = Field(default_factory=dict, exclude_if=lambda value: not value)
    """What was sent along with the messages that this iteration observed, or, where it observed
    none, the one before it. Not written where there is none."""
    forgotten: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether its words were forgotten: marks stand in their places, and give no segments."""
    moved_to: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """The run loop to which a person moved it: nothing of it is here any more but its place."""


class RunLoop(BaseModel):
    """One task, from its goal to its end."""

    model_config = ConfigDict(frozen=True)

    id: str
    owner: str = "me"
    goal: str
    """The words that opened the loop."""
    status: Status
    iterations: tuple[Iteration, ...] = ()
    created_at: Timestamp
    completed_at: Timestamp | None = None
    predecessor_id: str | None = None
    """The finished loop that this one takes up again, or the one that it was forked from."""

    @property
    def is_active(self) -> bool:
        """Whether a message can still join."""
        return self.status in ACTIVE

    def summary(self) -> RunLoopSummary:
        """The loop without its words."""
        moments = [iteration.timestamp for iteration in self.iterations]
        moments += [moment for moment in (self.created_at, self.completed_at) if moment]
        return RunLoopSummary(
            id=self.id,
            owner=self.owner,
            goal=self.goal,
            status=self.status,
            created_at=self.created_at,
            updated_at=max(moments, key=epoch),
            completed_at=self.completed_at,
            predecessor_id=self.predecessor_id,
            iteration_count=len(self.iterations),
        )


class RunLoopSummary(BaseModel):
    """A run loop in a list: all but its words."""

    model_config = ConfigDict(frozen=True)

    id: str
    owner: str
    goal: str
    status: Status
    created_at: Timestamp
    updated_at: Timestamp
    completed_at: Timestamp | None = None
    predecessor_id: str | None = None
    iteration_count: int = 0
