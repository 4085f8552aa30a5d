"""What was read before it was forgotten, and is about to be written after.

A search, a recall or a fork that is under way holds words of which the journal is rid by now. Only
this process can be in that place, so what is known here need not outlive it.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.events import EventBody, RunLoopStarted
from service.memory.forgetting.plan import Plan
from service.memory.forgetting.planner import pieces_in, without_pieces
from service.memory.history.journal import Journal


class Latecomers:
    """Knows what was forgotten since the start, by ids."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._whole: set[str] = set()
        self._single: set[tuple[str, int]] = set()
        self._rewritten: set[str] = set()

    def learn(self, plan: Plan) -> None:
        """Take over what was just forgotten."""
        self._whole |= plan.whole.keys()
        self._rewritten |= plan.changes.keys()
        self._single |= {(key, index) for key, words in plan.single.items() for index in words}

    def without_forgotten(self, body: EventBody) -> EventBody:
        """What memory gave, without pieces that were forgotten on the way."""
        if not (self._whole or self._single):
            return body
        refs = pieces_in(body)
        gone = frozenset(
            ref
            for ref in refs
            # One that was imported again since may be spoken of again.
            if ref in self._single or (ref[0] in self._whole and not self._is_there(ref[0]))
        )
        return without_pieces(body, gone) if gone else body

    def is_current(self, copies: Sequence[EventBody]) -> bool:
        """Whether a fork's copies are as their originals are now. Blocks."""
        opening = copies[0] if copies else None
        if not isinstance(opening, RunLoopStarted) or opening.forked_from is None:
            return True
        parent = opening.forked_from.run_loop_id
        if parent not in self._whole and parent not in self._rewritten:
            return True
        there = [event.body for event in self._journal.read_blocking(run_loop_id=parent)]
        return bool(there) and all(body in there for body in copies[1:])

    def _is_there(self, run_loop_id: str) -> bool:
        return bool(self._journal.select("SELECT 1 FROM run_loops WHERE id = ?", (run_loop_id,)))
