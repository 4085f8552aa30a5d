"""Compaction, the pure part: which stretches of a conversation are summarised, and what then stands
in their place.

Old rounds are summarised one by one, from the oldest on, until enough is won; small ones, of which
a summary would not be shorter, several together. Only when that is not enough, the first steps of
the newest round are; what a person said last stays word for word. When the summaries themselves
take too much, the oldest are merged into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import IMAGE_WORDS, Message, NotePart
from service.domain.history.state import RunLoopState
from service.loop.context.conversation_rounds import (
    Span,
    anchors_in,
    is_note,
    is_summary,
    places,
    rounds,
    steps,
    summary_head,
    words_end,
)
from service.loop.context.model_context import messages_tokens
from service.loop.context.shortening import brief
from service.tuning import (
    COMPACT_LEAST_GAIN,
    GROUP_TOKENS,
    KEPT_WORDS_TOKENS,
    SUMMARIES_SHARE,
    SUMMARY_LEAST_TOKENS,
    SUMMARY_MOST_SHARE,
    SUMMARY_MOST_TOKENS,
    SUMMARY_SHARE,
)

_AROUND_TOKENS = 80  # the note's own words and its anchors
_BEGINNING = "[This conversation began earlier than is shown here.]"


@dataclass(frozen=True, slots=True)
class Room:
    """How long a call may be, all in estimated tokens."""

    beside: int
    """What stands beside the history: system message, tools, what is about to land."""
    limit: int
    """How long the whole call may be."""
    target: int
    """To which length it is to be brought down."""
    urgent: bool = False
    """Whether the endpoint has refused the call: then the smallest gain counts."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the history that is to become a summary."""

    kind: Literal["round", "steps", "summaries"]
    span: Span
    """For `steps` it begins with the words that the summary will stand beside."""
    first: AnchorRef
    last: AnchorRef
    """Where the first and the last iteration of it are found in long-term memory."""
    max_tokens: int
    """How long the summary may be."""


# --- which stretches


def plan(state: RunLoopState, room: Room) -> list[Piece]:
    """What is to be summarised, in order; nothing where it would win too little."""
    history = state.history
    if not history:
        return []
    size = messages_tokens(history)
    surplus = room.beside + size - room.target
    must = room.beside + size - room.limit
    *old, newest = rounds(history)
    where = places(state)
    pieces: list[Piece] = []
    won = 0
    for span in _grouped(history, old):
        if won >= surplus:
            break
        won += _take(pieces, state, "round", span, where, room)
    if must > won or (room.urgent and surplus > won):
        kind, stretch = _of_newest(state, newest, room)
        if stretch is not None:
            won += _take(pieces, state, kind, stretch, where, room)
    least = 1 if room.urgent else int(room.limit * COMPACT_LEAST_GAIN)
    return pieces if won >= least else []


def _grouped(history: Sequence[Message], old: Sequence[Span]) -> Iterator[Span]:
    """The rounds that were not summarised yet, and small ones together with those after them."""
    group: Span | None = None
    for span in old:
        if is_summary(history, span):
            if group is not None:
                yield group
            group = None
            continue
        group = Span(span.start if group is None else group.start, span.end)
        if messages_tokens(history[group.start : group.end]) >= GROUP_TOKENS:
            yield group
            group = None
    if group is not None:
        yield group


def plan_merge(history: Sequence[Message], room: Room) -> Piece | None:
    """The oldest summaries, where all of them together take too much."""
    summaries = []
    for span in rounds(history):
        if not is_summary(history, span):
            break
        summaries.append(span)
    sizes = [messages_tokens(history[span.start : span.end]) for span in summaries]
    most = int(room.limit * SUMMARIES_SHARE)
    if sum(sizes) <= most or len(summaries) < 2:
        return None
    # All but the newest of them that take half of what they may.
    count, kept = len(summaries), 0
    while count > 2 and kept + sizes[count - 1] <= most // 2:
        count -= 1
        kept += sizes[count]
    span = Span(0, summaries[count - 1].end)
    ends = [anchors for at in range(*span) if (anchors := anchors_in(history[at]))]
    if not ends:
        return None
    bound = _bound(sum(sizes[:count]), room)
    return Piece("summaries", span, ends[0][0], ends[-1][1], bound)


def _take(
    pieces: list[Piece],
    state: RunLoopState,
    kind: Literal["round", "steps"],
    span: Span,
    where: Sequence[int],
    room: Room,
) -> int:
    """Add a piece where it makes the conversation shorter; gives by how much at least."""
    history = state.history
    if is_summary(history, span):
        return 0
    size = messages_tokens(history[span.start : span.end])
    bound = _bound(size, room)
    words = history[span.start : words_end(history, span)]
    kept = messages_tokens(words)
    if kind == "round":
        kept = min(kept, KEPT_WORDS_TOKENS)
    won = size - kept - bound - _AROUND_TOKENS
    if won <= 0:
        return 0
    first, last = _anchors(state, where[span.start], where[span.end - 1])
    pieces.append(Piece(kind, span, first, last, bound))
    return won


def _of_newest(
    state: RunLoopState, newest: Span, room: Room
) -> tuple[Literal["round", "steps"], Span | None]:
    """What may be summarised of the newest round."""
    history = state.history
    if state.unseen and state.is_answered and not state.cut_off:
        return "round", newest  # it is not the newest any more
    begin = words_end(history, newest)
    if begin == newest.start:
        return "steps", None
    left = (room.target - room.beside - messages_tokens(history[newest.start : begin])) // 2
    older = steps(history, newest)[:-1]
    while older and left >= (size := messages_tokens(history[older[-1].start : older[-1].end])):
        left -= size
        older.pop()
    return "steps", Span(begin - 1, older[-1].end) if older else None


def _bound(size: int, room: Room) -> int:
    share = int(size * SUMMARY_SHARE)
    most = max(min(SUMMARY_MOST_TOKENS, int(room.limit * SUMMARY_MOST_SHARE)), SUMMARY_LEAST_TOKENS)
    return min(max(share, SUMMARY_LEAST_TOKENS), most)


def _anchors(state: RunLoopState, first: int, last: int) -> tuple[AnchorRef, AnchorRef]:
    """The anchors of iterations, or of their neighbours where they hold no words to be found."""
    there = range(first, min(last + 1, state.iteration_count))
    begin = next((index for index in there if _has_words(state, index)), first)
    end = next((index for index in reversed(there) if _has_words(state, index)), last)
    return AnchorRef(state.id, begin, 0), AnchorRef(state.id, end, 0)


def _has_words(state: RunLoopState, index: int) -> bool:
    """Whether long-term memory finds anything in an iteration."""
    iteration = state.iteration_at(index)
    if iteration is None:
        return False
    texts = (iteration.user_message, iteration.reasoning, iteration.response)
    return bool(iteration.tool_calls) or any(text and text.strip() for text in texts)


# --- what stands in their place


def summarised(history: Sequence[Message], summaries: Mapping[Piece, str]) -> list[Message]:
    """The history with summaries in the place of their pieces; a piece that they do not make
    shorter stays as it is.
    """
    result: list[Message] = []
    at = 0
    for piece, text in sorted(summaries.items(), key=lambda item: item[0].span):
        messages = history[piece.span.start : piece.span.end]
        new = _summary(piece, messages, text)
        result += history[at : piece.span.start]
        result += new if messages_tokens(new) < messages_tokens(messages) else messages
        at = piece.span.end
    return [*result, *history[at:]]


def difference(old: Sequence[Message], new: Sequence[Message]) -> tuple[int, tuple[Message, ...]]:
    """How many of the first messages were replaced, and by what."""
    same = 0
    while same < min(len(old), len(new)) and old[-1 - same] is new[-1 - same]:
        same += 1
    return len(old) - same, tuple(new[: len(new) - same])


def _summary(piece: Piece, messages: Sequence[Message], text: str) -> list[Message]:
    head = partial(summary_head, first=piece.first, last=piece.last)
    match piece.kind:
        case "round":
            said = [each for each in messages if each.role == "user" and not is_note(each)]
            share = KEPT_WORDS_TOKENS // max(len(said), 1)
            words = "\n\n".join(_kept(each, share) for each in said)
            asked = Message.user(words) if words.strip() else _note("user", _BEGINNING)
            note = f"{head('Summary of what you then did and said.')}\n{text}"
            return [asked, _note("assistant", note)]
        case "steps":
            note = f"{head('Summary of what you have done for this so far.')}\n{text}"
            parts = [each for each in messages[0].content if not isinstance(each, NotePart)]
            return [Message(role="user", content=(*parts, NotePart(note=note)))]
        case "summaries":
            note = f"{head('Summary of what was said and done until then.')}\n{text}"
            return [_note("user", _BEGINNING), _note("assistant", note)]


def _kept(message: Message, max_tokens: int) -> str:
    """A person's words, cut where they are long."""
    images = [IMAGE_WORDS] * len(message.images)
    return " ".join(filter(None, [brief(message.text, max_tokens), *images]))


def _note(role: Literal["user", "assistant"], note: str) -> Message:
    return Message(role=role, content=(NotePart(note=note),))
