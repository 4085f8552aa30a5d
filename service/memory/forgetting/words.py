"""The words of iterations: the first of them, what tells them, and events without them.

Events that hold the words which a run loop's goal was made of belong to the words as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from service.domain.conversation.messages import IMAGE_WORDS
from service.domain.history.events import (
    CompactionFinished,
    Event,
    EventBody,
    MessageReceived,
    RunLoopImported,
    RunLoopStarted,
)
from service.domain.history.human_input import InputReceived
from service.domain.history.redaction import redacted, redacted_import
from service.domain.run_loops import Iteration
from service.memory.forgetting.histories import History
from service.memory.forgetting.pieces import results_of_others
from service.memory.forgetting.recognition import Traits


def opening_events(history: History) -> frozenset[int]:
    """The numbers of these events.

    A loop is opened by its first message. A fork may begin with another goal than the loop that it
    came from did: that of the message, or of those observed together, that told what that loop was
    about when it was forked.
    """
    by_number = {event.seq or 0: event for event in history.events}
    first = min(history.message_ids, default=None)
    brought_in = next(
        (event for event in history.events if isinstance(event.body, RunLoopImported)), None
    )
    if brought_in is not None and (first is None or (brought_in.seq or 0) < first):
        first = brought_in.seq
    opened = frozenset[int]() if first is None else frozenset((first,))
    opening = history.events[0].body
    if not isinstance(opening, RunLoopStarted) or opening.forked_from is None:
        return opened
    said = [by_number[seq] for seq in sorted(history.message_ids)]
    seqs = {
        event.seq or 0
        for _, together in groupby(said, key=lambda each: history.iteration_of.get(each.seq or 0))
        for event in _telling(opening.goal, list(together))
    }
    if brought_in is not None:
        return opened | seqs  # its goal is what the file says, be it said or not
    return frozenset(seqs) or opened


def opens_with(history: History, gone: frozenset[int]) -> bool:
    """Whether the goal with which the loop began is of the words of some of its iterations."""
    openings = opening_events(history)
    if not openings:
        return 0 in gone
    imported = {e.seq for e in history.events if isinstance(e.body, RunLoopImported)}
    return any(
        0 in gone if s in imported else history.iteration_of.get(s) in gone for s in openings
    )


def _telling(goal: str, together: list[Event]) -> list[Event]:
    """Which of the messages that were observed together told it: all, some, or none."""
    words = [_words(event.body) for event in together]
    if "\n\n".join(words).strip() == goal.strip():
        return together
    return [e for e, each in zip(together, words, strict=True) if each.strip() == goal.strip()]


def _words(body: EventBody) -> str:
    match body:
        case MessageReceived(message=message):
            return message.words
        case InputReceived(choices=choices, text=text):  # heard as a message
            return "\n".join(choices) if choices else text or ""
    return ""


_FIRST_WORDS = 200


def first_words(iteration: Iteration) -> str:
    """The beginning of what an iteration holds, for a person to know it by."""
    called = "; ".join(f"{call.name} {call.arguments}" for call in iteration.tool_calls)
    words = iteration.user_message or iteration.response or iteration.reasoning or called
    return clipped(words)


def clipped(words: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(words[: 2 * _FIRST_WORDS].split())
    return line if len(line) <= _FIRST_WORDS else f"{line[:_FIRST_WORDS].rstrip()} …"


def redactions(history: History, gone: frozenset[int]) -> Iterator[tuple[int, EventBody]]:
    """The events of a history that hold words of these iterations, by number, without them."""
    for event in history.events:
        seq, body = event.seq or 0, event.body
        place = history.iteration_of.get(seq)
        if isinstance(body, RunLoopImported):
            yield seq, redacted_import(body, gone)
        elif isinstance(body, RunLoopStarted):
            if opens_with(history, gone):
                yield seq, redacted(body)
        elif isinstance(body, CompactionFinished):
            if history.summarised[seq] & gone:
                yield seq, redacted(body)
        elif place in gone and (new := redacted(body)) != body:
            yield seq, new


def traits_of(history: History, gone: frozenset[int]) -> Traits:
    """What tells the words of these iterations."""
    traits = Traits()
    for index, iteration in enumerate(history.state.run_loop().iterations):
        if index in gone:
            said = (iteration.user_message or "").replace(IMAGE_WORDS, "")
            traits |= Traits.of([said, *strings_in(iteration.metadata)], by_person=True)
            traits |= Traits.of(_of_others(iteration))
    if not history.events or opens_with(history, gone):
        traits |= Traits.of([history.state.goal.replace(IMAGE_WORDS, "")], by_person=True)
    return traits


def _of_others(iteration: Iteration) -> Iterator[str]:
    """What the model said in an iteration, and what tools gave it."""
    yield from filter(None, (iteration.reasoning, iteration.response))
    yield from (call.arguments for call in iteration.tool_calls)
    # What memory gave has its place elsewhere, and failures are told in words of Rondo.
    for result in results_of_others(iteration):
        if not (result.is_error or result.notice):
            yield result.content


def strings_in(value: Any) -> Iterator[str]:
    """All texts in JSON, names of members among them."""
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield from (key, *strings_in(each))
        case list():
            for each in value:
                yield from strings_in(each)
