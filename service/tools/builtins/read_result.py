"""Reading on in a tool result that was too long to be shown whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import Field

from service.domain.conversation.messages import ToolResult
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.run_loops import RunLoop
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure
from service.tools.registry import OUTPUT_LIMIT, READ_RESULT

PAGE = OUTPUT_LIMIT - 2_000
"""Characters of one page: with the words around it, less than the registry cuts at."""
_MOST_NAMED = 20

Load = Callable[[str], Awaitable[RunLoop | None]]
"""Gives a run loop by its id; None when it is gone."""


def read_result_tool(load: Load) -> FunctionTool:
    """The `read_result` tool: it reads the results of the run loop that it is called in.

    Args:
        load: where run loops are found.
    """

    @tool(name=READ_RESULT, effect="read_only", outside=True)
    async def read_result(
        call_id: Annotated[str, Field(description="As the notice in the result gives it.")],
        context: ToolContext,
        start: Annotated[int, Field(ge=0, description="The first character to read.")] = 0,
    ) -> str:
        """Read on in a tool result that was cut because it is too long."""
        run_loop = await load(context.run_loop_id)
        if run_loop is None or run_loop.owner != context.owner:
            raise ToolFailure("This conversation's results cannot be read any more.")
        whole = _found(run_loop, call_id).content
        if start >= len(whole):
            raise ToolFailure(
                f"The result has {len(whole):,} characters: start is below {len(whole)}."
            )
        end = min(start + PAGE, len(whole))
        head = f"[Characters {start:,} to {end:,} of {len(whole):,} of the result {call_id}]"
        more = f"[It goes on: `{READ_RESULT}` with start={end}.]"
        return "\n\n".join((head, whole[start:end], more if end < len(whole) else "[Its end.]"))

    return read_result


def _found(run_loop: RunLoop, call_id: str) -> ToolResult:
    """The newest long result of this id: some endpoints give the same ids in every answer."""
    results = [
        result
        for iteration in reversed(run_loop.iterations)
        for result in reversed(iteration.tool_results)
    ]
    long = [result for result in results if len(result.content) > OUTPUT_LIMIT]
    for result in (*long, *results):
        if result.id == call_id:
            return result
    ids = ", ".join(dict.fromkeys(result.id for result in long[:_MOST_NAMED])) or "none"
    raise ToolFailure(f"There is no result {call_id[:80]!r} here. Those that were cut: {ids}.")
