"""Which tools the model is offered."""

from __future__ import annotations

from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.history.state import RunLoopState
from service.loop.executor_deps import ExecutorDeps
from service.tools.registry import READ_RESULT, ToolRegistry


def opening_tools(tools: ToolRegistry) -> tuple[ToolDefinition, ...]:
    """The tools with which every conversation begins."""
    return tuple(each for each in tools.definitions() if each.name != READ_RESULT)


def offered_tools(deps: ExecutorDeps, state: RunLoopState) -> tuple[ToolDefinition, ...]:
    """The tools of Rondo, less those that make no sense in this state.

    What reads on in an over-long result is offered from the first such result on: where there is
    none it would only distract, small models above all.
    """
    return deps.tools.definitions() if state.cut_results else opening_tools(deps.tools)
