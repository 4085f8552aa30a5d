"""What was read before it was forgotten, and is about to be written after.

A search, a recall, a routing or a fork that is under way holds words of which the journal is rid by
now. Only this process can be in that place, so what is known here need not outlive it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from service.domain.events import EventBody, InputRequired, RouteDecided, RunLoopStarted
from service.memory.forgetting.pieces import pieces_in, without_pieces
from service.memory.forgetting.plan import Plan
from service.memory.forgetting.route_redaction import Goals, without_goals, without_options
from service.memory.journal.journal_reads import JournalReads


class JustForgotten:
    """Knows what was forgotten since the start, by ids."""

    def __init__(self) -> None:
        self._whole: dict[str, int] = {}
        """By which forgetting, counted from the start, each was forgotten last."""
        self.count = 0
        """How often something was forgotten."""
        self._single: set[tuple[str, int]] = set()
        self._rewritten: set[str] = set()
        self._goals: set[str] = set()
        """The loops that lost their goals."""

    def learn(self, plan: Plan) -> None:
        """Take over what was just forgotten."""
        self.count += 1
        self._whole.update(dict.fromkeys(plan.whole, self.count))
        self._rewritten |= plan.changes.keys()
        self._goals |= plan.whole.keys() | {
            key for key, each in plan.changes.items() if each.before.goal != each.after.goal
        }
        self._single |= {(key, index) for key, words in plan.single.items() for index in words}

    def were_forgotten(self, run_loop_ids: Iterable[str], *, since: int) -> frozenset[str]:
        """Which of these were forgotten whole since the `count` was this one."""
        return frozenset(each for each in run_loop_ids if self._whole.get(each, 0) > since)

    def without_forgotten(self, body: EventBody, journal: JournalReads) -> EventBody:
        """See `Forgotten`."""
        if isinstance(body, RouteDecided):
            route = without_goals(body.route, self._goals, Goals(()))
            return body if route is body.route else body.model_copy(update={"route": route})
        if isinstance(body, InputRequired):
            return without_options(body, self._goals, Goals(()))
        if not (self._whole or self._single):
            return body
        refs = pieces_in(body)
        gone = frozenset(
            ref
            for ref in refs
            # One that was imported again since may be spoken of again.
            if ref in self._single or (ref[0] in self._whole and not _is_there(journal, ref[0]))
        )
        return without_pieces(body, gone) if gone else body

    def is_current(self, copies: Sequence[EventBody], journal: JournalReads) -> bool:
        """See `Forgotten`."""
        opening = copies[0] if copies else None
        if not isinstance(opening, RunLoopStarted) or opening.forked_from is None:
            return True
        parent = opening.forked_from.run_loop_id
        if parent not in self._whole and parent not in self._rewritten:
            return True
        there = [event.body for event in journal.read_blocking(run_loop_id=parent)]
        return bool(there) and all(body in there for body in copies[1:])


def _is_there(journal: JournalReads, run_loop_id: str) -> bool:
    return bool(journal.select("SELECT 1 FROM run_loops WHERE id = ?", (run_loop_id,)))
