"""Events: the immutable facts of a run loop's history, in one dotted vocabulary.

An `Event` is an envelope (where, when, which loop) around a body (what happened). The same events
are journaled, folded into state, and sent to clients. Deltas (`TRANSIENT`) are sent only, never
journaled: they have no `seq`, and what they add up to is journaled as ``message.completed``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from service.domain.anchors import Anchor
from service.domain.conversation.messages import FinishReason, Message
from service.domain.errors import Problem
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.tool_events import ToolFinished as ToolFinished
from service.domain.history.tool_events import ToolStarted as ToolStarted
from service.domain.json_values import Metadata
from service.domain.routes import Route
from service.domain.run_loops import RunLoop, SendMode, Timestamp


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True)


class ForkPoint(_Body):
    """A place in a loop's history from which another loop went on."""

    run_loop_id: str
    seq: int
    """The last event that both have in common."""


class RunLoopStarted(_Body):
    """A new topic was opened."""

    type: Literal["run_loop.started"] = "run_loop.started"
    goal: str
    predecessor_id: str | None = None
    forked_from: ForkPoint | None = None
    """For a fork: the events that follow are copies, up to this point."""


class RunLoopImported(_Body):
    """A run loop came in whole from a file: as it was there, or as it has grown there since.

    Its id and owner are those of the event; a copy of it, in a fork, tells those of another loop.
    """

    type: Literal["run_loop.imported"] = "run_loop.imported"
    run_loop: RunLoop
    source: str = "rondo"
    """Where the file came from: ``rondo``, ``chatgpt``, ``claude``, or another name."""


class RunLoopResumed(_Body):
    """A loop that was cancelled or had failed is taken up again."""

    type: Literal["run_loop.resumed"] = "run_loop.resumed"


class MessageReceived(_Body):
    """A message joined the loop. It is observed when the next iteration starts."""

    type: Literal["message.received"] = "message.received"
    message_id: str
    message: Message
    metadata: Metadata = Field(default_factory=dict)
    mode: SendMode = "steer"
    model: str | None = None
    """The name of the configured model that the loop is to work with from here on; None: with the
    same as before."""


class RunLoopInterrupted(_Body):
    """The work was stopped for a message that is to be taken instead; calls have their results."""

    type: Literal["run_loop.interrupted"] = "run_loop.interrupted"
    message_id: str


class RouteDecided(_Body):
    """Why a message came to this loop."""

    type: Literal["route.decided"] = "route.decided"
    message_id: str
    route: Route


class MessageMoved(_Body):
    """A person moved messages, and what followed from them, to another loop: they are there now.

    Iterations keep their indexes, as anchors name them: those that went stay, without words.
    """

    type: Literal["message.moved"] = "message.moved"
    message_ids: tuple[str, ...]
    to_run_loop_id: str
    iterations: tuple[int, int]
    """Those that went, from the first to before the last, but for any that had gone before; the
    same twice: none had observed the messages."""
    history: tuple[int, int]
    """Those messages that the model is not shown any more, counted likewise."""
    to_iteration: int | None = None
    """Which iteration the first one is there; None: only the messages went, to be answered anew."""
    with_goal: bool = False
    """Whether the words that opened the loop went: what it is about is told by those that stay."""
    undo: bool = Field(default=False, exclude_if=lambda undo: not undo)
    """Whether a move was undone by that: they went back to where they had been."""
    reopens: bool = Field(default=False, exclude_if=lambda reopens: not reopens)
    """Whether it had been taken for the answer to what a call asks, or was asked back about: what
    followed from it there is taken back, and the call waits again."""


class Recollection(_Body):
    """A piece of long-term memory, word for word, put before the model."""

    anchor: Anchor
    content: str
    heed: bool = Field(default=False, exclude_if=lambda heed: not heed)
    """Whether the person told a limit of theirs with it that matters to what they say now: it
    stands behind their words, also where it was said in the same run loop. `content` is what tells
    it."""
    answers: bool = Field(default=False, exclude_if=lambda answers: not answers)
    """Whether it seems to answer what the person asks now: where a small model answers, clients
    show it beside the model's words."""


class MemoryRecalled(_Body):
    """Pieces of long-term memory were put before the model."""

    type: Literal["memory.recalled"] = "memory.recalled"
    recollections: tuple[Recollection, ...]


class IterationStarted(_Body):
    """The loop observes what has come in, and turns to the model."""

    type: Literal["iteration.started"] = "iteration.started"
    index: int
    message_ids: tuple[str, ...] | None = None
    """The messages that have landed: the model sees them now. None, in older journals: all."""
    nudge: str | None = None
    """Words of Rondo that the model is given too, such as a wish for a better answer."""
    continues: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the model goes on with its answer before this, whose tokens were used up."""
    forgotten: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the words of this iteration were forgotten: marks stand in their places."""


class IterationAbandoned(_Body):
    """The answer was to be bettered or gone on with, which failed: it stands as it is. What has
    streamed of this iteration does not count."""

    type: Literal["iteration.abandoned"] = "iteration.abandoned"
    index: int


class ReasoningDelta(_Body):
    """A piece of reasoning as it streams (transient)."""

    type: Literal["reasoning.delta"] = "reasoning.delta"
    text: str


class MessageDelta(_Body):
    """A piece of the answer as it streams (transient)."""

    type: Literal["message.delta"] = "message.delta"
    text: str
    whole: bool = Field(default=False, exclude_if=lambda whole: not whole)
    """Whether this is all that has streamed of the message so far, for a reader who comes in the
    middle of it: it stands in the place of what they had."""


class MessageCompleted(_Body):
    """The model's whole message of an iteration, with its tool calls."""

    type: Literal["message.completed"] = "message.completed"
    message: Message
    cut: bool = False
    """Whether a person stopped it before its end: these are the words that had streamed."""
    finish_reason: FinishReason | None = Field(default=None, exclude_if=lambda value: value is None)
    """Why it is not whole, though nobody has stopped it. None: it is, as far as anybody knows."""
    response_id: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Under which the model's provider knows it."""


class LLMRetry(_Body):
    """A model call failed and will be made again: drop what has streamed since the last message."""

    type: Literal["llm.retry"] = "llm.retry"
    attempt: int
    delay_seconds: float
    problem: Problem


class LLMFallback(_Body):
    """Another model is asked in place of one that is down: drop what has streamed since the last
    message."""

    type: Literal["llm.fallback"] = "llm.fallback"
    model: str
    """The name of the one that is down."""
    fallback: str
    """The name of the one that is asked now."""
    problem: Problem
    """What is wrong with the first."""

    def in_words(self) -> str:
        """Who answers now, and why.

        >>> problem = Problem(kind="llm-timeout", title="The language model took too long")
        >>> LLMFallback(model="default", fallback="spare", problem=problem).in_words()
        'The model spare is asked instead of default. The language model took too long.'
        """
        return f"The model {self.fallback} is asked instead of {self.model}. " + (
            self.problem.in_words()
        )


class CompactionRequested(_Body):
    """A person wants the old rounds of the conversation summarised, at the next step."""

    type: Literal["compaction.requested"] = "compaction.requested"


class CompactionStarted(_Body):
    """The old rounds will be summarised: the conversation nears the end of the model's window, or a
    person wants it."""

    type: Literal["compaction.started"] = "compaction.started"
    tokens: int
    """How long the next call would be."""
    limit: int
    """How long it may be."""


class CompactionFinished(_Body):
    """The oldest messages that the model is shown were replaced by shorter ones.

    Their words stay in the journal and in long-term memory.
    """

    type: Literal["compaction.finished"] = "compaction.finished"
    messages: int
    """How many messages were replaced, counted from the first."""
    replacement: tuple[Message, ...] = ()
    """What stands in their place."""
    method: Literal["model", "extract"]
    """Who shortened them: the model, or, without one, the built-in rules."""
    tokens_before: int
    tokens_after: int
    """Estimates of the whole call."""


UsagePurpose = Literal["answer", "compaction", "routing", "consolidation"]
"""What a model was called for; ``routing``: to judge where a message belongs; ``consolidation``: to
write notes, which is part of no run loop and so is counted without an event."""


class Usage(_Body):
    """What a model call used."""

    type: Literal["usage"] = "usage"
    model: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    """The part of `input_tokens` that came from the endpoint's cache."""
    cost: float | None = None
    """In the currency of the configured prices; None where there are none."""
    purpose: UsagePurpose = "answer"
    estimated: bool = False
    """Whether the endpoint did not say, and the tokens are told from the length of the words."""


class RunLoopIdle(_Body):
    """The loop has answered and rests; a follow-up may still join."""

    type: Literal["run_loop.idle"] = "run_loop.idle"


class RunLoopCompleted(_Body):
    """The loop is done."""

    type: Literal["run_loop.completed"] = "run_loop.completed"
    reason: str = "completed by its owner"


class RunLoopFailed(_Body):
    """The loop cannot go on."""

    type: Literal["run_loop.failed"] = "run_loop.failed"
    problem: Problem


class RunLoopCancelled(_Body):
    """The loop was stopped, and its work has really ended."""

    type: Literal["run_loop.cancelled"] = "run_loop.cancelled"
    reason: str = "cancelled by its owner"


class ErrorOccurred(_Body):
    """Something went wrong that did not end the loop."""

    type: Literal["error"] = "error"
    problem: Problem


EventBody = Annotated[
    RunLoopStarted
    | RunLoopImported
    | RunLoopResumed
    | MessageReceived
    | RunLoopInterrupted
    | RouteDecided
    | MessageMoved
    | MemoryRecalled
    | IterationStarted
    | IterationAbandoned
    | ReasoningDelta
    | MessageDelta
    | MessageCompleted
    | LLMRetry
    | LLMFallback
    | ToolStarted
    | ToolFinished
    | InputRequired
    | InputReceived
    | CompactionRequested
    | CompactionStarted
    | CompactionFinished
    | Usage
    | RunLoopIdle
    | RunLoopCompleted
    | RunLoopFailed
    | RunLoopCancelled
    | ErrorOccurred,
    Field(discriminator="type"),
]
BODY: TypeAdapter[EventBody] = TypeAdapter(EventBody)
"""Reads a body from its JSON, by its ``type``."""

TRANSIENT = (ReasoningDelta, MessageDelta)
TERMINAL = (RunLoopCompleted, RunLoopFailed, RunLoopCancelled)


class Event(BaseModel):
    """A fact in the history of one run loop."""

    model_config = ConfigDict(frozen=True)

    seq: int | None
    """Place in the journal, counting over all loops; None for a transient event."""
    at: Timestamp
    owner: str
    run_loop_id: str
    body: EventBody

    @property
    def type(self) -> str:
        """The dotted name of what happened."""
        return self.body.type

    def wire(self) -> dict[str, Any]:
        """The event as clients see it: the envelope, with the body's fields under ``data``."""
        whole = self.model_dump(mode="json")
        body = whole["body"]
        envelope = {"seq": whole["seq"], "type": body.pop("type"), "at": whole["at"]}
        return {**envelope, "run_loop_id": whole["run_loop_id"], "data": body}
