"""A run loop's state: all that is known of it after some event. `service.domain.fold` makes it.

Valid means that each tool call in `history` has exactly one result, except those in `pending`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from service.domain.errors import Problem
from service.domain.events import ForkPoint, InputReceived, InputRequired, Recollection
from service.domain.forgetting import FORGOTTEN
from service.domain.growing import Growing
from service.domain.messages import Message, ToolCall
from service.domain.run_loops import (
    ACTIVE,
    Iteration,
    RunLoop,
    RunLoopSummary,
    SendMode,
    Status,
)


@dataclass(frozen=True, slots=True)
class UnseenMessage:
    """A message that came in and waits for an iteration to observe it."""

    id: str
    message: Message
    mode: SendMode = "steer"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    """When it came in."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that has no result yet."""

    call: ToolCall
    started: bool = False
    """Whether the tool began to run: after a crash its outcome is in doubt."""
    idempotency_key: str | None = None
    """The one with which it began: run again, it is still the same call, in whichever loop."""
    approved: bool | None = None
    """A person's decision; None when none was made."""
    denial: str = ""
    """The reason of a denial, if one was given."""
    arguments: str | None = None
    """What a person wants it to run with, instead of the model's own."""
    answer: str | None = None
    """What a person answered, where the call asks one."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Pieces of long-term memory, and the message that they stand beside."""

    index: int
    """Of the message in the history."""
    pieces: tuple[Recollection, ...]


ToolOutcome = tuple[str, str, str]
"""Name, arguments and result of a call: when all three are the same again, nothing was gained."""


@dataclass(frozen=True)
class RunLoopState:
    """All that is known of a run loop."""

    id: str
    owner: str
    goal: str
    status: Status
    created_at: datetime
    updated_at: datetime
    last_seq: int
    predecessor_id: str | None = None
    forked_from: ForkPoint | None = None
    completed_at: datetime | None = None
    closed_iterations: Growing[Iteration] = field(default_factory=Growing)
    """All iterations but the last."""
    iteration: Iteration | None = None
    """The last one, to which things may still be added."""
    history: Growing[Message] = field(default_factory=Growing)
    """The conversation that the model sees, without the system prompt."""
    history_size: int = 0
    """Bytes of all messages in `history`, see `Message.size`."""
    unseen: tuple[UnseenMessage, ...] = ()
    """Messages that came in and wait for an iteration."""
    pending: tuple[PendingCall, ...] = ()
    awaiting: InputRequired | None = None
    goal_moved: bool = False
    """Whether the words of the goal are in another loop, and no others here: the next ones are."""
    last_answer: InputReceived | None = None
    """The newest answer that counted: the same one again changes nothing."""
    allowed: frozenset[str] = frozenset()
    """What a person has said yes to for as long as this loop lasts."""
    recalled: tuple[Recalled, ...] = ()
    cut: bool = False
    """Whether the assistant's last words are an answer that a person stopped."""
    thinking: bool = False
    """Whether the last iteration has started and its message is still to come."""
    iterations_since_user: int = 0
    """Iterations since a person last spoke: what `max_iterations` bounds."""
    enhanced: bool = False
    """Whether the model was asked once to better its answer."""
    failures: int = 0
    """Steps in a row, since a person last spoke, in which every tool call failed."""
    repetitions: int = 0
    """Steps in a row, up to the last, with the same calls and the same results."""
    last_outcomes: tuple[ToolOutcome, ...] = ()
    """Of the last step with tool calls."""
    cut_results: bool = False
    """Whether the model was shown only a part of some tool's result."""
    compacted: bool = False
    """Whether the history was compacted since the last answer of the model."""
    overflowed: bool = False
    """Whether the endpoint said that the conversation is too long."""
    measured_tokens: int = 0
    """How long the last call was, as the endpoint counted; 0: not known."""
    measured_size: int = 0
    """`history_size` when it was made."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost: float | None = None
    """What the loop has cost so far, in the currency of the configured prices."""
    problem: Problem | None = None
    """Why the loop failed."""

    @property
    def is_active(self) -> bool:
        """Whether a message can still join."""
        return self.status in ACTIVE

    @property
    def asks_where(self) -> bool:
        """Whether it waits for a person to say where its messages belong."""
        return self.awaiting is not None and self.awaiting.about == "route"

    @property
    def is_answered(self) -> bool:
        """Whether the assistant spoke last, and nothing is left to be done for what it has seen."""
        if self.thinking or self.pending or self.cut:
            return False
        return not self.history or self.history[-1].role == "assistant"

    @property
    def iterations(self) -> tuple[Iteration, ...]:
        """All iterations, in time for their number: see `iteration_count` for that alone."""
        return (*self.closed_iterations, *([self.iteration] if self.iteration else ()))

    @property
    def iteration_count(self) -> int:
        """How many iterations there were."""
        return len(self.closed_iterations) + (self.iteration is not None)

    @property
    def recollections(self) -> tuple[Recollection, ...]:
        """All pieces of long-term memory that the model was shown."""
        return tuple(piece for recalled in self.recalled for piece in recalled.pieces)

    def last_turns(self, count: int) -> list[Message]:
        """The newest messages of the person and the assistant, oldest first."""
        turns = [unseen.message for unseen in self.unseen[-count:]]
        index = len(self.history)
        while len(turns) < count and index:
            index -= 1
            if self.history[index].role in ("user", "assistant"):
                turns.insert(0, self.history[index])
        return turns

    def run_loop(self) -> RunLoop:
        """The loop as people see it; words not yet observed are its last iteration."""
        words = "\n\n".join(unseen.message.text for unseen in self.unseen)
        forgotten = all(unseen.message.text == FORGOTTEN for unseen in self.unseen)
        waiting = (
            Iteration(user_message=words or None, timestamp=self.updated_at, forgotten=forgotten),
        )
        return RunLoop(
            id=self.id,
            owner=self.owner,
            goal=self.goal,
            status=self.status,
            iterations=(*self.iterations, *(waiting if self.unseen else ())),
            created_at=self.created_at,
            completed_at=self.completed_at,
            predecessor_id=self.predecessor_id,
        )

    def summary(self) -> RunLoopSummary:
        """The loop as a line in a list."""
        return RunLoopSummary(
            id=self.id,
            owner=self.owner,
            goal=self.goal,
            status=self.status,
            created_at=self.created_at,
            updated_at=self.updated_at,
            completed_at=self.completed_at,
            predecessor_id=self.predecessor_id,
            iteration_count=self.iteration_count,
        )


if TYPE_CHECKING:
    from dataclasses import replace

    changed = replace
else:

    def changed(state: RunLoopState, **changes: Any) -> RunLoopState:
        """A copy of a state, with these fields changed.

        As `dataclasses.replace`, and checked as that is, but in a tenth of the time: a state has
        many fields, and each step of a loop makes a dozen states.
        """
        new = object.__new__(type(state))
        new.__dict__.update(state.__dict__)
        new.__dict__.update(changes)
        return new
