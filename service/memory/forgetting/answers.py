"""What was said by those who had seen forgotten words: where it tells them, and where not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from service.domain.conversation.tool_definitions import MEMORY_TOOLS
from service.domain.forgetting_terms import PartOfPlace, PlaceThatSaw
from service.domain.history.events import (
    Event,
    EventBody,
    MemoryRecalled,
    RunLoopImported,
    ToolFinished,
)
from service.domain.history.redaction import redacted
from service.memory.forgetting.descent import Doomed
from service.memory.forgetting.pieces import Ref
from service.memory.forgetting.provenance import Provenance
from service.memory.forgetting.recognition import IsCommon, Traits
from service.memory.forgetting.selective_redaction import (
    Tells,
    import_without,
    part_of,
    without_telling,
)
from service.memory.forgetting.words import clipped


class Answer(NamedTuple):
    """An event with words of somebody who had seen those that go."""

    event: Event
    tells: bool
    """Whether it tells them."""
    untold: EventBody
    """The event without what tells them."""
    bare: EventBody
    """The event without any words of theirs."""


class Places:
    """Gathers events as the places that people are shown: one for each iteration."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, int | None], dict[PartOfPlace, str]] = {}

    def add(self, run_loop_id: str, iteration: int | None, answer: Answer, body: EventBody) -> None:
        """Another event of a place."""
        left = answer.untold if answer.tells else answer.bare
        if isinstance(body, RunLoopImported) and isinstance(left, RunLoopImported):
            pairs = zip(body.run_loop.iterations, left.run_loop.iterations, strict=True)
            for index, (before, after) in enumerate(pairs):
                if before != after:
                    self._put(run_loop_id, index, "import", before.response or before.reasoning)
        else:
            self._put(run_loop_id, iteration, *part_of(body))

    def _put(
        self, run_loop_id: str, iteration: int | None, part: PartOfPlace, words: str | None
    ) -> None:
        self._parts.setdefault((run_loop_id, iteration), {}).setdefault(part, words or "")

    def places(self) -> list[PlaceThatSaw]:
        """All of them, in the order in which they came."""
        return [
            PlaceThatSaw(
                run_loop_id=run_loop_id,
                iteration=iteration,
                parts=tuple(parts),
                words=clipped(parts.get("answer") or next(iter(parts.values()))),
            )
            for (run_loop_id, iteration), parts in self._parts.items()
        ]


class Answers:
    """Goes through the run loops that have seen words. Blocks; reads only."""

    def __init__(
        self, stays: Callable[[str], Doomed], provenance: Provenance, is_common: IsCommon
    ) -> None:
        """Nothing is gone through yet.

        Args:
            stays: gives a run loop that stays, with what of it goes anyway.
            provenance: who has seen what.
            is_common: tells what is said elsewhere, too.
        """
        self._stays = stays
        self._provenance = provenance
        self._is_common = is_common
        self._tell: set[Ref] = set()
        """The iterations in which something tells the words."""
        self.telling = Places()
        self.others = Places()

    def follow(self) -> Iterator[Answer]:
        """All that was said by those who had seen the words, in the order of events."""
        events = [
            event
            for run_loop_id in self._provenance.run_loops
            for event in self._stays(run_loop_id).history.events
            if (event.seq or 0) >= self._provenance.first(run_loop_id)
        ]
        for event in sorted(events, key=lambda each: each.seq or 0):
            answer = self._answer(event)
            if answer is None:
                continue
            place = self._stays(event.run_loop_id).history.iteration_of.get(event.seq or 0)
            body = self._stays(event.run_loop_id).bodies.get(event.seq or 0, event.body)
            (self.telling if answer.tells else self.others).add(
                event.run_loop_id, place, answer, body
            )
            if answer.tells and place is not None:
                self._tell.add((event.run_loop_id, place))
            yield answer

    def _answer(self, event: Event) -> Answer | None:
        doomed = self._stays(event.run_loop_id)
        seq = event.seq or 0
        if doomed.history.iteration_of.get(seq) in doomed.iterations:
            return None  # it goes anyway
        body = doomed.bodies.get(seq, event.body)
        traits = self._provenance.before(event.run_loop_id, seq)
        if traits is None:
            return None
        tells = self._telling(traits)
        untold: EventBody
        bare: EventBody
        match body:
            case MemoryRecalled():
                untold, bare = self._recalled(body, seq, tells)
            case RunLoopImported():
                untold, bare = _imported(body, doomed, tells)
            case _:
                untold, bare = self._said(body, seq, tells), without_telling(body, bool)
        if untold == body and bare == body:
            return None
        return Answer(event, untold != body, untold, bare)

    def _telling(self, traits: Traits) -> Tells:
        return lambda text: bool(text) and traits.revealed_in(text, self._is_common)

    def _said(self, body: EventBody, seq: int, tells: Tells) -> EventBody:
        shown = self._provenance.handed_on.get(seq, frozenset())
        if isinstance(body, ToolFinished) and body.name in MEMORY_TOOLS and shown & self._tell:
            return redacted(body)
        return without_telling(body, tells)

    def _recalled(
        self, body: MemoryRecalled, seq: int, tells: Tells
    ) -> tuple[MemoryRecalled, MemoryRecalled]:
        """Pieces of others who had seen the words; what a person said there is not theirs."""
        seen = self._provenance.handed_on.get(seq, frozenset())
        theirs = [
            piece
            for piece in body.recollections
            if piece.anchor.ref[:2] in seen and piece.anchor.segment_type != "user_message"
        ]
        telling = [p for p in theirs if p.anchor.ref[:2] in self._tell or tells(p.content)]
        left = [
            body.model_copy(
                update={"recollections": tuple(e for e in body.recollections if e not in gone)}
            )
            for gone in (telling, theirs)
        ]
        return left[0], left[1]


def _imported(
    body: RunLoopImported, doomed: Doomed, tells: Tells
) -> tuple[RunLoopImported, RunLoopImported]:
    """Of a run loop from a file: what was said there after the words."""
    first = min(doomed.iterations, default=None)
    if first is None:
        return body, body

    def is_later(index: int) -> bool:
        return index > first and index not in doomed.iterations

    return (
        import_without(body, lambda index, text: is_later(index) and tells(text)),
        import_without(body, lambda index, text: is_later(index)),
    )
