"""Finding what was said before, in long-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from service.domain.anchors import MemoryHit
from service.domain.tools import ToolContext
from service.tools.decorator import FunctionTool, tool

if TYPE_CHECKING:
    from service.memory.protocol import MemoryReader

_MOST_HITS = 20
_MOST_TOKENS = 4_000  # what a small context can spare


def memory_search_tool(memory: MemoryReader) -> FunctionTool:
    """The `memory_search` tool over a long-term memory. Each owner finds their own words only."""

    @tool(effect="read_only")
    async def memory_search(
        query: Annotated[
            str, Field(min_length=1, description="What to find: words or a question, any language.")
        ],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=_MOST_HITS)] = 8,
    ) -> str:
        """Search everything that was said in earlier conversations, word for word.

        What stood around a hit is given by `memory_expand`.
        """
        result = await memory.search(
            query, owner=context.owner, limit=limit, max_tokens=_MOST_TOKENS
        )
        notice = f"\n\nNotice: {result.notice}" if result.notice else ""
        if not result.hits:
            return f"Nothing was found in memory for {query!r}. Other words may find it.{notice}"
        hits = "\n\n".join(_in_words(hit) for hit in result.hits)
        return (
            "Found in memory, best first. Give an [anchor] to memory_expand to see what stood "
            f"around it.\n\n{hits}{notice}"
        )

    return memory_search


def _in_words(hit: MemoryHit) -> str:
    anchor = hit.anchor
    date = f"{anchor.timestamp.astimezone():%Y-%m-%d %H:%M}"
    return f"[{anchor}] {date}, {anchor.segment_type}\n{hit.content}"
