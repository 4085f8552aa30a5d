"""Running hooks: one after another, each within its time, and what they give is checked.

Anything else than what they may give counts as a failure of theirs, as do errors and delays, and
never reaches the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
from pydantic import BaseModel

from service.domain.conversation.messages import Message, ToolCall, ToolResult
from service.domain.errors import ConfigurationError, Problem, RondoError
from service.domain.history.events import ErrorOccurred
from service.domain.routes import Route
from service.domain.run_loops import RunLoop
from service.loop.execution import Loop
from service.loop.hooks.hooks import Hooks
from service.loop.unexpected_errors import in_words
from service.memory.journal.inbox import InboxEntry
from service.tools.model_text import fitted
from service.tools.protocol import caller_is_cancelled
from service.tools.registry import WHOLE_LIMIT

log = logging.getLogger(__name__)

T = TypeVar("T")


class HookError(RondoError):
    """A custom hook failed."""

    kind = "hook"
    title = "A hook failed"


async def call_with_timeout(
    name: str, call: Callable[[], Awaitable[T]], *, timeout_seconds: float
) -> T:
    """Call, and come back within a time, whatever happens. Cancellation passes through.

    Args:
        name: what it is called in the log and in the error.
        call: what to do.
        timeout_seconds: how long it may take; what blocks the event loop cannot be stopped.

    Raises:
        HookError: it raised, or took too long; it is logged.
    """
    try:
        with anyio.move_on_after(timeout_seconds):
            return await call()
        reason = f"it did not come back within {timeout_seconds:g} seconds"
        log.error("%s: %s", name, reason)
    except asyncio.CancelledError as error:
        if caller_is_cancelled():
            raise
        reason = "what it waited for was cancelled"
        log.error("%s: %s", name, reason, exc_info=error)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # not ours: SystemExit must not end the daemon either
        reason = in_words(error)
        log.error("%s failed", name, exc_info=error)
    raise HookError(
        f"the hook {name} of yours failed: {reason}",
        advice="The log has the details. Correct it, or take it out of agent.hooks.",
    )


def messages_of(shown: Sequence[Message], given: object) -> list[Message]:
    """What the model is to be shown instead of `shown`."""
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"it gave {_kind(given)}, not a list of messages")
    shown_ids = {id(message) for message in shown}
    open_calls: list[str] = []
    for message in given:
        if not isinstance(message, Message):
            raise ValueError(f"it gave {_kind(message)} among the messages")
        if id(message) not in shown_ids:
            _storable(message)
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise ValueError(f"it gave a tool result ({message.tool_call_id}) without its call")
            open_calls.remove(message.tool_call_id)
        elif open_calls:
            break
        open_calls += [call.id for call in message.tool_calls]
    if open_calls:
        raise ValueError(f"it gave a tool call ({open_calls[0]}) without its result")
    return list(given)


def message_of(given: object) -> Message:
    """What the model is to have said."""
    if not isinstance(given, Message):
        raise ValueError(f"it gave {_kind(given)}, not a message")
    if given.role != "assistant" or given.tool_call_id is not None:
        raise ValueError(f"it gave a message of the role {given.role}, not of the assistant's")
    ids = [call.id for call in given.tool_calls]
    if len(set(ids)) != len(ids) or not all(ids):
        raise ValueError("it gave tool calls whose ids are empty or not distinct")
    if not given.text.strip() and not ids:
        raise ValueError("it gave a message with neither words nor a tool call")
    _storable(given)
    return given


def refusal_of(given: object) -> str | None:
    """Words that block a call, perhaps none; or None."""
    return None if given is None else words_of(given)


def result_of(result: ToolResult, given: object) -> ToolResult:
    """What a call is to have come to instead of `result`; over-long ones lose their middle."""
    if given is result:
        return result
    if not isinstance(given, ToolResult):
        raise ValueError(f"it gave {_kind(given)}, not a tool result")
    if given.id != result.id:
        raise ValueError(f"it gave the result of another call ({given.id})")
    _storable(given)
    return given.model_copy(update={"content": fitted(given.content, WHOLE_LIMIT)})


def words_of(given: object) -> str:
    """A text that has a form in UTF-8."""
    if not isinstance(given, str):
        raise ValueError(f"it gave {_kind(given)}, not a text")
    given.encode()
    return given


def nothing_of(given: object) -> None:
    """Nothing is asked for, and whatever is given is not looked at."""


def _storable(value: BaseModel) -> None:
    """Models can be made with anything in them (`model_construct`, `model_copy`)."""
    type(value).model_validate_json(value.model_dump_json())


def _kind(value: object) -> str:
    return "nothing" if value is None else f"something of the type {type(value).__name__}"


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

_NO_WORDS = "Not run: a hook does not allow it."
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
