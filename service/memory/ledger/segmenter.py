"""Cuts run loops into segments: the pieces that are indexed, found and given an address.

The order within an iteration is fixed, because it decides the anchors: the user's message, the
reasoning, each tool call followed at once by its result, results that belong to no call, the
response. A text that is too long becomes several segments; put together again, they are the text,
character for character. Blank texts give no segment.

Nor do the results that are no memory: notices, which are Rondo's own words, and what the tools that
quote gave, which is remembered where it was said; nor the marks of what was forgotten. They are
counted all the same, so that other segments have the anchors that they had before. So are a
reminder as Rondo tells it, and its words where they are told again and again.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from service.domain.anchors import Anchor, Segment, SegmentType
from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.token_estimates import dense_prefix_within, estimate_dense_tokens
from service.domain.conversation.tool_definitions import QUOTING_TOOLS
from service.domain.forgetting_terms import FORGOTTEN, FORGOTTEN_ARGUMENTS
from service.domain.run_loops import Iteration, RunLoop
from service.memory.memory_tuning import SEGMENT_TOKENS, SMALLEST_PIECE
from service.schedules.schedule import is_telling, is_told_again

_BORDERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n[^\S\n]*\n(?:[^\S\n]*\n)*",  # paragraphs
        r"(?<=[.!?])[\"'”’)\]]*[^\S\n]+|[。！？；…]+[\"'”’」』）】]*[^\S\n]*|\n",  # sentences
        r"[,;:]\s+|[，、：]\s*",  # clauses
        r"\s+",  # words
    )
)
"""Where a text may be cut, the best places first: at the end of a match. A line keeps the blanks
that it begins with, as they mean something in code."""

_ZERO_WIDTH_JOINER = "\u200d"


def segment(run_loop: RunLoop) -> list[Segment]:
    """All segments of a run loop, in order. Pure: the same loop always gives the same ones."""
    return [
        piece for index in range(len(run_loop.iterations)) for piece in segments_of(run_loop, index)
    ]


def segments_of(run_loop: RunLoop, iteration_index: int) -> list[Segment]:
    """The segments of one iteration of a run loop, in order."""
    iteration = run_loop.iterations[iteration_index]
    return [
        Segment(
            anchor=Anchor(
                run_loop_id=run_loop.id,
                iteration_index=iteration_index,
                segment_index=segment_index,
                segment_type=words.segment_type,
                timestamp=iteration.timestamp,
            ),
            content=content,
            owner=run_loop.owner,
            call_id=words.call_id,
        )
        for segment_index, (words, content) in enumerate(_pieces(iteration))
        if words.is_memory and content != FORGOTTEN
    ]


def split(text: str, *, max_tokens: int = SEGMENT_TOKENS) -> list[str]:
    """Cut a text into pieces of at most `max_tokens`, at the best borders there are.

    Tokens are estimated by `token_estimates.estimate_dense_tokens`, which bounds
    `token_estimates.estimate_tokens`.

    A character is never parted from the marks that combine with it, unless those alone are longer
    than a piece. A blank piece is left with its neighbour, whatever its length. Takes time in
    proportion to the text.

    >>> split("One sentence. Another one.", max_tokens=4)
    ['One sentence. ', 'Another one.']
    """
    if not text.strip():
        return []
    begin, spans = 0, list[tuple[int, int]]()
    for start, end in _spans(text, max_tokens):
        if not text[start:end].isspace():
            spans.append((begin, end))
            begin = end
        elif spans:
            spans[-1] = (spans[-1][0], end)
            begin = end
    return [text[start:end] for start, end in spans]


class _Words(NamedTuple):
    """A text of an iteration, uncut."""

    segment_type: SegmentType
    text: str
    call_id: str | None = None
    is_memory: bool = True


def _pieces(iteration: Iteration) -> Iterator[tuple[_Words, str]]:
    if iteration.forgotten:
        return
    for words in _texts(iteration):
        for piece in split(words.text):
            yield words, piece


def _texts(iteration: Iteration) -> Iterator[_Words]:
    is_new = not is_told_again(iteration.metadata)
    yield _Words("user_message", iteration.user_message or "", is_memory=is_new)
    yield _Words("reasoning", iteration.reasoning or "")
    results = _by_call(iteration.tool_results)
    for call in iteration.tool_calls:
        is_there = call.arguments != FORGOTTEN_ARGUMENTS
        yield _Words("tool_call", f"{call.name} {call.arguments}", call.id, is_there)
        if results[call.id]:
            yield _result(results[call.id].popleft(), call)
    for left_over in results.values():
        for result in left_over:
            yield _result(result)
    is_own = is_telling(iteration.metadata)
    yield _Words("response", iteration.response or "", is_memory=not is_own)


def _result(result: ToolResult, call: ToolCall | None = None) -> _Words:
    quotes = call is not None and call.name in QUOTING_TOOLS
    is_memory = not (result.notice or quotes)
    return _Words("tool_result", result.content, result.id, is_memory)


def _by_call(results: Iterable[ToolResult]) -> defaultdict[str, deque[ToolResult]]:
    """Results by the id of their call. Imported histories may use an id twice: first come first."""
    by_call: defaultdict[str, deque[ToolResult]] = defaultdict(deque)
    for result in results:
        by_call[result.id].append(result)
    return by_call


def _spans(text: str, max_tokens: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = start + dense_prefix_within(text, max_tokens, start=start)
        if end < len(text):
            end = start + _cut(text, start, _length_wanted(text, start, max_tokens))
        yield start, end
        start = end


def _length_wanted(text: str, start: int, max_tokens: int) -> int:
    """A whole piece, but of the last two neither shall be a mere scrap."""
    if start + dense_prefix_within(text, 2 * max_tokens, start=start) == len(text):
        max_tokens = min(max_tokens, estimate_dense_tokens(text[start:]) * 5 // 8)
    return dense_prefix_within(text, max_tokens, start=start)


def _cut(text: str, start: int, length: int) -> int:
    """The length, at most `length`, after which the text from `start` on is best cut."""
    window = text[start : start + length]
    smallest = max(1, int(length * SMALLEST_PIECE))
    for border in _BORDERS:
        ends = [match.end() for match in border.finditer(window)]
        for end in reversed(ends):
            if end < smallest:
                break
            if not _belongs_together(text, start + end):
                return end
    for end in range(length, 0, -1):
        if not _belongs_together(text, start + end):
            return end
    return length


def _belongs_together(text: str, at: int) -> bool:
    """Whether readers see one character on both sides of `at`.

    An approximation of the grapheme clusters of Unicode (UAX 29): combining marks, joined emoji,
    skin tones, flags, Korean jamo, CR LF, and the two halves of a surrogate pair.
    """
    if at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or _ZERO_WIDTH_JOINER in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags, as in the flag of Wales
        or (_is_regional(before) and _is_regional(after))
        or ("\u1100" <= before <= "\u11ff" and "\u1160" <= after <= "\u11ff")
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
