"""A run loop as its executors see it, what an executor is, and calls that begin early.

Tool calls may begin while the model's answer is still arriving, but only what may run twice: that
it began is journaled together with the answer, not before, so that a crash, or a stream that breaks
off, leaves no trace of it and the tool simply runs again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import anyio
from anyio.abc import TaskGroup

from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.history.events import EventBody
from service.domain.history.state import RunLoopState

log = logging.getLogger(__name__)

Run = Callable[[], Awaitable[ToolResult | None]]


@dataclass(slots=True)
class _EarlyCall:
    call: ToolCall
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    result: ToolResult | None = None


class EarlyCalls:
    """The calls of one answer that run already, by the id of the call."""

    def __init__(self) -> None:
        self._calls: dict[str, _EarlyCall] = {}

    def start(self, call: ToolCall, run: Run, tasks: TaskGroup) -> None:
        """Begin a call. Where `run` raises or gives None, it is as if it had not been begun."""
        early = self._calls[call.id] = _EarlyCall(call)
        tasks.start_soon(self._run, early, run, name=f"early {call.name}")

    async def take(self, call: ToolCall) -> ToolResult | None:
        """Wait for the result of a call; None when this very call was not begun."""
        early = self._calls.pop(call.id, None)
        if early is None:
            return None
        if early.call != call:
            early.scope.cancel()
            return None
        await early.done.wait()
        return early.result

    def keep(self, calls: Iterable[ToolCall]) -> None:
        """Stop all but these: the rest is not part of the answer."""
        kept = {call.id for call in calls}
        for call_id in self._calls.keys() - kept:
            self._calls.pop(call_id).scope.cancel()

    def begun(self, calls: Iterable[ToolCall]) -> list[ToolCall]:
        """Those of these very calls that have begun."""
        return [
            call for call in calls if call.id in self._calls and self._calls[call.id].call == call
        ]

    def drop(self) -> None:
        """Stop all: the answer that asked for them does not count."""
        for early in self._calls.values():
            early.scope.cancel()
        self._calls = {}

    async def _run(self, early: _EarlyCall, run: Run) -> None:
        try:
            with early.scope:
                early.result = await run()
        except Exception:
            # It runs again in its turn, where errors are heard of; here they would end the loop.
            log.warning("an early call of %s failed", early.call.name, exc_info=True)
        finally:
            early.done.set()


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
