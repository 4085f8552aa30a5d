"""Recall: what long-term memory knows of a matter, put before the model when a loop begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from service.agent.tuned import (
    RECALL_HITS,
    RECALL_LAST_WORDS,
    RECALL_MIN_COSINE,
    RECALL_MIN_COSINE_CJK,
    RECALL_MIN_LEXICAL,
    RECALL_SHARE,
    RECALL_WITHIN_COSINE,
)
from service.agent.workbench import Workbench
from service.domain.anchors import MemoryHit, SearchResult, Segment
from service.domain.errors import RondoError
from service.domain.events import ErrorOccurred, EventBody, MemoryRecalled, Recollection
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.memory.protocol import MemoryReader, SearchFilters
from service.memory.segmenter import segment
from service.memory.tokens import estimate_tokens

_HAN = re.compile(r"[\u3400-\u9fff]")


async def recall_for(
    bench: Workbench, state: RunLoopState, message_ids: Sequence[str]
) -> list[EventBody]:
    """What memory knows of the messages that a loop is about to observe, as events to journal."""
    if state.iteration_count or not bench.recall_tokens:
        return []
    await bench.memory_ready()
    words = "\n".join(each.message.text for each in state.unseen if each.id in message_ids)
    try:
        budget = min(bench.recall_tokens, int(bench.llm.context_tokens * RECALL_SHARE))
        known = state.predecessor_id and await bench.load(state.predecessor_id)
        pieces = await recall(
            bench.memory, state, words, predecessor=known or None, max_tokens=budget
        )
    except RondoError as error:
        # Remembering is a help, not a condition: the answer goes on, the person is told.
        return [ErrorOccurred(problem=error.problem())]
    return [MemoryRecalled(recollections=pieces)] if pieces else []


async def recall(
    memory: MemoryReader,
    state: RunLoopState,
    words: str,
    *,
    predecessor: RunLoop | None,
    max_tokens: int,
) -> tuple[Recollection, ...]:
    """Pieces of long-term memory about what a loop was just told.

    A loop that takes up a finished one is given that one's last words first; then come the
    segments that fit what was said, each with the one before and after it, since the answer to a
    question often stands next to it.

    Args:
        memory: where to look.
        state: the loop.
        words: what it was told.
        predecessor: the finished loop that it takes up. Its last words come from there, as it may
            not have been archived yet.
        max_tokens: bound of all pieces together; 0 gives none.
    """
    if not words.strip() or max_tokens <= 0:
        return ()
    found: dict[str, Segment] = {}
    hits: list[MemoryHit] = []
    if predecessor is not None:
        for piece in segment(predecessor)[-RECALL_LAST_WORDS:]:
            found[piece.anchor.text] = piece
        narrowed = SearchFilters(run_loop_id=predecessor.id)
        within = await memory.search(words, owner=state.owner, limit=RECALL_HITS, filters=narrowed)
        hits += within.hits
    anywhere = await memory.search(words, owner=state.owner, limit=RECALL_HITS, explain=True)
    hits += _near(anywhere, words)
    for hit in hits:
        if hit.anchor.run_loop_id == state.id:
            continue
        around = await memory.expand(hit.anchor.ref, owner=state.owner, before=1, after=1)
        for piece in (*around.before, around.focus, *around.after):
            found.setdefault(piece.anchor.text, piece)
    return _within(found.values(), max_tokens)


def _near(found: SearchResult, words: str) -> list[MemoryHit]:
    """The hits that say something about the matter, and are not merely the best of nothing."""
    part, bound = "lexical", RECALL_MIN_LEXICAL
    if found.mode == "hybrid":
        nearest = max(((hit.scores or {}).get("cosine", 0.0) for hit in found.hits), default=0.0)
        least = RECALL_MIN_COSINE_CJK if _HAN.search(words) else RECALL_MIN_COSINE
        part, bound = "cosine", max(least, nearest - RECALL_WITHIN_COSINE)
    return [hit for hit in found.hits if (hit.scores or {}).get(part, 0.0) >= bound]


def _within(segments: Iterable[Segment], max_tokens: int) -> tuple[Recollection, ...]:
    pieces: list[Recollection] = []
    left = max_tokens
    for piece in segments:
        left -= estimate_tokens(piece.content)
        if left < 0:
            break
        pieces.append(Recollection(anchor=piece.anchor, content=piece.content))
    return tuple(pieces)
