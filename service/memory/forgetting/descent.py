"""What goes because it was named, and what of it stands in other run loops by descent.

A fork begins with the events of the loop that it came from; and a loop that a person moved a
message out of still holds the events by which it came there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from service.domain.forgetting_terms import CopyKind
from service.domain.history.events import (
    Event,
    EventBody,
    MessageReceived,
    RouteDecided,
    RunLoopImported,
)
from service.domain.history.human_input import InputReceived
from service.domain.history.redaction import redacted
from service.memory.forgetting.histories import History, history_of
from service.memory.forgetting.words import opening_events, redactions
from service.memory.journal.kept_words import Copied
from service.memory.journal.protocol import Journal

_MESSAGES = (MessageReceived, RouteDecided, InputReceived)


@dataclass(slots=True)
class Doomed:
    """A run loop that stays, and what of it goes."""

    history: History
    bodies: dict[int, EventBody] = field(default_factory=dict)
    iterations: frozenset[int] = frozenset()
    """Those that go whole."""
    kinds: set[CopyKind] = field(default_factory=set)
    rendered: set[int] = field(default_factory=set)
    """Numbers of the events that only refer to what goes; those of `bodies` tell it no more."""
    own: set[int] = field(default_factory=set)
    """Numbers of the events of what was named."""


class Descent:
    """Follows what goes to forks, and back to where moved messages were. Blocks; reads only."""

    def __init__(self, journal: Journal, owner: str) -> None:
        self._journal = journal
        self._owner = owner
        self._whole: dict[str, History] = {}
        """Run loops that go whole."""
        self._staying: dict[str, Doomed] = {}
        """Run loops that stay, and what of them goes."""
        self._copies: dict[str, list[Copied]] = {}
        """By run loop: events of others that have their words from its own."""

    def _read(self, run_loop_id: str) -> History:
        return history_of(self._journal.read_blocking(run_loop_id=run_loop_id))

    def _read_whole(self, run_loop_id: str) -> History:
        """What goes whole need not be read; then copies of it are not known by their words."""
        try:
            return self._read(run_loop_id)
        except ValueError:  # pydantic's errors are of this kind too
            return History([], self._journal.histories.unread_state(run_loop_id))

    def _stays(self, run_loop_id: str) -> Doomed:
        if run_loop_id not in self._staying:
            self._staying[run_loop_id] = Doomed(self._read(run_loop_id))
        return self._staying[run_loop_id]

    def _doom(self, run_loop_id: str, iterations: frozenset[int], kind: CopyKind | None) -> None:
        """Let iterations of a loop that stays go whole."""
        doomed = self._stays(run_loop_id)
        followed, alone = doomed.history.taken_back(iterations)
        doomed.iterations |= iterations | followed
        for seq, body in redactions(doomed.history, doomed.iterations):
            doomed.bodies[seq] = body
            if kind is None:
                doomed.own.add(seq)
        if kind is not None:
            doomed.kinds.add(kind)
        if alone:
            events = [event for event in doomed.history.events if event.seq in alone]
            self._doom_alone(run_loop_id, events, kind or "moved")

    def _follow_copies(self) -> None:
        """Go on from what was named to forks, and to where moved messages were before."""
        for each in self._journal.words.copies(self._owner):
            self._copies.setdefault(each.original_in, []).append(each)
        waiting = [*self._whole, *self._staying]
        while waiting:
            waiting.extend(self._follow(waiting.pop()))

    def _is_doomed(self, run_loop_id: str, history: History, seq: int) -> bool:
        """Whether an event's words go, in a loop that goes whole or in one that stays."""
        if run_loop_id in self._whole:
            return True
        doomed = self._staying[run_loop_id]
        return seq in doomed.bodies or history.iteration_of.get(seq) in doomed.iterations

    def _follow(self, run_loop_id: str) -> list[str]:
        """Doom what other run loops have of what goes in one; those that have any of it."""
        history = self._whole.get(run_loop_id) or self._staying[run_loop_id].history
        copies: dict[str, list[Copied]] = {}
        for each in self._copies.get(run_loop_id, ()):
            is_doomed = self._is_doomed(run_loop_id, history, each.original)
            if is_doomed and each.run_loop_id not in self._whole:
                copies.setdefault(each.run_loop_id, []).append(each)
        return [key for key, its in copies.items() if self._doom_copies(key, its)]

    def _doom_copies(self, run_loop_id: str, copies: Sequence[Copied]) -> bool:
        """Let copies go, with their iterations; whether any of it was to stay until now."""
        doomed = self._stays(run_loop_id)
        history = doomed.history
        kind: CopyKind = "fork" if copies[0].original < copies[0].seq else "moved"
        gone, unseen = history.followed_elsewhere(each.seq for each in copies)
        alone, numbers = list[Event](), {each.seq: each for each in copies}
        for event in history.events:
            its = history.iteration_of.get(event.seq or 0)
            if event.seq in unseen:
                alone.append(event)
            elif (copy := numbers.get(event.seq or 0)) is None:
                continue
            elif isinstance(event.body, RunLoopImported):
                gone |= self._imported(event.body, copy.original_in)
            elif its is not None:
                gone |= {its}
            elif isinstance(event.body, _MESSAGES):
                alone.append(event)  # moved away before an iteration had observed it
        gone -= history.forgotten | doomed.iterations
        if gone:
            self._doom(run_loop_id, gone, kind)
        return self._doom_alone(run_loop_id, alone, kind) or bool(gone)

    def _imported(self, body: RunLoopImported, original_in: str) -> frozenset[int]:
        """What goes of the iterations that came in whole where a fork has them from."""
        all_of_it = frozenset(range(len(body.run_loop.iterations)))
        if original_in in self._whole:
            return all_of_it
        return all_of_it & self._staying[original_in].iterations

    def _doom_alone(self, run_loop_id: str, events: Iterable[Event], kind: CopyKind) -> bool:
        """Let events go that are of no iteration; whether any of them was to stay until now."""
        doomed = self._stays(run_loop_id)
        new = {event.seq or 0: event for event in events if event.seq not in doomed.bodies}
        for seq, event in new.items():
            doomed.bodies[seq] = redacted(event.body)
            doomed.kinds.add(kind)
        if opening_events(doomed.history) & new.keys():
            first = doomed.history.events[0]
            doomed.bodies[first.seq or 0] = redacted(first.body)
        return bool(new)
