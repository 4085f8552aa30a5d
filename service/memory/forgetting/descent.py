"""What goes because it was named, and what of it stands in other run loops by descent.

A fork begins with the events of the loop that it came from; and a loop that a person moved a
message out of still holds the events by which it came there.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from service.memory.forgetting.journal_queries import unread_state
from service.memory.forgetting.moves import Move, moves_to
from service.memory.forgetting.openings import goal_told_by
from service.memory.forgetting.words import redactions
from service.memory.journal.journal import Journal
from service.memory.journal.kept_words import Copied

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
        """By run loop: events of others that are as its own are."""

    def _read(self, run_loop_id: str) -> History:
        return history_of(self._journal.read_blocking(run_loop_id=run_loop_id))

    def _read_whole(self, run_loop_id: str) -> History:
        """What goes whole need not be read; then copies of it are not known by their words."""
        try:
            return self._read(run_loop_id)
        except ValueError:  # pydantic's errors are of this kind too
            return History([], unread_state(self._journal, run_loop_id))

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
        moves = moves_to(self._journal, self._owner)
        for each in self._journal.words.copies(self._owner):
            self._copies.setdefault(each.original_in, []).append(each)
        waiting = [*self._whole, *self._staying]
        while waiting:
            parent_id = waiting.pop()
            waiting.extend(
                move.run_loop_id
                for move in moves.get(parent_id, ())
                if move.run_loop_id not in self._whole and self._follow_move(parent_id, move)
            )
            waiting.extend(self._follow_forks(parent_id))

    def _follow_move(self, target_id: str, move: Move) -> bool:
        """Doom what a loop still holds of what was moved to another; whether there is any of it."""
        target = self._whole.get(target_id) or self._staying[target_id].history
        left = self._stays(move.run_loop_id)
        iterations, seqs = move.originals(
            left.history, target, lambda seq: self._is_doomed(target_id, target, seq)
        )
        gone = iterations - left.history.forgotten - left.iterations
        alone = [event for event in left.history.events if event.seq in seqs]
        if gone:
            self._doom(move.run_loop_id, gone, "moved")
        return self._doom_alone(move.run_loop_id, alone, "moved") or bool(gone)

    def _is_doomed(self, run_loop_id: str, history: History, seq: int) -> bool:
        """Whether an event's words go, in a loop that goes whole or in one that stays."""
        if run_loop_id in self._whole:
            return True
        doomed = self._staying[run_loop_id]
        return seq in doomed.bodies or history.iteration_of.get(seq) in doomed.iterations

    def _follow_forks(self, parent_id: str) -> list[str]:
        """Doom what forks have inherited of what goes; those in which there is any of it."""
        parent = self._whole.get(parent_id) or self._staying[parent_id].history
        inherited: dict[str, list[int]] = {}
        for each in self._copies.get(parent_id, ()):
            if each.run_loop_id not in self._whole and self._is_doomed(
                parent_id, parent, each.original
            ):
                inherited.setdefault(each.run_loop_id, []).append(each.seq)
        return [
            key for key, seqs in inherited.items() if self._doom_inherited(parent_id, key, seqs)
        ]

    def _doom_inherited(self, parent_id: str, fork_id: str, seqs: Iterable[int]) -> bool:
        """Let these events of a fork go, with their iterations; whether any was to stay until
        now."""
        fork, wanted = self._stays(fork_id).history, frozenset(seqs)
        gone, alone = frozenset[int](), list[Event]()
        for copy in fork.events:
            if copy.seq not in wanted:
                continue
            its = fork.iteration_of.get(copy.seq or 0)
            if isinstance(copy.body, RunLoopImported):
                mine = frozenset(range(len(copy.body.run_loop.iterations)))
                whole = parent_id in self._whole
                gone |= mine if whole else mine & self._staying[parent_id].iterations
            elif its is not None:
                gone |= {its}
            elif isinstance(copy.body, _MESSAGES):
                alone.append(copy)  # moved away before an iteration had observed it
        gone -= fork.forgotten | self._staying[fork_id].iterations
        if gone:
            self._doom(fork_id, gone, "fork")
        return self._doom_alone(fork_id, alone, "fork") or bool(gone)

    def _doom_alone(self, run_loop_id: str, events: Iterable[Event], kind: CopyKind) -> bool:
        """Let events go that are of no iteration; whether any of them was to stay until now."""
        doomed = self._stays(run_loop_id)
        new = {event.seq or 0: event for event in events if event.seq not in doomed.bodies}
        for seq, event in new.items():
            doomed.bodies[seq] = redacted(event.body)
            doomed.kinds.add(kind)
        if goal_told_by(doomed.history) & new.keys():
            first = doomed.history.events[0]
            doomed.bodies[first.seq or 0] = redacted(first.body)
        return bool(new)
