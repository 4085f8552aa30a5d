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
    LLMFallback,
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
from service.domain.run_loops import Status
from service.domain.spoken import Spoken


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
    spoken: Spoken = field(default_factory=Spoken)
    """The words of the answer: of the last message that has any, with all its parts."""
    status: Status | None = None
    """Of the loop, when it had answered, ended, or asked."""
    input_required: InputRequired | None = None
    problem: Problem | None = None
    """Why there is no answer."""
    warnings: tuple[Problem, ...] = ()
    """What went wrong meanwhile, and kept nobody from answering."""
    remembered: tuple[Recollection, ...] = ()
    """What of memory seems to answer it."""
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
            case MemoryRecalled(recollections=pieces) if not self.part.over:
                self.remembered += tuple(each for each in pieces if each.answers)
            case IterationStarted() if not self.part.landed:
                self.remembered = ()  # it was for others
            case RouteDecided(message_id=self.message_id, route=route):
                self.route = route
            case IterationStarted(index=index) as started if self.part.going_on:
                self.spoken.begin(started)
                first = self.iterations.start if self.iterations else index
                self.iterations = range(first, index + 1)
            case MessageCompleted(cut=False) as completed if self.part.going_on:
                self.spoken.say(completed)
            case MessageMoved(message_ids=ids) if self.message_id in ids:
                # The next loop tells it again.
                self.iterations, self.spoken, self.remembered = range(0), Spoken(), ()
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
            case ErrorOccurred(problem=problem) if self.part.going_on:
                self.warnings = (*self.warnings, problem)
            case LLMFallback(model=model, fallback=fallback, problem=problem):
                if self.part.going_on:
                    title = f"The model {fallback} was asked instead of {model}: {problem.title}"
                    told = problem.model_copy(update={"kind": "llm-fallback", "title": title})
                    self.warnings = (*self.warnings, told)
            case _:
                pass
