"""Routes: which run loop a message belongs to, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

RouteMethod = Literal["explicit", "embedding", "llm", "fallback"]


class RouteCandidate(BaseModel):
    """A run loop that was considered, and how well the message fits it."""

    model_config = ConfigDict(frozen=True)

    run_loop_id: str
    goal: str
    score: float


class Route(BaseModel):
    """The decision for one message."""

    model_config = ConfigDict(frozen=True)

    decision: Literal["join", "new"]
    run_loop_id: str | None = None
    """The loop to join; None for a new one."""
    predecessor_id: str | None = None
    """For a new loop: the finished loop that it takes up again."""
    confidence: float = Field(ge=0, le=1)
    method: RouteMethod
    reason: str
    """Why, in words."""
    candidates: tuple[RouteCandidate, ...] = ()
