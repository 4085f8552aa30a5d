"""Reading on around a piece of long-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from service.domain.anchors import AnchorRef, Segment
from service.domain.tools import ToolContext
from service.tools.decorator import FunctionTool, tool

if TYPE_CHECKING:
    from service.memory.protocol import MemoryReader

_MOST_AROUND = 20
_MOST_TOKENS = 4_000  # what a small context can spare


def memory_expand_tool(memory: MemoryReader) -> FunctionTool:
    """The `memory_expand` tool over a long-term memory. Each owner reads their own words only."""

    @tool(effect="read_only")
    async def memory_expand(
        anchor: Annotated[
            str, Field(description="As memory_search gives it, such as 01jd3v6k2m9x4q8w:0.1.")
        ],
        context: ToolContext,
        before: Annotated[int, Field(ge=0, le=_MOST_AROUND, description="Pieces before it.")] = 3,
        after: Annotated[int, Field(ge=0, le=_MOST_AROUND, description="Pieces after it.")] = 3,
    ) -> str:
        """Show what stood before and after a piece of memory, word for word."""
        expanded = await memory.expand(
            AnchorRef.parse(anchor),
            owner=context.owner,
            before=before,
            after=after,
            max_tokens=_MOST_TOKENS,
        )
        loop = expanded.run_loop
        date = f"{loop.created_at.astimezone():%Y-%m-%d %H:%M}"
        pieces = (
            *(_in_words(segment) for segment in expanded.before),
            f">>> {_in_words(expanded.focus)}",
            *(_in_words(segment) for segment in expanded.after),
        )
        head = f"From the conversation of {date} ({loop.status}) that began with: {loop.goal}"
        return "\n\n".join((head, *pieces))

    return memory_expand


def _in_words(segment: Segment) -> str:
    return f"[{segment.anchor}] {segment.anchor.segment_type}\n{segment.content}"
