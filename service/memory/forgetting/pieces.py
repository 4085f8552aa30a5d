"""Pieces of memory in events: what memory put before a model, or gave to its tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import ToolResult
from service.domain.conversation.tool_definitions import MEMORY_EXPAND, MEMORY_TOOLS
from service.domain.errors import BadAnchorError
from service.domain.history.events import EventBody, MemoryRecalled, Recollection, ToolFinished
from service.domain.history.redaction import redacted
from service.domain.history.references import Quotation
from service.domain.run_loops import Iteration
from service.domain.text import MARK

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
    refs = frozenset(_anchored(body.whole or body.content))
    if body.name == MEMORY_EXPAND:
        # It tells with which words the run loop began, whatever else it shows of it.
        refs |= {(run_loop_id, 0) for run_loop_id, _ in refs}
    return refs


def in_words(body: EventBody, quotations: Sequence[Quotation]) -> frozenset[Ref]:
    """The pieces of an event that are kept in words, and not as references.

    Args:
        body: of an event that memory gave pieces in.
        quotations: what its texts are made of.
    """
    if isinstance(body, MemoryRecalled):
        return frozenset(piece.anchor.ref[:2] for piece in _pieces_in_words(body, quotations))
    if not isinstance(body, ToolFinished) or not quotations:
        return pieces_in(body)
    words = "".join(part for each in quotations for part in each.words if isinstance(part, str))
    lines = words.splitlines()
    if any(line.startswith(MARK) for line in lines):
        return pieces_in(body)
    # What is left names pieces without their words; but a note tells what it cites.
    return frozenset(ref for line in lines if line.startswith("- ") for ref in _anchored(line))


def _anchored(text: str) -> Iterator[Ref]:
    for match in _ANCHOR.finditer(text):
        try:
            yield AnchorRef.parse(match[1])[:2]
        except BadAnchorError:
            continue


def _pieces_in_words(body: MemoryRecalled, quotations: Sequence[Quotation]) -> list[Recollection]:
    fields = {each.field for each in quotations}
    pieces = enumerate(body.recollections)
    return [each for index, each in pieces if f"recollections.{index}.content" not in fields]


def without_pieces(
    body: EventBody, gone: frozenset[Ref], quotations: Sequence[Quotation]
) -> EventBody:
    """What memory gave, without the words that it holds of these pieces.

    A tool's result goes whole, as it tells of them.
    """
    if isinstance(body, MemoryRecalled):
        dropped = [p for p in _pieces_in_words(body, quotations) if p.anchor.ref[:2] in gone]
        kept = tuple(each for each in body.recollections if each not in dropped)
        return body.model_copy(update={"recollections": kept})
    return redacted(body)
