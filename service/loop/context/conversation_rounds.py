"""How a conversation falls into rounds and steps, and which iteration each message belongs to.

A round is what a person said and all that followed; a step is a message of the assistant's with the
results of its tool calls. Neither is ever parted, so that every call keeps its result.

Compaction leaves two marks in a conversation, both notes of Rondo. A message of the assistant's
that holds nothing but a note is a summary of the round. A note behind a person's own words is a
summary of the first steps that followed them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message, NotePart
from service.domain.errors import BadAnchorError
from service.domain.history.state import RunLoopState
from service.domain.run_loops import Iteration

_HEAD = re.compile(r"\[[^\n]*?memory_expand: (?P<first>\S+) to (?P<last>\S+)\]")


class Span(NamedTuple):
    """A stretch of a conversation, by the indices of its messages: from `start` to before `end`."""

    start: int
    end: int


def rounds(history: Sequence[Message]) -> list[Span]:
    """The rounds, in order; together they are the whole conversation."""
    starts = [
        index
        for index, message in enumerate(history)
        if index == 0 or (_is_spoken(message) and not _is_spoken(history[index - 1]))
    ]
    return [Span(*ends) for ends in pairwise([*starts, len(history)])]


def words_end(history: Sequence[Message], span: Span) -> int:
    """Where the steps of a round begin, after the person's words."""
    return next((at for at in range(*span) if history[at].role != "user"), span.end)


def steps(history: Sequence[Message], span: Span) -> list[Span]:
    """The steps of a round, in order. What Rondo says in between belongs to the one before."""
    begin = words_end(history, span)
    starts = [at for at in range(begin, span.end) if history[at].role == "assistant"]
    return [Span(*ends) for ends in pairwise([*starts, span.end])]


def is_note(message: Message) -> bool:
    """Whether a message holds nothing but words of Rondo."""
    return bool(message.content) and all(isinstance(part, NotePart) for part in message.content)


def is_summary(history: Sequence[Message], span: Span) -> bool:
    """Whether a round was summarised before."""
    last = history[span.end - 1]
    return last.role == "assistant" and not last.tool_calls and is_note(last)


def _is_spoken(message: Message) -> bool:
    return message.role == "user" and not is_note(message)


# --- which iteration


def summary_head(what: str, first: AnchorRef, last: AnchorRef) -> str:
    """How a summary's note begins: what it is, and where what it stands for is found."""
    return f"[{what} Word for word, memory_expand: {first} to {last}]"


def anchors_in(message: Message) -> tuple[AnchorRef, AnchorRef] | None:
    """The first and the last iteration that a summary stands for; None without a summary."""
    for part in message.content:
        match = _HEAD.match(part.note) if isinstance(part, NotePart) else None
        if match is not None:
            try:
                return AnchorRef.parse(match["first"]), AnchorRef.parse(match["last"])
            except BadAnchorError:
                return None
    return None


def places(state: RunLoopState) -> list[int]:
    """For each message of the history, the index of the iteration that it belongs to.

    Goes back from the newest message. Where an earlier compaction has been, its anchors lead on.
    """
    history = state.history
    indexes = [0] * len(history)
    at, index = len(history), state.iteration_count - 1
    while at > 0 and index >= 0:
        summarised = anchors_in(history[at - 1])
        if summarised is not None:
            index = summarised[0].iteration_index
        if summarised is not None and history[at - 1].role == "assistant":
            start = _words_start(history, at - 1, None)
            indexes[at - 1] = summarised[1].iteration_index
            indexes[start : at - 1] = [index] * (at - 1 - start)
        else:
            start = _iteration_start(history, at, state.iteration_at(index))
            indexes[start:at] = [index] * (at - start)
        at, index = start, index - 1
    return indexes


def _iteration_start(history: Sequence[Message], at: int, iteration: Iteration | None) -> int:
    """Where the messages of an iteration begin, of which the last stands before `at`."""
    if iteration is None or iteration.moved_to is not None:
        return at
    results = len(iteration.tool_results)
    while at and results and history[at - 1].role == "tool":
        at, results = at - 1, results - 1
    answered = iteration.response or iteration.reasoning or iteration.tool_calls
    if answered and at and history[at - 1].role == "assistant" and not is_note(history[at - 1]):
        at -= 1
    return _words_start(history, at, iteration.user_message or "")


def _words_start(history: Sequence[Message], at: int, words: str | None) -> int:
    """Where the words before `at` begin: those of one iteration, or, for None, all of them."""
    while at and history[at - 1].role == "user":
        text = history[at - 1].words
        if words is not None and not words.endswith(text):
            break
        if words is not None:
            words = words[: len(words) - len(text)].removesuffix("\n\n")
        at -= 1
    return at
