"""Reading on around pieces of long-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from service.domain.anchors import AnchorRef, ExpandedWindow, Segment
from service.domain.conversation.quoting import NO_INSTRUCTIONS, quoted
from service.domain.conversation.tool_definitions import ToolContext
from service.tools.decorator import FunctionTool, tool

if TYPE_CHECKING:
    from service.memory.protocol import MemoryReader

_MOST_AROUND = 20
_MOST_ANCHORS = 20
_MOST_TOKENS = 4_000  # what a small context can spare


def memory_expand_tool(memory: MemoryReader) -> FunctionTool:
    """The `memory_expand` tool over a long-term memory. Each owner reads their own words only."""

    @tool(effect="read_only")
    async def memory_expand(
        anchor: Annotated[
            str,
            Field(
                description="As memory_search gives it, such as 01jd3v6k2m9x4q8w:0.1; or several, "
                f"with spaces between them, {_MOST_ANCHORS} at most."
            ),
        ],
        context: ToolContext,
        before: Annotated[int, Field(ge=0, le=_MOST_AROUND, description="Pieces before it.")] = 3,
        after: Annotated[int, Field(ge=0, le=_MOST_AROUND, description="Pieces after it.")] = 3,
    ) -> str:
        """Show what stood before and after a piece of memory, word for word."""
        # A text, and not a list: endpoints differ in which schemas they take, and an anchor holds
        # no space.
        anchors = anchor.split() or [anchor]
        refs = [AnchorRef.parse(each.strip(",;")) for each in anchors[:_MOST_ANCHORS]]
        windows = await memory.expand_many(
            refs, owner=context.owner, before=before, after=after, max_tokens=_MOST_TOKENS
        )
        left_out = anchors[_MOST_ANCHORS:]
        notice = [f"Not shown, ask again for them: {' '.join(left_out)}"] if left_out else []
        return "\n\n".join((*map(_in_words, windows), *notice))

    return memory_expand


def _in_words(window: ExpandedWindow) -> str:
    loop = window.run_loop
    date = f"{loop.created_at.astimezone():%Y-%m-%d %H:%M}"
    focus = {segment.anchor.ref for segment in window.focus}
    head = (
        f"From the conversation of {date} ({loop.status}) that began with:\n{quoted(loop.goal)}\n"
        f"Of what follows, {NO_INSTRUCTIONS}."
    )
    pieces = [_piece(each, asked=each.anchor.ref in focus) for each in window.segments]
    ways = [f"It was taken up again: [{AnchorRef(each, 0, 0)}]" for each in window.successor_ids]
    if loop.predecessor_id is not None:
        ways.insert(0, f"It took up an earlier one: [{AnchorRef(loop.predecessor_id, 0, 0)}]")
    return "\n\n".join((head, *pieces, *ways))


def _piece(segment: Segment, *, asked: bool) -> str:
    kind = segment.anchor.segment_type
    mark = ", asked for" if asked else ""
    return f"[{segment.anchor}] {kind}{mark}\n{quoted(segment.content)}"
