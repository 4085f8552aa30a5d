"""Which events of a history hold the words that the goal was made of with which its loop began."""

from __future__ import annotations

from itertools import groupby

from service.domain.history.events import (
    Event,
    EventBody,
    MessageReceived,
    RunLoopImported,
    RunLoopStarted,
)
from service.domain.history.human_input import InputReceived
from service.memory.forgetting.histories import History


def goal_told_by(history: History) -> frozenset[int]:
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
    told_by = goal_told_by(history)
    if not told_by:
        return 0 in gone
    imported = {e.seq for e in history.events if isinstance(e.body, RunLoopImported)}
    return any(0 in gone if s in imported else history.iteration_of.get(s) in gone for s in told_by)


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
