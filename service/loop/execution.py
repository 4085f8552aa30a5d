"""A run loop as its executors see it, and what an executor is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

from anyio.abc import TaskGroup

from service.domain.history.events import EventBody
from service.domain.history.state import RunLoopState
from service.loop.early_calls import EarlyCalls

StopReason = Literal["cancel", "interrupt", "move"]
"""Why a person had a loop's work stopped: for good, to say something else, or because it goes on in
another loop, where what had streamed so far is streamed anew."""


class Loop(Protocol):
    """A run loop as an executor sees it."""

    @property
    def state(self) -> RunLoopState:
        """The fold of all that was emitted."""
        ...

    @property
    def tasks(self) -> TaskGroup:
        """Where work can go on beside the executor, for as long as the loop runs."""
        ...

    @property
    def early_calls(self) -> EarlyCalls:
        """Tool calls that began while the model's answer was still arriving."""
        ...

    @property
    def stopping(self) -> StopReason | None:
        """Why the work is being cancelled just now; None when the process ends, or nothing does."""
        ...

    async def emit(
        self, *bodies: EventBody, durable: bool = False, if_last_seq: int | None = None
    ) -> None:
        """Journal events, in one transaction.

        Raises:
            ConflictError: with `if_last_seq`, when something else was journaled since.
        """
        ...

    def stream(self, body: EventBody) -> None:
        """Show listeners a transient event."""
        ...


Executor = Callable[[Any, Loop], Awaitable[None]]
"""Called with an instruction of its kind and the loop."""
