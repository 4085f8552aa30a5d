"""What was read before it was forgotten, and is about to be written after.

A search, a recall, a routing or a fork that is under way holds words of which the journal is rid by
now. Only this process can be in that place, so what is known here need not outlive it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from service.domain.history.events import EventBody
from service.domain.history.references import Quotation, carried
from service.memory.forgetting.pieces import Ref, in_words, without_pieces
from service.memory.forgetting.plan import Plan
from service.memory.journal.event_reader import EventReader
from service.memory.journal.kept_words import json_of


class JustForgotten:
    """Knows what was forgotten since the start, by ids."""

    def __init__(self) -> None:
        self._whole: dict[str, int] = {}
        """By which forgetting, counted from the start, each was forgotten last."""
        self.count = 0
        """How often something was forgotten."""
        self._single: set[Ref] = set()
        self._answers: set[Ref] = set()
        """The iterations that stay, and lost something that a model or a tool had said."""

    def learn(self, plan: Plan) -> None:
        """Take over what was just forgotten."""
        self.count += 1
        self._whole.update(dict.fromkeys(plan.whole, self.count))
        self._answers |= {
            (each.run_loop_id, each.iteration)
            for each in plan.answers_taken()
            if each.iteration is not None
        }
        self._single |= {(key, index) for key, words in plan.single.items() for index in words}

    def were_forgotten(self, run_loop_ids: Iterable[str], *, since: int) -> frozenset[str]:
        """Which of these were forgotten whole since the `count` was this one."""
        return frozenset(each for each in run_loop_ids if self._whole.get(each, 0) > since)

    def without_forgotten(
        self, body: EventBody, quotations: Sequence[Quotation], owner: str, journal: EventReader
    ) -> EventBody:
        """See `Forgotten`."""
        if not (self._whole or self._single or self._answers):
            return body
        now = journal.words.as_read(body, quotations, owner)
        quotations = carried(quotations, json_of(body), json_of(now))
        gone = frozenset(
            ref
            for ref in in_words(now, quotations)
            if ref in self._single
            or ref in self._answers  # else its words would have been found where they stand
            # One that was imported again since may be spoken of again.
            or (ref[0] in self._whole and not _is_there(journal, ref[0]))
        )
        return without_pieces(now, gone, quotations) if gone else now


def _is_there(journal: EventReader, run_loop_id: str) -> bool:
    return journal.histories.owner_of(run_loop_id) is not None
