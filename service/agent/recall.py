"""Recall: what long-term memory knows of a matter, put before the model when a loop begins."""

from __future__ import annotations

from collections.abc import Iterable

from service.agent.tuned import (
    RECALL_HITS,
    RECALL_MIN_COSINE,
    RECALL_MIN_LEXICAL,
    RECALL_WITHIN_COSINE,
)
from service.domain.anchors import MemoryHit, SearchResult, Segment
from service.domain.events import Recollection
from service.domain.state import RunLoopState
from service.memory.protocol import MemoryReader, SearchFilters
from service.memory.tokens import estimate_tokens


async def recall(
    memory: MemoryReader, state: RunLoopState, *, max_tokens: int
) -> tuple[Recollection, ...]:
    """Pieces of long-term memory about what a loop was just told.

    A loop that takes up a finished one is given that one's last words first; then come the
    segments that fit what was said, each with the one before and after it, since the answer to a
    question often stands next to it.

    Args:
        memory: where to look.
        state: a loop whose newest messages have not been observed yet.
        max_tokens: bound of all pieces together; 0 gives none.
    """
    words = "\n".join(message.text for message in state.unseen).strip()
    if not words or max_tokens <= 0:
        return ()
    found: dict[str, Segment] = {}
    hits: list[MemoryHit] = []
    if state.predecessor_id is not None:
        for segment in await _last_words(memory, state.predecessor_id, state.owner):
            found[segment.anchor.text] = segment
        narrowed = SearchFilters(run_loop_id=state.predecessor_id)
        hits += (
            await memory.search(words, owner=state.owner, limit=RECALL_HITS, filters=narrowed)
        ).hits
    anywhere = await memory.search(words, owner=state.owner, limit=RECALL_HITS, explain=True)
    hits += _near(anywhere)
    for hit in hits:
        if hit.anchor.run_loop_id == state.id:
            continue
        around = await memory.expand(hit.anchor.ref, owner=state.owner, before=1, after=1)
        for segment in (*around.before, around.focus, *around.after):
            found.setdefault(segment.anchor.text, segment)
    return _within(found.values(), max_tokens)


async def _last_words(memory: MemoryReader, run_loop_id: str, owner: str) -> tuple[Segment, ...]:
    """The last segments of a remembered loop."""
    loop = await memory.run_loop(run_loop_id, owner=owner)
    if loop is None or not loop.iterations:
        return ()
    newest = await memory.search(
        loop.iterations[-1].response or loop.goal,
        owner=owner,
        limit=1,
        filters=SearchFilters(run_loop_id=run_loop_id),
    )
    if not newest.hits:
        return ()
    around = await memory.expand(newest.hits[0].anchor.ref, owner=owner, before=3, after=3)
    return (*around.before, around.focus, *around.after)


def _near(found: SearchResult) -> list[MemoryHit]:
    """The hits that say something about the matter, and are not merely the best of nothing."""
    part, bound = "lexical", RECALL_MIN_LEXICAL
    if found.mode == "hybrid":
        nearest = max(((hit.scores or {}).get("cosine", 0.0) for hit in found.hits), default=0.0)
        part, bound = "cosine", max(RECALL_MIN_COSINE, nearest - RECALL_WITHIN_COSINE)
    return [hit for hit in found.hits if (hit.scores or {}).get(part, 0.0) >= bound]


def _within(segments: Iterable[Segment], max_tokens: int) -> tuple[Recollection, ...]:
    pieces: list[Recollection] = []
    left = max_tokens
    for segment in segments:
        left -= estimate_tokens(segment.content)
        if left < 0:
            break
        pieces.append(Recollection(anchor=segment.anchor, content=segment.content))
    return tuple(pieces)
