"""Running hooks: one after another, each within its time, and what they give is checked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from service.domain.conversation.messages import Message, ToolCall, ToolResult
from service.domain.errors import ConfigurationError, Problem, RondoError
from service.domain.history.events import ErrorOccurred
from service.domain.routes import Route
from service.domain.run_loops import RunLoop
from service.loop.execution import Loop
from service.loop.hooks.call_with_timeout import HookError, call_with_timeout
from service.loop.hooks.hook_checks import (
    message_of,
    messages_of,
    nothing_of,
    refusal_of,
    result_of,
    words_of,
)
from service.loop.hooks.hooks import Hooks
from service.memory.journal.inbox import InboxEntry

log = logging.getLogger(__name__)

T = TypeVar("T")
Method = Callable[..., Awaitable[object]]

POINTS = (
    "before_model_call",
    "after_model_call",
    "before_tool_call",
    "after_tool_call",
    "before_routing",
    "after_routing",
    "before_archiving",
    "after_archiving",
    "before_consolidation",
)

_NO_WORDS = "Not run: a check of this house does not allow it."
_FAILED = (
    "Not run: a check that comes before each tool call failed. Do without this tool, or tell the"
    " person."
)


class HookRunner:
    """Runs all hooks. A point that nobody uses costs nothing."""

    def __init__(self, hooks: Sequence[Hooks] = (), *, timeout_seconds: float = 30) -> None:
        """Take the hooks.

        Raises:
            ConfigurationError: one of them is not an instance of `Hooks`.
        """
        for each in hooks:
            if not isinstance(each, Hooks):
                raise ConfigurationError(
                    f"{each!r} is not an instance of service.Hooks",
                    advice="Derive a class from Hooks, and give an instance of it.",
                )
        self._timeout = timeout_seconds
        self._methods: dict[str, list[Method]] = {
            point: [getattr(each, point) for each in hooks if _overrides(each, point)]
            for point in POINTS
        }

    async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
        """See `Hooks`."""
        for method in self._methods["before_model_call"]:
            try:
                check = partial(messages_of, messages)
                messages = await self._call(method, check, loop, list(messages))
            except HookError as error:
                await _report(error, loop)
        return messages

    async def after_model_call(self, loop: Loop, message: Message) -> Message:
        """See `Hooks`."""
        for method in self._methods["after_model_call"]:
            try:
                message = await self._call(method, message_of, loop, message)
            except HookError as error:
                await _report(error, loop)
        return message

    async def before_tool_call(self, loop: Loop, call: ToolCall) -> str | None:
        """See `Hooks`. A hook that fails blocks the call."""
        for method in self._methods["before_tool_call"]:
            try:
                refusal = await self._call(method, refusal_of, loop, call)
            except HookError as error:
                await _report(error, loop)
                return _FAILED
            if refusal is not None:
                return refusal.strip() or _NO_WORDS
        return None

    async def after_tool_call(self, loop: Loop, call: ToolCall, result: ToolResult) -> ToolResult:
        """See `Hooks`."""
        for method in self._methods["after_tool_call"]:
            try:
                result = await self._call(method, partial(result_of, result), loop, call, result)
            except HookError as error:
                await _report(error, loop)
        return result

    async def before_routing(self, entry: InboxEntry, report: Callable[[Problem], None]) -> str:
        """The words to route by, see `Hooks`; failures are reported to `report`."""
        words = entry.message.text
        for method in self._methods["before_routing"]:
            try:
                words = await self._call(method, words_of, _copy(entry), words)
            except HookError as error:
                report(error.problem())
        return words

    async def after_routing(
        self,
        entry: InboxEntry,
        route: Route,
        run_loop_id: str,
        report: Callable[[Problem], Awaitable[None]],
    ) -> None:
        """See `Hooks`; failures are reported to `report`."""
        for method in self._methods["after_routing"]:
            try:
                await self._call(method, nothing_of, _copy(entry), route, run_loop_id)
            except HookError as error:
                await report(error.problem())

    async def before_archiving(self, run_loop: RunLoop) -> None:
        """See `Hooks`. Failures are in the log: the loop has ended, and takes no more events."""
        await self._tell("before_archiving", run_loop)

    async def after_archiving(self, run_loop: RunLoop) -> None:
        """See `Hooks`. Failures are in the log."""
        await self._tell("after_archiving", run_loop)

    async def _tell(self, point: str, run_loop: RunLoop) -> None:
        for method in self._methods[point]:
            try:
                await self._call(method, nothing_of, run_loop)
            except HookError:
                continue  # it is logged; the next hook is told

    async def before_consolidation(self, owner: str, messages: list[Message]) -> list[Message]:
        """See `Hooks`.

        Raises:
            HookError: a hook failed.
        """
        for method in self._methods["before_consolidation"]:
            messages = await self._call(
                method, partial(messages_of, messages), owner, list(messages)
            )
        return messages

    async def _call(self, method: Method, check: Callable[[object], T], *arguments: object) -> T:
        async def call() -> T:
            return check(await method(*arguments))

        return await call_with_timeout(_name(method), call, timeout_seconds=self._timeout)


async def _report(error: HookError, loop: Loop) -> None:
    try:
        await loop.emit(ErrorOccurred(problem=error.problem()))
    except RondoError as refused:
        # The hook's failure is in the log; that it cannot be journaled is no reason to stop.
        log.warning("the failure of a hook cannot be journaled: %s", refused)


def _overrides(hooks: Hooks, point: str) -> bool:
    method = getattr(hooks, point)
    return getattr(method, "__func__", None) is not getattr(Hooks, point)


def _name(method: Method) -> str:
    owner = getattr(method, "__self__", None)
    name = getattr(method, "__name__", repr(method))
    return name if owner is None else f"{type(owner).__name__}.{name}"


def _copy(entry: InboxEntry) -> InboxEntry:
    """An entry whose metadata can be written to without harm."""
    return replace(entry, metadata=dict(entry.metadata))
