"""A run loop's state: all that is known of it after some event. `service.domain.history.fold` makes
it.

Valid means that each tool call in `history` has exactly one result, except those in `pending`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from service.domain.conversation.messages import Message, ToolCall
from service.domain.errors import Problem
from service.domain.forgetting_terms import FORGOTTEN
from service.domain.history.approval_rules import NarrowedRule
from service.domain.history.events import ForkPoint, Recollection
from service.domain.history.growing import Growing
from service.domain.history.human_input import InputReceived, InputRequired
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
    model: str | None = None
    """The name of the configured model that is to answer it; None: the loop's."""


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
    said: str = ""
    """What they said to it before that named none of its options: they were asked once more."""
    kept: Mapping[str, Any] | None = None
    """Where its tool has asked in the middle of the call: what the tool is given back with the
    answer, which is not the result then."""

    @property
    def words(self) -> str | None:
        """What its result is, should it not come to be worked on: what a person has said to it. An
        answer that was taken is never lost."""
        if self.kept is not None:
            return None
        return self.said or None if self.answer is None else self.answer


@dataclass(frozen=True, slots=True)
class Recalled:
    """Pieces of long-term memory, and the message that they stand beside."""

    index: int
    """Of the message in the history."""
    pieces: tuple[Recollection, ...]


OUTCOME_UNKNOWN = (
    "The assistant was interrupted while this tool ran: whether it did its work is unknown. Check"
    " before you call it again."
)
"""The result of a call that a crash has interrupted, and that must not be run twice."""

ToolOutcome = tuple[str, str, str]
"""Name, arguments and result of a call: when all three are the same again, nothing was gained."""


@dataclass(frozen=True, slots=True)
class BeforeAnswer:
    """A run loop before a message was taken for the answer to a call, or was asked back about."""

    message_id: str
    state: RunLoopState
    """It waits for the answer."""


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
    """All iterations before the open one."""
    iteration: Iteration | None = None
    """The last one, to which things may still be added."""
    taken_back: tuple[Iteration, ...] = ()
    """Places after the open iteration whose words were taken back with the answer that they had
    followed from; see `before_answer`. They keep their indexes, and have no words."""
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
    before_answer: BeforeAnswer | None = field(default=None, compare=False, repr=False)
    """Where the loop goes back to when the message is moved away that a call took for its answer
    last; None: none did, or something was said since."""
    last_answer: InputReceived | None = None
    """The newest answer that counted: the same one again changes nothing."""
    model: str | None = None
    """The name of the configured model that the loop works with; None: the default one."""
    allowed: frozenset[str] = frozenset()
    """What a person has said yes to for as long as this loop lasts."""
    allowed_narrowly: tuple[NarrowedRule, ...] = ()
    """The same, narrowed down; without what was over when something happened."""
    recalled: tuple[Recalled, ...] = ()
    cut: bool = False
    """Whether the assistant's last words are an answer that a person stopped."""
    cut_off: bool = False
    """Whether they are an answer whose tokens were used up before its end."""
    continuations: int = 0
    """How often the model was asked to go on with that answer."""
    thinking: bool = False
    """Whether the last iteration has started and its message is still to come."""
    iterations_since_user: int = 0
    """Iterations since a person last spoke: what `max_iterations` bounds."""
    enhanced: bool = False
    """Whether the model was asked to better its answer since a person last spoke, or the loop has
    come to rest since."""
    failures: int = 0
    """Steps in a row, since a person last spoke, in which every tool call failed."""
    failing: Mapping[str, int] = field(default_factory=dict)
    """The same for single tools, by their names: steps in a row in which each call of it failed."""
    repetitions: int = 0
    """Steps in a row, up to the last, with the same calls and the same results."""
    last_outcomes: tuple[ToolOutcome, ...] = ()
    """Of the last step with tool calls."""
    cut_results: bool = False
    """Whether the model was shown only a part of some tool's result."""
    compacting: bool = False
    """Whether a person wants old rounds summarised, and that is still to be done."""
    compacted: bool = False
    """Whether the history was compacted by itself since the last answer of the model."""
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
    def next_model(self) -> str | None:
        """The name of the model that the next call asks; None: the default one."""
        landing = (each for each in self.unseen if each.mode != "followup" or self.is_answered)
        return named_model(landing, self.model)

    @property
    def is_active(self) -> bool:
        """Whether a message can still join."""
        return self.status in ACTIVE

    @property
    def asks_where(self) -> bool:
        """Whether it waits for a person to say where its messages belong."""
        return self.awaiting is not None and self.awaiting.about == "route"

    @property
    def is_spoken_to(self) -> bool:
        """Whether calls wait for a person, and a message of theirs lies there that is no answer.

        A follow-up that was sent before the question was asked waits for its answer, as it said. A
        brain that asks without any call has known the messages that lie there.
        """
        if self.awaiting is None or not self.pending:
            return False
        return any(unseen.mode != "followup" for unseen in self.unseen)

    @property
    def is_answered(self) -> bool:
        """Whether the assistant spoke last, and nothing is left to be done for what it has seen."""
        if self.thinking or self.pending or self.cut:
            return False
        return not self.history or self.history[-1].role == "assistant"

    @property
    def iterations(self) -> tuple[Iteration, ...]:
        """All iterations, in time for their number: see `iteration_count` for that alone."""
        opened = (self.iteration,) if self.iteration else ()
        return (*self.closed_iterations, *opened, *self.taken_back)

    @property
    def iteration_count(self) -> int:
        """How many iterations there were."""
        return len(self.closed_iterations) + (self.iteration is not None) + len(self.taken_back)

    def iteration_at(self, index: int) -> Iteration | None:
        """The iteration of an index; None: there is none. Takes no time."""
        behind = index - len(self.closed_iterations)
        if behind < 0:
            return self.closed_iterations[index]
        return self.iteration if behind == 0 else self.taken_back[behind - 1]

    @property
    def recollections(self) -> tuple[Recollection, ...]:
        """All pieces of long-term memory that the model was shown; not what it is to heed, which is
        said again beside each message to which it matters."""
        pieces = (piece for recalled in self.recalled for piece in recalled.pieces)
        return tuple(piece for piece in pieces if not piece.heed)

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
        words = "\n\n".join(unseen.message.words for unseen in self.unseen)
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


def named_model(said: Iterable[UnseenMessage], otherwise: str | None) -> str | None:
    """The model that the newest of these messages names; else the other one."""
    return next((each.model for each in reversed(list(said)) if each.model), otherwise)


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


def open_iteration(state: RunLoopState) -> Iteration:
    """The iteration to which something is added.

    Raises:
        ValueError: the loop has none.
    """
    if state.iteration is None:
        raise ValueError(f"run loop {state.id} has no iteration that this could belong to")
    return state.iteration


def with_messages(state: RunLoopState, *messages: Message) -> RunLoopState:
    """The state in which these were said last."""
    if not messages:
        return state
    return changed(
        state,
        history=state.history.plus(*messages),
        history_size=state.history_size + sum(message.size for message in messages),
    )
