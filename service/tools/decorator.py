"""Turning a typed function into a `Tool`.

    @tool(effect="read_only")
    def add(a: int, b: Annotated[int, Field(description="Added to the first.")] = 1) -> int:
        '''Add two whole numbers.'''
        return a + b

The name is the function's, the description its docstring's first paragraph, the schema that of its
annotations. A parameter annotated `ToolContext` is filled in, and the model does not see it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args, overload

import anyio.to_thread
from anyio.lowlevel import RunVar
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.errors import ConfigurationError
from service.domain.json_values import writable
from service.tools.arguments import read_arguments
from service.tools.model_text import did_you_mean, well_formed
from service.tools.schema import arguments_of, parameters_schema

Scope = Callable[[Mapping[str, object]], str]
"""From a call's arguments to what a person's remembered yes to it covers."""

_EFFECTS: tuple[str, ...] = get_args(ToolEffect)
_THREADS = 32
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the endpoints of all providers take


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A `Tool` made of a function."""

    definition: ToolDefinition
    effect: ToolEffect
    needs_approval: bool
    timeout_seconds: float
    function: Callable[..., object]
    arguments: type[BaseModel]
    context_parameter: str | None
    scope: Scope | None = None
    output_limit: int | None = None
    outside: bool = False

    def read(self, arguments: str) -> dict[str, object]:
        """Arguments as the function is given them, with those that were left out.

        Raises:
            ToolFailure: they cannot be used; says why.
        """
        return read_arguments(arguments, self.arguments, self.definition)

    def check(self, arguments: str) -> None:
        """See to it that arguments can be used.

        Raises:
            ToolFailure: they cannot; says why.
        """
        self.read(arguments)

    def approval_scope(self, arguments: str) -> str | None:
        """What a yes to a call with these arguments covers; None: every call of the tool.

        Raises:
            ToolFailure: the arguments cannot be used.
        """
        if self.scope is None:
            return None
        return self.scope(read_arguments(arguments, self.arguments, self.definition))

    async def run(self, arguments: str, context: ToolContext) -> str:
        """Call the function once.

        A function that is not async runs in a worker thread, which nothing can stop: what may block
        for long belongs into an async function or a child process. When the call is cancelled, a
        thread with side effects is waited for, as long as the call may take, and its result is
        given also then (in a cancelled scope of anyio's: shield what keeps it); others are left.

        Raises:
            ToolFailure: the arguments cannot be used, or the function says so.
            BaseException: whatever else the function raises.
        """
        values = read_arguments(arguments, self.arguments, self.definition)
        if self.context_parameter is not None:
            values[self.context_parameter] = context
        call = functools.partial(self.function, **values)
        if inspect.iscoroutinefunction(self.function):
            result = call()
        else:
            result = await self._in_thread(call)
        if inspect.isawaitable(result):
            result = await result
        return in_words(result)

    async def _in_thread(self, call: Callable[[], object]) -> object:
        outcome: list[object] = []
        errors: list[BaseException] = []

        def attempt() -> None:
            try:
                outcome.append(call())
            except BaseException as error:  # noqa: BLE001 - out of a task, SystemExit ends it all
                errors.append(error)

        begun = anyio.current_time()
        work = asyncio.ensure_future(
            anyio.to_thread.run_sync(attempt, abandon_on_cancel=True, limiter=_threads())
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            left = begun + self.timeout_seconds - anyio.current_time()
            if self.effect == "side_effects" and not work.done() and left > 0:
                with anyio.move_on_after(left, shield=True):
                    await asyncio.wait([work])
            is_known = bool(outcome or errors)
            work.cancel()
            # The work is done: its result must not be lost. A cancelled scope of anyio cancels the
            # caller again as soon as it waits; asyncio's own cancelling comes only once.
            if not is_known or anyio.current_effective_deadline() != -math.inf:
                raise
        if errors:
            raise errors[0]
        return outcome[0]


def _threads() -> anyio.CapacityLimiter:
    """Threads of the tools' own, so that slow ones keep nobody else from theirs."""
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(anyio.CapacityLimiter(_THREADS))
        return _limiter.get()


_limiter: RunVar[anyio.CapacityLimiter] = RunVar("threads of tools")


@overload
def tool(function: Callable[..., object], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect = "side_effects",
    needs_approval: bool = False,
    scope: Scope | None = None,
    timeout_seconds: float = 30,
    output_limit: int | None = None,
    outside: bool = False,
) -> Callable[[Callable[..., object]], FunctionTool]: ...


def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect = "side_effects",
    needs_approval: bool = False,
    scope: Scope | None = None,
    timeout_seconds: float = 30,
    output_limit: int | None = None,
    outside: bool = False,
) -> FunctionTool | Callable[[Callable[..., object]], FunctionTool]:
    """Make a `Tool` of a typed function, sync or async. Stands over it as a decorator.

    Args:
        function: what is called; None where the decorator is given other arguments.
        name: what the model calls it; None for the function's name.
        description: what the model is told; None for the first paragraph of the docstring.
        effect: what running it twice would do.
        needs_approval: whether a person must agree to each call.
        scope: what a yes that is remembered covers, see `ScopesApproval`; None: every call.
        timeout_seconds: how long one call may take.
        output_limit: characters of one result that a model is given; None for the registry's.
        outside: whether the results hold words of others: the model is given them as quotes.

    Raises:
        ConfigurationError: the function cannot become a tool; says why.
    """

    def made(function: Callable[..., object]) -> FunctionTool:
        called = name or str(getattr(function, "__name__", ""))
        if not _NAME.fullmatch(called):
            raise ConfigurationError(
                f"{called!r} cannot be the name of a tool.",
                advice="Use up to 64 ASCII letters, digits, `_` and `-`.",
            )
        summary = description or _first_paragraph(function)
        if not summary:
            raise ConfigurationError(
                f"`{called}` does not say what it is for.",
                advice="Give it a docstring, or a description.",
            )
        if not timeout_seconds > 0:
            raise ConfigurationError(
                f"`{called}` may take {timeout_seconds} seconds.",
                advice="Give it more than 0 seconds.",
            )
        if output_limit is not None and output_limit < 1:
            raise ConfigurationError(
                f"`{called}` gives a model {output_limit} characters.",
                advice="Give it an `output_limit` of 1 or more, or none.",
            )
        check_effect(effect, called)
        arguments, context_parameter = arguments_of(function, name=called)
        return FunctionTool(
            definition=ToolDefinition(
                name=called, description=summary, parameters=parameters_schema(arguments)
            ),
            effect=effect,
            needs_approval=needs_approval,
            timeout_seconds=timeout_seconds,
            function=function,
            arguments=arguments,
            context_parameter=context_parameter,
            scope=scope,
            output_limit=output_limit,
            outside=outside,
        )

    return made if function is None else made(function)


def check_effect(effect: object, name: str) -> None:
    """See to it that a tool says what running it twice would do.

    Raises:
        ConfigurationError: it says something else; names what there is.
    """
    if effect not in _EFFECTS:
        meant = did_you_mean(str(effect), _EFFECTS)
        raise ConfigurationError(
            f"{effect!r} is not an effect; `{name}` says so in `effect`.",
            advice=f"Say read_only, idempotent or side_effects.{meant}",
        )


def in_words(result: object) -> str:
    """A function's result as the model reads it: text as it is, values as JSON."""
    if result is None:
        return "Done."
    if isinstance(result, str):
        return well_formed(result)
    # The work is done by now: a value that JSON does not know is shown by its repr rather than
    # reported as a failure, which would have the model do the work again.
    plain = to_jsonable_python(result, serialize_unknown=True, bytes_mode="base64")
    return well_formed(json.dumps(writable(plain), ensure_ascii=False))


def _first_paragraph(function: Callable[..., object]) -> str:
    paragraph = (inspect.getdoc(function) or "").split("\n\n", 1)[0]
    return " ".join(paragraph.split())
