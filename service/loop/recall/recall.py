"""Recall: what long-term memory knows of a topic, and a person's limits, put before the model.

That happens when a loop begins, and when what a person says in it turns to another topic that
memory knows more about than the conversation does. All recall of a loop together is bounded, and
nothing is recalled twice, nor what stands in the conversation anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import anyio

from service.domain.anchors import AnchorRef, MemoryHit, SearchResult, Segment
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import RondoError
from service.domain.history.events import ErrorOccurred, EventBody, MemoryRecalled, Recollection
from service.domain.history.state import RunLoopState
from service.llm.protocol import size_of
from service.loop.executor_deps import ExecutorDeps
from service.loop.recall.answer_match import answering
from service.loop.recall.care.limit_choice import limits_that_matter
from service.loop.recall.topic_shift import of_another_topic, says_something
from service.memory.ledger.segmenter import segment
from service.memory.memory_tuning import FOLD_SHORT
from service.memory.protocol import MemoryReader, SearchFilters
from service.tuning import (
    RECALL_HITS,
    RECALL_LAST_WORDS,
    RECALL_PATIENCE_SECONDS,
    RECALL_SHARE,
    RECALL_TIMES,
    RECALL_WITHIN_COSINE,
)

_BLANK = re.compile(r"\s+(?:> )?|^> ")


async def recall_for(
    deps: ExecutorDeps, state: RunLoopState, message_ids: Sequence[str]
) -> list[EventBody]:
    """What memory knows of the messages that a loop is about to observe, as events to journal."""
    words = "\n".join(each.message.text for each in state.unseen if each.id in message_ids)
    if not words.strip() or deps.recall_tokens <= 0:
        return []
    # What was said in another loop a moment ago is to be found as well.
    with anyio.move_on_after(RECALL_PATIENCE_SECONDS):
        await deps.remembered()
    return [*await _of_topic(deps, state, words), *await _of_limits(deps, state, words)]


async def _of_topic(deps: ExecutorDeps, state: RunLoopState, words: str) -> list[EventBody]:
    budget = recall_budget(deps, state)
    if budget <= 0:
        return []
    try:
        if state.iteration_count:
            segments, answer = await _of_another_topic(deps, state, words)
        else:
            await deps.memory_ready()
            segments, answer = await _of_this_topic(deps, state, words)
    except RondoError as error:
        # Remembering is a help, not a condition: the answer goes on, the person is told.
        return [ErrorOccurred(problem=error.problem())]
    pieces = _within(_not_yet_there(segments, state), budget, answer)
    return [MemoryRecalled(recollections=pieces)] if pieces else []


async def _of_limits(deps: ExecutorDeps, state: RunLoopState, words: str) -> list[EventBody]:
    """What the person has said of their limits that matters here, whatever was recalled before."""
    try:
        pieces = await limits_that_matter(
            state, words, embed=deps.embed_for_care, memory=deps.memory
        )
    except RondoError as error:
        return [ErrorOccurred(problem=error.problem())]
    return [MemoryRecalled(recollections=tuple(pieces))] if pieces else []


def recall_budget(deps: ExecutorDeps, state: RunLoopState) -> int:
    """How much a loop may be given now: less, once it was given much."""
    at_once = min(deps.recall_tokens, int(deps.model(state).llm.context_tokens * RECALL_SHARE))
    given = sum(estimate_tokens(piece.content) for piece in state.recollections)
    return min(at_once, RECALL_TIMES * at_once - given)


async def _of_this_topic(
    deps: ExecutorDeps, state: RunLoopState, words: str
) -> tuple[list[Segment], AnchorRef | None]:
    """What a loop that begins is given: the last words of the one that it takes up, and what is
    found, with what of it seems to answer."""
    segments: list[Segment] = []
    hits: list[MemoryHit] = []
    asks = says_something(words)
    # From the journal, as it may not have been archived yet.
    predecessor = state.predecessor_id and await deps.load(state.predecessor_id)
    if predecessor:
        segments += segment(predecessor)[-RECALL_LAST_WORDS:]
    if predecessor and asks:
        narrowed = SearchFilters(run_loop_id=predecessor.id)
        within = await deps.memory.search(
            words, owner=state.owner, limit=RECALL_HITS, filters=narrowed, explain=True
        )
        hits += _telling(within)
    if not asks:
        return segments, None
    anywhere = await deps.memory.search(
        words, owner=state.owner, limit=RECALL_HITS, filters=_elsewhere(state), explain=True
    )
    # What was asked before, word for word, is nearer than any answer: that must not crowd it out.
    telling = _telling(anywhere)
    answer = _answer(deps, state, words, [*hits, *telling])
    hits += _near(telling, answer)
    return segments + await _with_neighbours(deps.memory, hits, state.owner), answer


async def _of_another_topic(
    deps: ExecutorDeps, state: RunLoopState, words: str
) -> tuple[list[Segment], AnchorRef | None]:
    """What a loop is given when a person turns to another topic, with what of it seems to answer;
    nothing when they do not."""
    offered = await deps.memory.search(
        words, owner=state.owner, limit=2 * RECALL_HITS, filters=_elsewhere(state), explain=True
    )
    hits = (await of_another_topic(words, state, offered, deps.embed))[:RECALL_HITS]
    answer = _answer(deps, state, words, hits)
    return await _with_neighbours(deps.memory, hits, state.owner), answer


def _elsewhere(state: RunLoopState) -> SearchFilters:
    """All that is remembered but this loop itself, which may be archived while it is open."""
    return SearchFilters(without_run_loop_id=state.id)


async def _with_neighbours(
    memory: MemoryReader, hits: Iterable[MemoryHit], owner: str
) -> list[Segment]:
    """Each hit with the one before and after it: an answer often stands next to its question."""
    segments: list[Segment] = []
    for hit in hits:
        around = await memory.expand(hit.anchor.ref, owner=owner, before=1, after=1)
        segments += (*around.before, around.focus, *around.after)
    return [each for each in segments if each.superseded_by is None]


def _not_yet_there(segments: Iterable[Segment], state: RunLoopState) -> Iterable[Segment]:
    """The segments, each once, that neither stand in the conversation nor were recalled for it.

    Nor what says the same word for word: the model has those words before it.
    """
    seen = {piece.anchor.ref for piece in state.recollections}
    shown = [_plain(piece.content) for piece in state.recollections]
    shown += [_plain(message.text) for message in state.history]
    shown += [_plain(unseen.message.text) for unseen in state.unseen]
    standing = "\n".join(shown)
    fork = state.forked_from
    for piece in segments:
        anchor = piece.anchor
        copied = fork and anchor.run_loop_id == fork.run_loop_id
        if (copied and anchor.timestamp <= state.created_at) or anchor.run_loop_id == state.id:
            continue
        words = _plain(piece.content)
        says_much = (
            len(words.encode()) >= FOLD_SHORT
        )  # "Yes, please." says something else each time
        if anchor.ref in seen or (says_much and words in standing):
            continue
        seen.add(anchor.ref)
        standing += f"\n{words}"
        yield piece


def _plain(text: str) -> str:
    """A text in one line, without the marks of quotes: what a tool of memory gave is quoted."""
    return _BLANK.sub(" ", text).strip()


def _telling(offered: SearchResult) -> list[MemoryHit]:
    """The hits that seem to be about it, and are about anything: thanks and a yes are not. What a
    newer fact corrects is left out: that fact stands before it."""
    return [
        hit
        for hit in offered.hits
        if hit.related and says_something(hit.content) and hit.superseded_by is None
    ]


def _near(related: Sequence[MemoryHit], answer: AnchorRef | None) -> list[MemoryHit]:
    """The hits that are not much farther from the topic than the nearest; and the answer."""
    cosines = [(hit.scores or {}).get("cosine") for hit in related]
    nearest = max((each for each in cosines if each is not None), default=0.0)
    return [
        hit
        for hit, cosine in zip(related, cosines, strict=True)
        if cosine is None or hit.anchor.ref == answer or cosine >= nearest - RECALL_WITHIN_COSINE
    ]


def _answer(
    deps: ExecutorDeps, state: RunLoopState, words: str, hits: Iterable[MemoryHit]
) -> AnchorRef | None:
    """The hit that a person is to see beside the answer, as a small model may have it wrong."""
    return None if size_of(deps.model(state).llm) == "large" else answering(words, hits)


def _within(
    segments: Iterable[Segment], max_tokens: int, answer: AnchorRef | None
) -> tuple[Recollection, ...]:
    pieces: list[Recollection] = []
    left = max_tokens
    for piece in segments:
        left -= estimate_tokens(piece.content)
        if left < 0:
            break
        pieces.append(
            Recollection(
                anchor=piece.anchor, content=piece.content, answers=piece.anchor.ref == answer
            )
        )
    return tuple(pieces)
