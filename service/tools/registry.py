"""The tools that are offered, and the seam at which every failure of theirs becomes a result."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast, overload

import anyio

from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.token_estimates import tool_tokens
from service.domain.conversation.tool_definitions import READ_RESULT as READ_RESULT
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition
from service.domain.errors import ConfigurationError, RondoError
from service.tools.decorator import FunctionTool, check_effect, tool
from service.tools.model_text import did_you_mean, fitted, well_formed
from service.tools.protocol import (
    AsksPerson,
    ComesAndGoes,
    InputNeeded,
    NoOutcome,
    Tool,
    ToolFailure,
    ToolSource,
    caller_is_cancelled,
    current_task,
)

_log = logging.getLogger(__name__)

OUTPUT_LIMIT = 20_000
"""Characters of one result that a model is given."""
WHOLE_LIMIT = 1_000_000
"""Characters of one result that are kept."""
_PARTS = ("definition", "effect", "needs_approval", "timeout_seconds", "run")  # of a `Tool`

Registered = TypeVar("Registered", bound=Tool)


class ToolRegistry:
    """Tools by name. Nothing that a tool does is ever raised out of `execute`."""

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., object]] = (),
        *,
        output_limit: int = OUTPUT_LIMIT,
        unavailable: Mapping[str, str] | None = None,
    ) -> None:
        """Offer tools from the start; see `register`.

        Args:
            tools: in this order.
            output_limit: characters of one result that a model is given.
            unavailable: tools that are not there, by name: why, and what to do about it.

        Raises:
            ConfigurationError: as `register`.
        """
        self._tools: dict[str, Tool] = {}
        # Found out once: to check a protocol takes longer than many a tool.
        self._asking: dict[str, AsksPerson] = {}
        self._changing: dict[str, ComesAndGoes] = {}
        self._brought: list[str] = []
        self._tokens: dict[str, tuple[ToolDefinition, int]] = {}
        self._output_limit = output_limit
        self.unavailable = dict(unavailable or {})
        """Tools that are not there, by name: why, and what to do about it."""
        self.sources: list[ToolSource] = []
        """What brings more tools while the agent is at work."""
        for each in tools:
            self.register(each)

    @overload
    def register(self, tool: Registered) -> Registered: ...

    @overload
    def register(self, tool: Callable[..., object]) -> FunctionTool: ...

    def register(self, tool: Tool | Callable[..., object]) -> Tool:
        """Offer a tool, or a typed function that becomes one as with ``@tool()``.

        The tool is given back, so that this can stand over a function as a decorator.

        Raises:
            ConfigurationError: it is no tool and cannot become one, does not say rightly what
                running it twice would do, or another tool has its name.
        """
        made = _as_tool(tool)
        name = made.definition.name
        if name in self._tools:
            raise ConfigurationError(
                f"Two tools are called `{name}`.", advice="Rename one of them, or leave it out."
            )
        self._tools[name] = made
        if isinstance(made, AsksPerson):
            self._asking[name] = made
        if isinstance(made, ComesAndGoes):
            self._changing[name] = made
        return made

    def bring(self, tool: Registered) -> Registered:
        """Offer a tool of a source, behind those that were there before: these are in the order of
        their names, whichever source was there first.

        Raises:
            ConfigurationError: as `register`.
        """
        brought = self.register(tool)
        self._brought = sorted((*self._brought, brought.definition.name))
        return brought

    def is_brought(self, name: str) -> bool:
        """Whether a source has brought this tool."""
        return name in self._brought

    def tokens_of(self, definition: ToolDefinition) -> int:
        """About how many tokens it takes to offer a tool of this registry. Counted once."""
        counted = self._tokens.get(definition.name)
        if counted is None or counted[0] is not definition:
            counted = self._tokens[definition.name] = (definition, tool_tokens((definition,)))
        return counted[1]

    def get(self, name: str) -> Tool | None:
        """The tool of this name; None when there is none."""
        return self._tools.get(name)

    def asking(self, name: str) -> AsksPerson | None:
        """The tool of this name, where it is one by which the model asks a person."""
        return self._asking.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of registration, then those that sources have brought, by name;
        with those of tools that are withheld now."""
        brought = frozenset(self._brought)
        return (*(name for name in self._tools if name not in brought), *self._brought)

    @property
    def withheld(self) -> dict[str, str]:
        """By name: why the model is not offered a tool now, and what to do about it."""
        reasons = ((name, tool.withheld) for name, tool in self._changing.items())
        return {name: reason for name, reason in reasons if reason is not None}

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told now, in the order of `names`."""
        withheld = self.withheld
        return tuple(self._tools[name].definition for name in self.names if name not in withheld)

    async def execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call to its one result. Failures are results too, in words for the model.

        Raises nothing but the caller's own cancellation and a person's Ctrl-C; and `InputNeeded`,
        where the context can ask.
        """
        task = current_task()
        notice = False
        try:
            content, is_error = await self._attempt(call, context), False
        except ToolFailure as failure:
            content, is_error = str(failure) or f"`{call.name}` failed without saying why.", True
            notice = isinstance(failure, NoOutcome)
        except asyncio.CancelledError:
            if caller_is_cancelled():
                raise
            # something that the tool waited for was cancelled: its failure, not our end
            content, is_error = f"`{call.name}` broke off before it was done.", True
            notice = True
        except InputNeeded:
            if context.can_ask:
                raise
            content, is_error = f"`{call.name}` asks a person, which cannot be done here.", True
            notice = True
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, GeneratorExit) and current_task() is not task:
                raise  # no tool raised it: this coroutine is being closed, from outside its task
            _log.warning(
                "Tool %s failed in run loop %s", call.name, context.run_loop_id, exc_info=error
            )
            content, is_error = _told(call.name, error), True
        return ToolResult(
            id=call.id,
            content=fitted(well_formed(content), WHOLE_LIMIT),
            is_error=is_error,
            notice=notice,
        )

    def brings_outside_text(self, name: str) -> bool:
        """Whether the results of a tool hold words of others, see `BringsOutsideText`."""
        return getattr(self._tools.get(name), "outside", False) is not False

    def shown(self, result: ToolResult, tool: str = "") -> str:
        """As much of a result as a model is given, with a notice of how to get the rest.

        Args:
            result: whole.
            tool: the name of the tool that gave it, whose own limit counts if it has one.
        """
        how = ""
        if READ_RESULT in self._tools:
            how = f'`{READ_RESULT}` with the call_id "{result.id}" gives them'
        of_tool = getattr(self._tools.get(tool), "output_limit", None)
        return fitted(result.content, of_tool or self._output_limit, how=how)

    async def _attempt(self, call: ToolCall, context: ToolContext) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            withheld = self.withheld
            offered = [name for name in self.names if name not in withheld]
            raise NoOutcome(
                f"There is no tool `{call.name}`.{did_you_mean(call.name, offered)} "
                f"The tools are: {', '.join(offered) or 'none'}."
            )
        with anyio.move_on_after(tool.timeout_seconds):
            return await tool.run(call.arguments, context)
        consequence = (
            "Ask for something smaller, or go on without it."
            if tool.effect == "read_only"
            else "It may have done part of its work: check before you call it again."
        )
        raise NoOutcome(
            f"`{call.name}` did not finish within {tool.timeout_seconds:g} seconds "
            f"and was given up. {consequence}"
        )


def _as_tool(given: object) -> Tool:
    # Statically: whether a part is there is asked, not what it says, which may fail.
    lacking = [f"`{part}`" for part in _PARTS if inspect.getattr_static(given, part, None) is None]
    if lacking and inspect.isroutine(given):
        return tool()(given)
    if lacking and len(lacking) < len(_PARTS):
        raise ConfigurationError(
            f"`{type(given).__name__}` is no whole tool: it lacks {_listed(lacking)}.",
            advice="Give it what the protocol `Tool` asks for.",
        )
    if lacking:
        raise ConfigurationError(
            f"{given!r} is neither a tool nor a function.",
            advice="Register a function with types and a docstring, or what `@tool()` makes of it.",
        )
    made = cast(Tool, given)
    check_effect(made.effect, made.definition.name)
    return made


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _told(name: str, error: BaseException) -> str:
    if isinstance(error, RondoError):
        return error.problem().in_words()
    try:
        reason = str(error)
    except Exception as broken:  # noqa: BLE001 - an error whose words are broken is still told
        reason = f"its message cannot be read: {type(broken).__name__}"
    return f"`{name}` failed with {type(error).__name__}" + (f": {reason}" if reason else ".")
