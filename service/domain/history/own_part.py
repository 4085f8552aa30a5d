"""The part of a run loop's events that is one message's: from its landing to its answer; and the
part of a whole run loop that can change no more, which is what long-term memory is given.

A message joins a loop that may be at work on others, before it and after it. It has *landed* when
an iteration observes it: from there on the model sees it, and what it says is said to it, too. It
is *answered* when the model says something without wanting to call a tool.

>>> from service.domain.conversation.messages import Message
>>> part, answer = OwnPart("m2"), MessageCompleted(message=Message.assistant("Yes."))
>>> for ids in (("m1",), ("m2", "m3")):
...     part.add(IterationStarted(index=0, message_ids=ids))
...     part.add(answer)
...     print(part.landed, part.answered)
False False
True True
>>> part.add(IterationStarted(index=2, message_ids=("m4",)))
>>> part.over
True
"""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.history.events import (
    TERMINAL,
    ErrorOccurred,
    Event,
    EventBody,
    IterationStarted,
    MessageCompleted,
    MessageMoved,
    RunLoopIdle,
    RunLoopImported,
    RunLoopInterrupted,
)
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop


def closed_part(state: RunLoopState) -> RunLoop:
    """The run loop without what is still open; one that has ended, whole.

    Open are the last iteration, until its message and all its results are there, and words that no
    iteration has observed yet.
    """
    if not state.is_active:
        return state.run_loop()
    open_still = state.thinking or bool(state.pending)
    iterations = tuple(state.closed_iterations) if open_still else state.iterations
    return state.run_loop().model_copy(update={"iterations": iterations})


_LAST = frozenset(
    body.model_fields["type"].default
    for body in (RunLoopIdle, InputRequired, RunLoopImported, *TERMINAL)
)
_ERROR = ErrorOccurred.model_fields["type"].default


@dataclass(slots=True)
class OwnPart:
    """Follows one message through its loop's events, which must come in order."""

    message_id: str
    landed: bool = False
    """Whether an iteration has observed it."""
    answered: bool = False
    """Whether the model has answered it; it may better its answer still."""
    over: bool = False
    """Whether the loop has answered it, and turned to another message since."""
    interrupted_by: str | None = None
    """The message that was taken in its place before it was answered, if one was."""

    @property
    def going_on(self) -> bool:
        """Whether what the loop does now is done for this message."""
        return self.landed and not self.over

    def add(self, body: EventBody) -> None:
        """Take the next event."""
        match body:
            case IterationStarted(message_ids=ids):
                if not self.landed:
                    self.landed = ids is None or self.message_id in ids
                elif self.answered and ids != ():
                    self.over = True
            case InputReceived(message_id=self.message_id):
                self.landed = True  # it is the answer that the iteration has waited for
            case MessageCompleted(message=message, cut=cut) if self.going_on:
                self.answered = not cut and not message.tool_calls
            case RunLoopInterrupted(message_id=other) if self.going_on and not self.answered:
                self.interrupted_by = other
            case MessageMoved(message_ids=ids) if self.message_id in ids:
                # It goes on in another loop, whose events tell all of it again.
                self.landed = self.answered = self.over = False
                self.interrupted_by = None
            case _:
                pass


def is_last(event: Event) -> bool:
    """Whether a stream that follows a message ends with this event: nothing comes by itself."""
    return ends_stream(event.type, event.seq)


def ends_stream(event_type: str, seq: int | None) -> bool:
    """The same by an event's type and its place in the journal: its body need not be understood."""
    return event_type in _LAST or (event_type == _ERROR and seq is None)
