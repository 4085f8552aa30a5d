"""What became of one message: the fold of the events that followed it.

Nothing here is shown; `turn_view` shows it, and ``--json`` prints `Turn.as_json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from service.cli.client import Accepted, SeenEvent
from service.domain.errors import Problem
from service.domain.events import (
    ErrorOccurred,
    InputReceived,
    InputRequired,
    MemoryRecalled,
    MessageCompleted,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
)
from service.domain.routes import Route

Outcome = Literal["open", "answered", "waiting", "cancelled", "failed"]
EXIT_CODES: dict[Outcome, int] = {
    "answered": 0,
    "open": 1,
    "failed": 1,
    "cancelled": 1,
    "waiting": 3,
}


@dataclass(slots=True)
class Turn:
    """A message and what has become of it so far."""

    message_id: str = ""
    run_loop_id: str = ""
    """Empty until the message was routed."""
    route: Route | None = None
    response: str = ""
    """The assistant's last words."""
    outcome: Outcome = "open"
    request: InputRequired | None = None
    """What a person is asked, while the outcome is ``waiting``."""
    problem: Problem | None = None
    last_seq: int = 0
    events: int = 0
    """How many journaled events came."""
    recalled: int = 0
    """How many pieces of long-term memory were put before the model."""

    def apply(self, item: Accepted | SeenEvent) -> None:
        """Take in what came."""
        if isinstance(item, Accepted):
            self.message_id = item.message_id
            return
        self.run_loop_id = item.run_loop_id or self.run_loop_id
        if item.seq is not None:
            self.last_seq = item.seq
            self.events += 1
        match item.body:
            case RouteDecided(message_id=message_id, route=route):
                if message_id == self.message_id:
                    self.route = route
            case MemoryRecalled(recollections=recollections):
                self.recalled += len(recollections)
            case MessageCompleted(message=message):
                self.response = message.text or self.response
            case InputRequired() as request:
                self.outcome, self.request = "waiting", request
            case InputReceived():
                self.outcome, self.request = "open", None
            case RunLoopIdle() | RunLoopCompleted():
                self.outcome = "answered"
            case RunLoopCancelled():
                self.outcome = "cancelled"
            case RunLoopFailed(problem=problem):
                self.outcome, self.problem = "failed", problem
            case ErrorOccurred(problem=problem) if item.seq is None:
                self.outcome, self.problem = "failed", problem
            case _:
                pass

    @property
    def exit_code(self) -> int:
        """The exit code that tells the outcome."""
        return EXIT_CODES[self.outcome]

    def as_json(self) -> dict[str, JsonValue]:
        """The turn as one JSON object."""
        return {
            "run_loop_id": self.run_loop_id,
            "message_id": self.message_id,
            "outcome": self.outcome,
            "response": self.response,
            "route": self.route.model_dump(mode="json") if self.route else None,
            "request": self.request.model_dump(mode="json") if self.request else None,
            "problem": self.problem.model_dump(mode="json") if self.problem else None,
            "recalled": self.recalled,
            "events": self.events,
        }
