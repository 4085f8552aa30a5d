"""What became of a message, gathered from the events that followed it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from service.domain.errors import Problem
from service.domain.events import (
    ErrorOccurred,
    Event,
    InputReceived,
    InputRequired,
    IterationStarted,
    MessageCompleted,
    MessageMoved,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
)
from service.domain.own_part import OwnPart
from service.domain.routes import Route
from service.domain.run_loops import Status


@dataclass(slots=True)
class Outcome:
    """Takes the events from where a message came in; empty until they have come.

    What its loop said before the message landed was said to others, and so is what it says after
    it has turned to the next one.
    """

    message_id: str
    run_loop_id: str | None = None
    route: Route | None = None
    iterations: range = range(0)
    """Which iterations of the loop have worked on it."""
    response: str | None = None
    """The words of the answer: of the last message that has any."""
    status: Status | None = None
    """Of the loop, when it had answered, ended, or asked."""
    input_required: InputRequired | None = None
    problem: Problem | None = None
    """Why there is no answer."""
    part: OwnPart = field(init=False)

    def __post_init__(self) -> None:
        self.part = OwnPart(self.message_id)

    async def gather(self, events: AsyncGenerator[Event, None]) -> None:
        """Take all events, up to the one that shows that the message has had its answer."""
        async with aclosing(events):
            async for event in events:
                self.add(event)
                if self.part.over:
                    self.status = "running"  # for somebody else
                    return

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.run_loop_id = event.run_loop_id or self.run_loop_id
        self.part.add(event.body)
        match event.body:
            case RouteDecided(message_id=self.message_id, route=route):
                self.route = route
            case IterationStarted(index=index) if self.part.going_on:
                first = self.iterations.start if self.iterations else index
                self.iterations = range(first, index + 1)
            case MessageCompleted(message=message, cut=False) if self.part.going_on:
                self.response = message.text or self.response
            case MessageMoved(message_ids=ids) if self.message_id in ids:
                self.iterations, self.response = range(0), None  # the next loop tells it again
            case InputRequired() as request:
                self.status, self.input_required = "waiting_for_human_input", request
            case InputReceived():
                self.status, self.input_required = None, None
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
                    advice="Resume it, or send a message with its id: it goes on where it stopped.",
                )
            case ErrorOccurred(problem=problem) if event.seq is None:
                self.problem = problem
            case _:
                pass
