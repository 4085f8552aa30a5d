"""Pieces of memory in events: what memory put before a model, or gave to its tools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from service.domain.anchors import AnchorRef
from service.domain.errors import BadAnchorError
from service.domain.events import EventBody, MemoryRecalled, ToolFinished
from service.domain.messages import ToolResult
from service.domain.run_loops import Iteration
from service.domain.tools import MEMORY_EXPAND, MEMORY_TOOLS
from service.memory.forgetting.redaction import redacted

Ref = tuple[str, int]
"""A run loop, and an iteration of it."""
_ANCHOR = re.compile(r"\[(\S{1,400}?:\d{1,9}\.\d{1,9})\]")


def results_of_others(iteration: Iteration) -> Iterator[ToolResult]:
    """What tools gave in an iteration, but for those of memory.

    Others may write the like of anchors, too, and what they tell is their own.
    """
    of_memory = {call.id for call in iteration.tool_calls if call.name in MEMORY_TOOLS}
    return (each for each in iteration.tool_results if each.id not in of_memory)


def pieces_in(body: EventBody) -> frozenset[Ref]:
    """Of which run loops' which iterations an event holds pieces that memory gave."""
    if isinstance(body, MemoryRecalled):
        return frozenset(piece.anchor.ref[:2] for piece in body.recollections)
    if not isinstance(body, ToolFinished) or body.name not in MEMORY_TOOLS:
        return frozenset()
    found = set[Ref]()
    for match in _ANCHOR.finditer(body.whole or body.content):
        try:
            found.add(AnchorRef.parse(match[1])[:2])
        except BadAnchorError:
            continue
    if body.name == MEMORY_EXPAND:
        # It tells with which words the run loop began, whatever else it shows of it.
        found |= {(run_loop_id, 0) for run_loop_id, _ in found}
    return frozenset(found)


def without_pieces(body: EventBody, gone: frozenset[Ref]) -> EventBody:
    """What memory gave, without these pieces; a tool's result goes whole, as it tells of them."""
    if isinstance(body, MemoryRecalled):
        kept = tuple(each for each in body.recollections if each.anchor.ref[:2] not in gone)
        return body.model_copy(update={"recollections": kept})
    return redacted(body)
