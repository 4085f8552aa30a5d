"""The run loops that a daemon would hold, had it heard a conversation of people's.

Their states are folded from the events that the daemon journals, each at the moment of the message
that it belongs to.
"""

from __future__ import annotations

from datetime import datetime

from service.bench.routing.routing_dataset import Said
from service.domain.conversation.messages import Message
from service.domain.history.events import (
    Event,
    EventBody,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RunLoopIdle,
    RunLoopInterrupted,
    RunLoopStarted,
)
from service.domain.history.fold import begin, evolve
from service.domain.history.state import RunLoopState

ACTIVE_SECONDS = 900.0
"""How old a loop's last message may be for the loop to be active: the daemon's own default."""
OWNER = "me"


class ActiveLoops:
    """The loops of one stream; whatever was decided, each message joins its true one."""

    def __init__(self, stream: str) -> None:
        """`stream` goes into the loops' ids, which no two streams share."""
        self._stream = stream
        self._states: dict[str, RunLoopState] = {}
        """By thread; those that changed last come last."""
        self._seq = 0

    def id_of(self, thread: str) -> str:
        """The id of a thread's loop."""
        return f"{self._stream}:{thread}"

    def at(self, moment: datetime) -> list[RunLoopState]:
        """The loops that are active at a moment, those that changed last first."""
        return [
            state
            for state in reversed(self._states.values())
            if (moment - state.updated_at).total_seconds() <= ACTIVE_SECONDS
        ]

    def hear(self, said: Said) -> RunLoopState:
        """A message joins its thread's loop, or opens it; the loop's new state."""
        state = self._states.pop(said.thread, None)
        if state is None:
            goal = said.text.strip() or "(an image)"
            state = begin(self._event(said, RunLoopStarted(goal=goal)))
        for body in _observed(state, said) if said.role == "user" else _answered(state, said):
            state = evolve(state, self._event(said, body))
        self._states[said.thread] = state
        return state

    def _event(self, said: Said, body: EventBody) -> Event:
        self._seq += 1
        return Event(
            seq=self._seq,
            at=said.at,
            owner=OWNER,
            run_loop_id=self.id_of(said.thread),
            body=body,
        )


def _observed(state: RunLoopState, said: Said) -> list[EventBody]:
    received = MessageReceived(message_id=said.id, message=Message.user(said.text))
    started = IterationStarted(index=state.iteration_count, message_ids=(said.id,))
    if state.thinking:  # nobody has answered what was said before
        return [received, RunLoopInterrupted(message_id=said.id), started]
    return [received, started]


def _answered(state: RunLoopState, said: Said) -> list[EventBody]:
    completed = MessageCompleted(message=Message.assistant(said.text))
    if state.thinking:
        return [completed, RunLoopIdle()]
    started = IterationStarted(index=state.iteration_count, message_ids=())
    return [started, completed, RunLoopIdle()]
