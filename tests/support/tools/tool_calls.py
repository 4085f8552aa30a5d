"""What the tests of the tools share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import anyio

from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.tool_definitions import ToolContext
from service.tools.protocol import Tool
from service.tools.registry import ToolRegistry

CONTEXT = ToolContext(owner="me", run_loop_id="loop", idempotency_key="key")


def call_of(name: str, call_id: str = "call", /, **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=json.dumps(arguments, ensure_ascii=False))


def registry_of(*tools: Tool) -> ToolRegistry:
    registry = ToolRegistry()
    for tool in tools:
        registry.register(tool)
    return registry


async def result_of(tool: Tool, /, **arguments: object) -> ToolResult:
    """What the model gets when it calls this tool."""
    return await registry_of(tool).execute(call_of(tool.definition.name, **arguments), CONTEXT)


async def execute_all(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    context_of: Callable[[ToolCall], ToolContext],
) -> list[ToolResult]:
    """Run calls side by side, as a run loop does; their results in the order of the calls."""
    results: dict[int, ToolResult] = {}

    async def execute(number: int, call: ToolCall) -> None:
        results[number] = await registry.execute(call, context_of(call))

    async with anyio.create_task_group() as group:
        for number, call in enumerate(calls):
            group.start_soon(execute, number, call)
    return [results[number] for number in range(len(calls))]
