"""Which of a person's limits stand beside a message: those that matter to it, by meaning.

They come from the run loop itself, where a small model has long lost sight of them, and from
long-term memory. One that is told needlessly costs a line, one that is missed can cost more. Of two
that contradict each other both are told, the newest first (`limit_wording.py`). Each sentence of a
message is looked at by itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from service.domain.anchors import Anchor, Segment
from service.domain.errors import RondoError
from service.domain.history.events import Recollection
from service.domain.history.state import RunLoopState
from service.loop.recall.care.limit_model import CareModel, shipped
from service.loop.recall.topic_shift import says_something
from service.memory.ledger.segmenter import segments_of
from service.memory.protocol import NearSegment, RecallReader, Vectors
from service.routing.open_loop_vectors import EmbedQueries, embedded_text
from service.tuning import (
    CARE_CANDIDATES,
    CARE_LONGEST_SENTENCE,
    CARE_LOOKED_AT,
    CARE_MOST,
    CARE_OWN_MESSAGES,
    CARE_ROUGHLY,
    CARE_SAME_TOPIC,
    CARE_SENTENCES,
    CARE_TELLS_ONLY,
)

_log = logging.getLogger(__name__)

_BORDER = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])|\s*\n\s*")
_QUOTED = re.compile(r"\"[^\"]+\"|“[^”]+”|「[^」]+」|『[^』]+』|《[^》]+》")
_SAYS = re.compile(r"\w")


def sentences(text: str) -> list[str]:
    """Sentences of a text, in order; of a long text those at its beginning and at its end.

    What is longer than anybody would say of themselves in one sentence is none.

    >>> sentences("Hi! I can't eat dairy.\\n我对花生过敏。能吃吗？")
    ['Hi!', "I can't eat dairy.", '我对花生过敏。', '能吃吗？']
    """
    pieces = [piece.strip() for piece in _BORDER.split(text)]
    pieces = [piece for piece in pieces if 1 < len(piece) <= CARE_LONGEST_SENTENCE]
    if len(pieces) <= CARE_SENTENCES:
        return pieces
    half = CARE_SENTENCES // 2
    return [*pieces[:half], *pieces[-half:]]


def own_words(sentence: str) -> str:
    """A sentence without what it quotes, which somebody else says; a quote alone stays.

    >>> own_words('Translate "I am allergic to nuts" to German.')
    'Translate … to German.'
    >>> own_words("“I can't eat dairy.”")
    "“I can't eat dairy.”"
    """
    left = _QUOTED.sub("…", sentence)
    return left if _SAYS.search(left) else sentence


def quoted_from(parts: Sequence[str], text: str) -> list[str]:
    """What is quoted of a text for these sentences of it: all from the first to the last of them.

    Where that is long, each by itself. What takes back stands beside what it takes back: "I said I
    was allergic. That was wrong."
    """
    start, last = text.find(parts[0]), parts[-1]
    end = text.rfind(last) + len(last)
    if 0 <= start < end and end - start <= CARE_LONGEST_SENTENCE:
        return [text[start:end]]
    return list(parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Limit:
    """Something that a person said of their limits."""

    anchor: Anchor
    words: str
    sentences: tuple[str, ...]
    """The sentences that tell it."""
    vectors: Vectors
    """One row for each of them."""


async def limits_that_matter(
    state: RunLoopState, words: str, *, embed: EmbedQueries, memory: RecallReader
) -> list[Recollection]:
    """What the person said before that limits what is good for them in what they say now.

    Args:
        state: the run loop.
        words: what the person says.
        embed: gives vectors; none where there is no embedder that the model knows.
        memory: long-term memory.

    Returns:
        Oldest first; nothing where the person only tells another limit.
    """
    said = sentences(words)
    if not said or not says_something(words):
        return []
    asked = list(dict.fromkeys([embedded_text(words, "user"), *said]))
    vectors = await embed(asked)
    if vectors is None:
        return []
    model = shipped()
    only_tells = model.limit_logits(vectors[-len(said) :]) >= CARE_TELLS_ONLY
    if only_tells.all():
        return []
    pieces = _own(state)
    own_refs = {piece.anchor.ref for piece in pieces}
    near = await _remembered(memory, model, vectors, state.owner)
    pieces += [piece for piece in near if piece.anchor.ref not in own_refs]
    limits = _each_once(await _limits(pieces, model, embed))
    chosen = _chosen(limits, model, _importance(model, asked, vectors))
    return [Recollection(anchor=each.anchor, content=each.words, heed=True) for each in chosen]


def _own(state: RunLoopState) -> list[Segment]:
    """What the person said in this run loop before: the newest of it, as memory has the rest."""
    run_loop, count = state.run_loop(), state.iteration_count
    return [
        piece
        for index in range(max(0, count - CARE_OWN_MESSAGES), count)
        if run_loop.iterations[index].user_message
        for piece in segments_of(run_loop, index)
        if piece.anchor.segment_type == "user_message"
    ]


async def _remembered(
    memory: RecallReader, model: CareModel, asked: Vectors, owner: str
) -> list[Segment]:
    """What memory has that may tell a limit: of what is near the message, and of all limits."""
    towards = model.limit / np.linalg.norm(model.limit)
    queries = np.vstack([asked[:1], towards[None]]).astype(np.float32)
    near: Sequence[NearSegment] = ()
    try:
        near = await memory.nearest(
            queries, owner=owner, types=frozenset({"user_message"}), limit=CARE_CANDIDATES
        )
    except RondoError as error:  # what was said in this loop is known all the same
        _log.warning("limits are not looked up in memory: %s", error.problem().in_words())
    if not near:
        return []
    kept = np.stack([each.vector for each in near])
    roughly = model.limit_logits(kept) >= CARE_ROUGHLY
    order = np.argsort(-(kept @ asked[0]), kind="stable")
    return [near[at].segment for at in order if roughly[at]][:CARE_LOOKED_AT]


async def _limits(pieces: Sequence[Segment], model: CareModel, embed: EmbedQueries) -> list[_Limit]:
    """What of these messages tells limits."""
    parts = [(piece, each) for piece in pieces for each in sentences(piece.content)]
    vectors = await embed([own_words(each) for _, each in parts]) if parts else None
    if vectors is None:
        return []
    tells = model.limit_logits(vectors) >= model.limits_from
    limits = []
    for piece in pieces:
        mine = [n for n, (of, _) in enumerate(parts) if of is piece and tells[n]]
        if not mine:
            continue
        limit_sentences = [parts[n][1] for n in mine]
        quoted = quoted_from(limit_sentences, piece.content)
        if len(quoted) == 1:
            limits.append(_Limit(piece.anchor, quoted[0], tuple(limit_sentences), vectors[mine]))
        else:
            limits += [
                _Limit(piece.anchor, each, (each,), vectors[[n]])
                for n, each in zip(mine, limit_sentences, strict=True)
            ]
    return limits


def _each_once(limits: Iterable[_Limit]) -> list[_Limit]:
    """The limits, oldest first; of those that say the same word for word, the newest."""
    ordered = sorted(limits, key=lambda each: (each.anchor.timestamp, each.anchor.ref))
    newest = {" ".join(each.words.split()).casefold(): each for each in ordered}
    return [each for each in ordered if each in newest.values()]


def _importance(
    model: CareModel, asked: Sequence[str], vectors: Vectors
) -> Callable[[_Limit], float]:
    """How surely a limit matters to any sentence of a message, or to the whole of it."""

    def importance(limit: _Limit) -> float:
        return max(
            float(model.importance_logits(limit.sentences, limit.vectors, words, vector).max())
            for words, vector in zip(asked, vectors, strict=True)
        )

    return importance


def _chosen(
    limits: Sequence[_Limit], model: CareModel, importance: Callable[[_Limit], float]
) -> list[_Limit]:
    """Those that matter most, each with the newer one that speaks of the same; oldest first."""
    surely = [importance(each) for each in limits]
    chosen = set[int]()
    for at in sorted(range(len(limits)), key=lambda n: -surely[n]):
        if surely[at] < model.matters_from or len(chosen) >= CARE_MOST:
            break
        newer = range(at + 1, len(limits))
        near = {n: _nearness(model, limits[n], limits[at]) for n in newer}
        following = max(near, key=lambda n: near[n], default=at)
        chosen.add(at)
        if near.get(following, -1.0) >= CARE_SAME_TOPIC:
            chosen.add(following)
    return [limits[at] for at in sorted(chosen)]


def _nearness(model: CareModel, one: _Limit, other: _Limit) -> float:
    """How near two limits are: those of the same topic may contradict each other."""
    ours = model.said.directions(one.sentences, one.vectors)
    theirs = model.said.directions(other.sentences, other.vectors)
    return float((ours @ theirs.T).max())
