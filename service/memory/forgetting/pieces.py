"""Pieces of memory in events: what memory put before a model, or gave to its tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import ToolResult
from service.domain.conversation.quoting import MARK, in_one_line
from service.domain.conversation.tool_definitions import MEMORY_EXPAND, MEMORY_TOOLS
from service.domain.errors import BadAnchorError
from service.domain.history.events import EventBody, MemoryRecalled, ToolFinished
from service.domain.run_loops import Iteration, RunLoop
from service.memory.forgetting.redaction import redacted
from service.memory.ledger.segmenter import segments_of

Ref = tuple[str, int]
"""A run loop, and an iteration of it."""
_PIECE = re.compile(r"^\[(\S{1,400}?:\d{1,9}\.\d{1,9})\] ", re.MULTILINE)
"""Where a piece begins in a result of memory's tools; notes name anchors at the ends of lines."""
_QUOTE = re.compile(rf"^{MARK}", re.MULTILINE)
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
    found = {ref[:2] for ref in _anchors(_ANCHOR, body.whole or body.content)}
    if body.name == MEMORY_EXPAND:
        # It tells with which words the run loop began, whatever else it shows of it.
        found |= {(run_loop_id, 0) for run_loop_id, _ in found}
    return frozenset(found)


def _anchors(pattern: re.Pattern[str], text: str) -> Iterator[AnchorRef]:
    for match in pattern.finditer(text):
        try:
            yield AnchorRef.parse(match[1])
        except BadAnchorError:
            continue


def without_pieces(body: EventBody, gone: frozenset[Ref]) -> EventBody:
    """What memory gave, without these pieces; a tool's result goes whole, as it tells of them."""
    if isinstance(body, MemoryRecalled):
        kept = tuple(each for each in body.recollections if each.anchor.ref[:2] not in gone)
        return body.model_copy(update={"recollections": kept})
    return redacted(body)


def without_stale(
    body: EventBody, refs: Container[Ref], run_loop: Callable[[str], RunLoop | None]
) -> EventBody:
    """What memory gave, without what does not stand where it says any more.

    Args:
        body: of an event that memory gave pieces in.
        refs: the iterations that may have lost words.
        run_loop: gives a run loop as it is now.
    """

    def words_at(ref: AnchorRef) -> str | None:
        """What stands there now, on one line; None where nothing does."""
        now = run_loop(ref.run_loop_id)
        if now is None or ref.iteration_index >= len(now.iterations):
            return None
        there = segments_of(now, ref.iteration_index)
        return next((in_one_line(e.content) for e in there if e.anchor.ref == ref), None)

    if isinstance(body, MemoryRecalled):
        kept = tuple(
            piece
            for piece in body.recollections
            if piece.anchor.ref[:2] not in refs
            or in_one_line(piece.content) in (words_at(piece.anchor.ref) or "")
        )
        return body.model_copy(update={"recollections": kept})
    if isinstance(body, ToolFinished):
        result = body.whole or body.content
        shown = in_one_line(_QUOTE.sub("", result))
        for ref in _anchors(_PIECE, result):
            if ref[:2] in refs and ((words := words_at(ref)) is None or words not in shown):
                return redacted(body)
    return body
