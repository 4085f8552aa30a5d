"""What became of a message, gathered from the events that followed it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from service.domain.errors import Problem
from service.domain.events import (
    ErrorOccurred,
    Event,
    InputRequired,
    IterationStarted,
    MessageCompleted,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
)
from service.domain.routes import Route
from service.domain.run_loops import Status


@dataclass(slots=True)
class Outcome:
    """Takes a message's events in order; empty until they have come."""

    message_id: str
    run_loop_id: str | None = None
    route: Route | None = None
    iterations: range = range(0)
    """Which iterations of the loop have worked on it."""
    response: str | None = None
    """The words of the answer: of the last message that has any."""
    status: Status | None = None
    """Of the loop, when it came to rest, ended, or asked."""
    input_required: InputRequired | None = None
    problem: Problem | None = None
    """Why there is no answer."""

    async def gather(self, events: AsyncGenerator[Event, None]) -> None:
        """Take all events."""
        async with aclosing(events):
            async for event in events:
                self.add(event)

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.run_loop_id = event.run_loop_id or self.run_loop_id
        match event.body:
            case RouteDecided(message_id=self.message_id, route=route):
                self.route = route
            case IterationStarted(index=index):
                first = self.iterations.start if self.iterations else index
                self.iterations = range(first, index + 1)
            case MessageCompleted(message=message):
                self.response = message.text or self.response
            case InputRequired() as request:
                self.status, self.input_required = "waiting_for_human_input", request
            case RunLoopIdle():
                self.status = "idle"
            case RunLoopCompleted():
                self.status = "completed"
            case RunLoopFailed(problem=problem):
                self.status, self.problem = "failed", problem
            case RunLoopCancelled(reason=reason):
                self.status = "cancelled"
                self.problem = Problem(
                    kind="conflict",
                    title="The run loop was cancelled before it had answered",
                    detail=reason,
                    advice="Send a message with its id to take the matter up again.",
                )
            case ErrorOccurred(problem=problem) if event.seq is None:
                self.problem = problem
            case _:
                pass
