"""What became of a message: the one fold of the events that follow it, for whoever shows them.

What its loop said before the message landed was said to others, and so is what it says after it has
turned to the next one.

>>> from service.domain.conversation.messages import Message
>>> outcome = MessageOutcome(OwnPart("m2"))
>>> for body in (
...     MessageCompleted(message=Message.assistant("Yes, m1.")),
...     IterationStarted(index=1, message_ids=("m2",)),
...     MessageCompleted(message=Message.assistant("Yes, m2.")),
...     RunLoopIdle(),
... ):
...     outcome.add(body, run_loop_id="r")
>>> outcome.outcome, outcome.response, outcome.iterations
('answered', 'Yes, m2.', range(1, 2))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from service.domain.conversation.messages import FinishReason
from service.domain.errors import Problem
from service.domain.history.events import (
    ErrorOccurred,
    EventBody,
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
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.own_part import OwnPart
from service.domain.routes import Route
from service.domain.run_loops import Status

OutcomeKind = Literal["open", "answered", "waiting", "cancelled", "failed"]


@dataclass(slots=True)
class Spoken:
    """The words of the last answer, its parts joined: one that was cut off is gone on with.

    >>> from service.domain.conversation.messages import Message
    >>> answer = Spoken()
    >>> for continues, text, reason in ((False, "Hel", "length"), (True, "lo!", None)):
    ...     answer.begin(IterationStarted(index=0, continues=continues))
    ...     answer.say(MessageCompleted(message=Message.assistant(text), finish_reason=reason))
    ...     print(answer.text, answer.finish_reason)
    Hel length
    Hello! None
    """

    text: str = ""
    finish_reason: FinishReason | None = None
    """Why it is not whole; None: it is."""
    _goes_on: bool = False

    def begin(self, started: IterationStarted) -> None:
        """The model is asked: for something new, or to go on."""
        self._goes_on = started.continues

    def say(self, completed: MessageCompleted) -> None:
        """It has spoken; what has no words changes nothing."""
        text = completed.message.text
        if not text:
            return
        self.text = self.text + text if self._goes_on else text
        self.finish_reason = completed.finish_reason


@dataclass(slots=True)
class MessageOutcome:
    """Takes the events from where a message came in; or those of a loop followed without one."""

    part: OwnPart | None = None
    """How far the message has come; None where there is none, or it is not accepted yet."""
    run_loop_id: str = ""
    """Empty until the message was routed."""
    last_seq: int = 0
    route: Route | None = None
    iterations: range = range(0)
    """Which iterations of the loop have worked on it."""
    spoken: Spoken = field(default_factory=Spoken)
    """The words of the answer: of the last message that has any, with all its parts."""
    outcome: OutcomeKind = "open"
    status: Status | None = None
    """Of the loop, when it had answered, ended, or asked."""
    request: InputRequired | None = None
    """What a person is asked, and has not answered."""
    problem: Problem | None = None
    """Why it failed, or cannot be worked on at present."""
    cancelled: str | None = None
    """Why the loop was cancelled; None: it was not."""
    warnings: tuple[Problem, ...] = ()
    """What went wrong meanwhile, and kept nobody from answering."""
    recalled: int = 0
    """How many pieces of long-term memory were put before the model."""
    remembered: tuple[Recollection, ...] = ()
    """Those of them that seem to answer it."""

    @property
    def message_id(self) -> str:
        """Empty where there is no message, or it is not accepted yet."""
        return "" if self.part is None else self.part.message_id

    @property
    def response(self) -> str:
        """The words of the answer; empty while there are none."""
        return self.spoken.text

    @property
    def landed(self) -> bool:
        """Whether what the loop does now is done for the message, or has been."""
        return self.part is None or self.part.landed

    @property
    def over(self) -> bool:
        """Whether the message was answered, and the loop has turned to another one."""
        return self.part is not None and self.part.over

    def add(self, body: EventBody | None, *, run_loop_id: str, seq: int | None = None) -> None:
        """Take the next event; None for the body of one that this version does not know."""
        self.run_loop_id = run_loop_id or self.run_loop_id
        self.last_seq = seq or self.last_seq
        if body is None:
            return
        if self.part is not None:
            self.part.add(body)
        self._take_words(body)
        self._take_end(body, passing=seq is None)

    def _take_words(self, body: EventBody) -> None:
        """What was said, and what for."""
        going_on = self.landed and not self.over
        match body:
            case RouteDecided(message_id=message_id, route=route):
                if message_id == self.message_id:
                    self.route = route
            case MemoryRecalled(recollections=pieces) if not self.over:
                self.recalled += len(pieces)
                self.remembered += tuple(each for each in pieces if each.answers)
            case IterationStarted() if not self.landed:
                self.recalled, self.remembered = 0, ()  # it was for others
            case IterationStarted(index=index) as started if going_on:
                self.spoken.begin(started)
                first = self.iterations.start if self.iterations else index
                self.iterations = range(first, index + 1)
            case MessageCompleted(cut=False) as completed if going_on:
                self.spoken.say(completed)
            case MessageMoved(message_ids=ids) if self.message_id in ids:
                # The next loop tells it again.
                self.iterations, self.spoken = range(0), Spoken()
                self.recalled, self.remembered = 0, ()
            case LLMFallback(model=model, fallback=fallback, problem=problem) if going_on:
                title = f"The model {fallback} was asked instead of {model}: {problem.title}"
                warning = problem.model_copy(update={"kind": "llm-fallback", "title": title})
                self.warnings = (*self.warnings, warning)
            case _:
                pass

    def _take_end(self, body: EventBody, *, passing: bool) -> None:
        """Where it stands. `passing`: the event is not in the journal."""
        match body:
            case IterationStarted() if self.over:
                self._stand("answered", "running")  # the loop is at work for somebody else
            case InputRequired() as request:
                self._stand("waiting", "waiting_for_human_input", request)
            case InputReceived():
                self._stand("open", None)
            case RunLoopIdle():
                self._stand("answered", "idle")
            case RunLoopCompleted():
                self._stand("answered", "completed")
            case RunLoopFailed(problem=problem):
                self._stand("failed", "failed")
                self.problem = problem
            case RunLoopCancelled(reason=reason):
                self._stand("cancelled", "cancelled")
                self.cancelled = reason
            case ErrorOccurred(problem=problem) if passing:
                self._stand("failed", self.status)
                self.problem = problem
            case ErrorOccurred(problem=problem) if self.landed and not self.over:
                self.warnings = (*self.warnings, problem)
            case _:
                pass

    def _stand(
        self, outcome: OutcomeKind, status: Status | None, request: InputRequired | None = None
    ) -> None:
        self.outcome, self.status, self.request = outcome, status, request
