"""Who has seen forgotten words: which run loops were shown them, and from which event on.

A model sees what was said before in its run loop, what memory puts before it, and what the tools of
memory give it; what it says from then on may tell the words. Whoever is shown that has seen them,
too. All of these ways are events with references, so nothing is guessed here.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from typing import NamedTuple

from service.domain.history.events import (
    Event,
    EventBody,
    MemoryRecalled,
    RouteDecided,
    ToolFinished,
)
from service.memory.forgetting.histories import History
from service.memory.forgetting.pieces import Ref, pieces_in
from service.memory.forgetting.recognition import Traits


class Shown(NamedTuple):
    """An event by which a run loop came to know what was said elsewhere."""

    event: Event
    refs: frozenset[Ref]
    """Run loop and iteration of each piece of memory."""
    moved_from: str | None = None
    """The run loop that a message came from, with what had followed there."""


class Sight(NamedTuple):
    """That a run loop has seen some of the words."""

    seq: int
    """The event from which on it has."""
    order: int
    traits: Traits
    """What tells the words that it has seen."""


class Provenance:
    """Follows words through the run loops that stay, in the order of events."""

    def __init__(
        self,
        gone: Callable[[Ref], Traits | None],
        gone_from: Callable[[str], Traits | None],
        history: Callable[[str], History],
    ) -> None:
        """Nothing is followed yet.

        Args:
            gone: gives the traits of an iteration that goes; None: it stays.
            gone_from: the same for a run loop that goes whole.
            history: reads a run loop that stays.
        """
        self._gone = gone
        self._gone_from = gone_from
        self._history = history
        self._sights: dict[str, list[Sight]] = {}
        self._together: dict[tuple[str, int, int], Traits] = {}
        self._count = 0
        self.handed_on: dict[int, frozenset[Ref]] = {}
        """By the number of an event that showed pieces: those of iterations that stay, and whose
        authors had seen the words."""

    @property
    def run_loops(self) -> list[str]:
        """All that have seen some of the words."""
        return list(self._sights)

    def add(self, run_loop_id: str, seq: int, traits: Traits) -> None:
        """A run loop has seen words from an event on."""
        self._count += 1
        insort(self._sights.setdefault(run_loop_id, []), Sight(seq, self._count, traits))

    def first(self, run_loop_id: str) -> int:
        """The event from which on a run loop has seen some."""
        return self._sights[run_loop_id][0].seq

    def before(self, run_loop_id: str, seq: int) -> Traits | None:
        """What a run loop had seen by an event; None: nothing."""
        seen = [sight for sight in self._sights.get(run_loop_id, ()) if sight.seq <= seq]
        if not seen:
            return None
        key = run_loop_id, seen[-1].order, len(seen)
        if key not in self._together:
            self._together[key] = _together(sight.traits for sight in seen)
        return self._together[key]

    def follow(self, shown: Iterable[Shown]) -> None:
        """See who has seen words by these events, in their order: nothing is shown before it is
        said."""
        for each in shown:
            event = each.event
            seq = event.seq or 0
            said = _not_by_a_person(each)
            handed_on = {ref for ref in said if self._seen_by(ref, seq) is not None}
            self.handed_on[seq] = frozenset(handed_on)
            sources = [self._in_pieces(event.body, each.refs)]
            sources += [self._seen_by(ref, seq) for ref in handed_on]
            if each.moved_from is not None:
                sources += [self._gone_from(each.moved_from), self.before(each.moved_from, seq)]
            seen = [traits for traits in sources if traits is not None]
            if seen:
                self.add(event.run_loop_id, seq, _together(seen))

    def _seen_by(self, ref: Ref, seq: int) -> Traits | None:
        """What the authors of an iteration that stays had seen when it was shown."""
        run_loop_id, iteration = ref
        if run_loop_id not in self._sights or self._gone(ref) is not None:
            return None
        places = self._history(run_loop_id).iteration_of.items()
        last = max((at for at, place in places if place == iteration and at < seq), default=0)
        return self.before(run_loop_id, last)

    def _in_pieces(self, body: EventBody, refs: Iterable[Ref]) -> Traits | None:
        """What tells the words of which pieces were shown."""
        gone = {ref: traits for ref in refs if (traits := self._gone(ref)) is not None}
        if not gone:
            return None
        if isinstance(body, MemoryRecalled):
            pieces = [e.content for e in body.recollections if e.anchor.ref[:2] in gone]
            return Traits.of(pieces, by_person=True)
        if isinstance(body, ToolFinished):
            result = body.whole or body.content
            return _together(traits.within(result) for traits in gone.values())
        return Traits()


def shown_by(event: Event) -> Shown | None:
    """What a run loop came to know by an event; None where that is nothing."""
    if isinstance(event.body, RouteDecided):
        moved_from = event.body.route.moved_from
        return None if moved_from is None else Shown(event, frozenset(), moved_from)
    refs = pieces_in(event.body)
    return Shown(event, refs) if refs else None


def _not_by_a_person(shown: Shown) -> frozenset[Ref]:
    """The iterations of which more was shown than a person's words, as far as can be told."""
    body = shown.event.body
    if not isinstance(body, MemoryRecalled):
        return shown.refs
    anchors = (piece.anchor for piece in body.recollections)
    return frozenset(each.ref[:2] for each in anchors if each.segment_type != "user_message")


def _together(traits: Iterable[Traits]) -> Traits:
    union = Traits()
    for each in traits:
        union |= each
    return union
