"""Events: the immutable facts of a run loop's history, in one dotted vocabulary.

An `Event` is an envelope (where, when, which loop) around a body (what happened). The same events
are journaled, folded into state, and sent to clients. Deltas (`TRANSIENT`) are sent only, never
journaled: they have no `seq`, and what they add up to is journaled as ``message.completed``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from service.domain.anchors import Anchor
from service.domain.errors import Problem
from service.domain.messages import Message, ToolCall
from service.domain.routes import Route
from service.domain.run_loops import Timestamp


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True)


class RunLoopStarted(_Body):
    """A new matter was opened."""

    type: Literal["run_loop.started"] = "run_loop.started"
    goal: str
    predecessor_id: str | None = None


class MessageReceived(_Body):
    """A message joined the loop. It is observed when the next iteration starts."""

    type: Literal["message.received"] = "message.received"
    message_id: str
    message: Message
    metadata: dict[str, Any] = Field(default_factory=dict)


class RouteDecided(_Body):
    """Why a message came to this loop."""

    type: Literal["route.decided"] = "route.decided"
    message_id: str
    route: Route


class Recollection(_Body):
    """A piece of long-term memory, word for word, put before the model."""

    anchor: Anchor
    content: str


class MemoryRecalled(_Body):
    """Pieces of long-term memory were put before the model."""

    type: Literal["memory.recalled"] = "memory.recalled"
    recollections: tuple[Recollection, ...]


class IterationStarted(_Body):
    """The loop observes what has come in, and turns to the model."""

    type: Literal["iteration.started"] = "iteration.started"
    index: int


class ReasoningDelta(_Body):
    """A piece of reasoning as it streams (transient)."""

    type: Literal["reasoning.delta"] = "reasoning.delta"
    text: str


class MessageDelta(_Body):
    """A piece of the answer as it streams (transient)."""

    type: Literal["message.delta"] = "message.delta"
    text: str


class MessageCompleted(_Body):
    """The model's whole message of an iteration, with its tool calls."""

    type: Literal["message.completed"] = "message.completed"
    message: Message


class LLMRetry(_Body):
    """A model call failed and will be made again: drop what has streamed since the last message."""

    type: Literal["llm.retry"] = "llm.retry"
    attempt: int
    delay_seconds: float
    problem: Problem


class ToolStarted(_Body):
    """A tool begins to run."""

    type: Literal["tool.started"] = "tool.started"
    call_id: str
    name: str
    arguments: str
    idempotency_key: str


class ToolFinished(_Body):
    """A tool call has its one result."""

    type: Literal["tool.finished"] = "tool.finished"
    call_id: str
    name: str
    content: str
    is_error: bool = False


class InputRequired(_Body):
    """The loop waits for a person."""

    type: Literal["input.required"] = "input.required"
    request_id: str
    kind: Literal["approve", "prompt", "select"]
    prompt: str
    """The question in words."""
    tool_calls: tuple[ToolCall, ...] = ()
    """For ``approve``: the calls that wait."""
    options: tuple[str, ...] = ()
    """For ``select``: what can be chosen."""


class InputReceived(_Body):
    """A person answered. For ``approve``: `approved`; else `text`."""

    type: Literal["input.received"] = "input.received"
    request_id: str
    approved: bool | None = None
    text: str | None = None
    """The answer in words; for a denial, its reason."""


class Usage(_Body):
    """What a model call used."""

    type: Literal["usage"] = "usage"
    model: str
    input_tokens: int
    output_tokens: int


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
    | MessageReceived
    | RouteDecided
    | MemoryRecalled
    | IterationStarted
    | ReasoningDelta
    | MessageDelta
    | MessageCompleted
    | LLMRetry
    | ToolStarted
    | ToolFinished
    | InputRequired
    | InputReceived
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
        body = whole.pop("body")
        return {
            "seq": whole["seq"],
            "type": body.pop("type"),
            "at": whole["at"],
            "run_loop_id": whole["run_loop_id"],
            "data": body,
        }
