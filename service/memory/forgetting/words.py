"""The words of iterations: the first of them, what tells them, and events without them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.domain.conversation.messages import IMAGE_WORDS
from service.domain.history.events import (
    CompactionFinished,
    EventBody,
    RunLoopImported,
    RunLoopStarted,
)
from service.domain.history.redaction import redacted, redacted_import
from service.domain.run_loops import Iteration
from service.memory.forgetting.histories import History
from service.memory.forgetting.openings import opens_with
from service.memory.forgetting.pieces import results_of_others
from service.memory.forgetting.recognition import Traits

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
