"""Moved messages: where their words were before, which the journal of that loop still holds.

A move is one ``message.moved`` in the loop that they left, and a ``route.decided`` in the one that
they came to; each names the other. In a fork of one of the two the copies of both do not, and what
is forgotten there is followed to the loop that it was forked from no more than elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.domain.history.events import MessageMoved, RouteDecided
from service.memory.forgetting.histories import History
from service.memory.journal.journal_reads import JournalReads


@dataclass(frozen=True, slots=True)
class Move:
    """Messages of one loop that are in another one since."""

    run_loop_id: str
    """The loop that they left."""
    seq: int
    """By which event."""
    moved: MessageMoved

    def originals(
        self, source: History, target: History, is_gone: Callable[[int], bool]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """What the source still holds of what goes in the target.

        Args:
            source: the loop that they left.
            target: the loop that they came to.
            is_gone: tells of an event of the target, by its number, whether its words go.

        Returns:
            Whole iterations of the source; and numbers of its events that are of no iteration.
        """
        copies = _copies(self, target)
        # Those that had gone before did not come along.
        before = {
            index
            for event in source.events
            if isinstance(event.body, MessageMoved) and (event.seq or 0) < self.seq
            for index in range(*event.body.iterations)
        }
        went = [index for index in range(*self.moved.iterations) if index not in before]
        if self.moved.to_iteration is None:
            if not any(map(is_gone, copies.values())):
                return frozenset(), frozenset()
            unobserved = source.moved_unseen.get(self.seq, ())
            return frozenset(went), frozenset(unobserved)
        first = min(copies.values(), default=0)
        gone = {
            place - self.moved.to_iteration
            for seq, place in target.iteration_of.items()
            if seq >= first and is_gone(seq)
        }
        return frozenset(went[place] for place in gone if 0 <= place < len(went)), frozenset()


def moves_to(journal: JournalReads, owner: str) -> dict[str, list[Move]]:
    """All moves between an owner's loops, by the loop that the messages came to. Blocks."""
    arrived = {
        (event.body.route.moved_from, event.body.message_id, event.run_loop_id)
        for event in journal.read_blocking(owner=owner, kind="route.decided")
        if isinstance(event.body, RouteDecided) and event.body.route.moved_from is not None
    }
    found: dict[str, list[Move]] = {}
    for event in journal.read_blocking(owner=owner, kind="message.moved"):
        moved = event.body
        if not isinstance(moved, MessageMoved):
            continue
        target = moved.to_run_loop_id
        if any((event.run_loop_id, each, target) in arrived for each in moved.message_ids):
            found.setdefault(target, []).append(Move(event.run_loop_id, event.seq or 0, moved))
    return found


def _copies(move: Move, target: History) -> dict[str, int]:
    """By the ids of the messages: the events by which they came to the target then."""
    found: dict[str, int] = {}
    for seq, message_id in sorted({**target.message_ids, **target.answer_ids}.items()):
        if seq > move.seq and message_id in move.moved.message_ids:
            found.setdefault(message_id, seq)
    return found
