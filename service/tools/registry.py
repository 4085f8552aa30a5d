"""The tools that are offered, and the seam at which every failure of theirs becomes a result."""

from __future__ import annotations

import asyncio
import logging

import anyio

from service.domain.errors import ConfigurationError, RondoError
from service.domain.messages import ToolCall, ToolResult
from service.domain.tools import ToolContext, ToolDefinition
from service.tools.cancelled import caller_is_cancelled, current_task
from service.tools.protocol import AsksPerson, Tool, ToolFailure
from service.tools.text import did_you_mean, fitted, well_formed

_log = logging.getLogger(__name__)

OUTPUT_LIMIT = 20_000
"""Characters of one result that a model is given."""
WHOLE_LIMIT = 1_000_000
"""Characters of one result that are kept."""
READ_RESULT = "read_result"
"""The tool that gives the rest of an over-long result."""


class ToolRegistry:
    """Tools by name. Nothing that a tool does is ever raised out of `execute`."""

    def __init__(self, *, output_limit: int = OUTPUT_LIMIT) -> None:
        self._tools: dict[str, Tool] = {}
        # Found out once: to check a protocol takes longer than many a tool.
        self._asking: dict[str, AsksPerson] = {}
        self._output_limit = output_limit

    def register(self, tool: Tool) -> None:
        """Offer a tool.

        Raises:
            ConfigurationError: another tool has this name.
        """
        name = tool.definition.name
        if name in self._tools:
            raise ConfigurationError(
                f"Two tools are called `{name}`.", advice="Rename one of them, or leave it out."
            )
        self._tools[name] = tool
        if isinstance(tool, AsksPerson):
            self._asking[name] = tool

    def get(self, name: str) -> Tool | None:
        """The tool of this name; None when there is none."""
        return self._tools.get(name)

    def asking(self, name: str) -> AsksPerson | None:
        """The tool of this name, where it is one by which the model asks a person."""
        return self._asking.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of registration."""
        return tuple(self._tools)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told, in the order of registration."""
        return tuple(tool.definition for tool in self._tools.values())

    async def execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call to its one result. Failures are results too, in words for the model.

        Raises nothing but the caller's own cancellation and a person's Ctrl-C.
        """
        task = current_task()
        try:
            content, is_error = await self._attempt(call, context), False
        except ToolFailure as failure:
            content, is_error = str(failure) or f"`{call.name}` failed without saying why.", True
        except asyncio.CancelledError:
            if caller_is_cancelled():
                raise
            # something that the tool waited for was cancelled: its failure, not our end
            content, is_error = f"`{call.name}` broke off before it was done.", True
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
            id=call.id, content=fitted(well_formed(content), WHOLE_LIMIT), is_error=is_error
        )

    def shown(self, result: ToolResult) -> str:
        """As much of a result as a model is given, with a notice of how to get the rest."""
        how = ""
        if READ_RESULT in self._tools:
            how = f'`{READ_RESULT}` with the call_id "{result.id}" gives them'
        return fitted(result.content, self._output_limit, how=how)

    async def _attempt(self, call: ToolCall, context: ToolContext) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            offered = ", ".join(self.names) or "none"
            raise ToolFailure(
                f"There is no tool `{call.name}`.{did_you_mean(call.name, self.names)} "
                f"The tools are: {offered}."
            )
        with anyio.move_on_after(tool.timeout_seconds):
            return await tool.run(call.arguments, context)
        consequence = (
            "Ask for something smaller, or go on without it."
            if tool.effect == "read_only"
            else "It may have done part of its work: check before you call it again."
        )
        raise ToolFailure(
            f"`{call.name}` did not finish within {tool.timeout_seconds:g} seconds "
            f"and was given up. {consequence}"
        )


def _told(name: str, error: BaseException) -> str:
    if isinstance(error, RondoError):
        return error.problem().in_words()
    try:
        reason = str(error)
    except Exception as broken:  # noqa: BLE001 - an error whose words are broken is still told
        reason = f"its message cannot be read: {type(broken).__name__}"
    return f"`{name}` failed with {type(error).__name__}" + (f": {reason}" if reason else ".")
