"""What became of one message: the fold of the events that followed it.

Nothing here is shown; `turn_view` shows it, and ``--json`` prints `Turn.as_json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from service.cli.wire import DELIVERED, Accepted, Json, SeenEvent, delivered_part
from service.domain.errors import Problem
from service.domain.events import (
    ErrorOccurred,
    InputReceived,
    InputRequired,
    IterationStarted,
    MemoryRecalled,
    MessageCompleted,
    MessageMoved,
    Recollection,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
)
from service.domain.own_part import OwnPart
from service.domain.routes import Route
from service.domain.spoken import Spoken

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
    """A message and what has become of it so far; or a run loop that is followed without one."""

    part: OwnPart | None = None
    """How far the message has come; None before it was accepted, and where there is none."""
    run_loop_id: str = ""
    """Empty until the message was routed."""
    route: Route | None = None
    spoken: Spoken = field(default_factory=Spoken)
    """What the assistant said last to the message; what it said before was said to others."""
    outcome: Outcome = "open"
    request: InputRequired | None = None
    """What a person is asked, while the outcome is ``waiting``."""
    problem: Problem | None = None
    last_seq: int = 0
    events: int = 0
    """How many journaled events came."""
    recalled: int = 0
    """How many pieces of long-term memory were put before the model."""
    remembered: tuple[Recollection, ...] = ()
    """Those of them that seem to answer it."""
    parts: dict[str, Json] = field(default_factory=dict)
    """Where the other parts of the message went, where it was taken apart; by their messages."""

    @property
    def message_id(self) -> str:
        """Empty before the message was accepted, and where there is none."""
        return "" if self.part is None else self.part.message_id

    @property
    def response(self) -> str:
        """The words of the answer, all parts of it; empty while there are none."""
        return self.spoken.text

    @property
    def landed(self) -> bool:
        """Whether what the loop does now is done for the message too."""
        return self.part is None or self.part.landed

    @property
    def over(self) -> bool:
        """Whether the message was answered, and the loop has turned to another one."""
        return self.part is not None and self.part.over

    def apply(self, item: Accepted | SeenEvent) -> None:
        """Take in what came."""
        if isinstance(item, Accepted):
            self.part = OwnPart(item.message_id)
            return
        if item.type == DELIVERED:
            part = delivered_part(item)
            self.parts[str(part["message_id"])] = part
            return
        if self.part is not None and item.body is not None:
            self.part.add(item.body)
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
                told = (each for each in recollections if each.answers)
                self.remembered = (*self.remembered, *told)
            case IterationStarted() as started:
                self.spoken.begin(started)
                if not self.landed:
                    self.recalled, self.remembered = 0, ()  # it was for others
                elif self.over:
                    self.outcome = "answered"
            case MessageMoved(message_ids=ids) if self.message_id in ids:
                self.spoken, self.recalled, self.remembered = Spoken(), 0, ()  # told again there
            case MessageCompleted(cut=False) as completed if self.landed and not self.over:
                self.spoken.say(completed)
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
            "finish_reason": self.spoken.finish_reason,
            "route": self.route.model_dump(mode="json") if self.route else None,
            "request": self.request.model_dump(mode="json") if self.request else None,
            "problem": self.problem.model_dump(mode="json") if self.problem else None,
            "interrupted_by": self.part.interrupted_by if self.part else None,
            "recalled": self.recalled,
            "remembered": [
                {
                    "anchor": each.anchor.text,
                    "content": each.content,
                    "timestamp": each.anchor.timestamp.isoformat(),
                }
                for each in self.remembered
            ],
            "events": self.events,
            "parts": list(self.parts.values()),
        }
