"""Rows of what memory gave, and of pages of long results: their words become references.

What does not stand there word for word any more stays in words: forgetting finds it by its anchors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.domain.history.events import Event
from service.memory.journal.kept_words import kept
from service.memory.journal.protocol import Journal
from service.memory.tracing import Tracer


class QuotingRows:
    """See `service.memory.migration.journal_migration.Rewriter`."""

    kinds = ("memory.recalled", "tool.finished")
    to_the_letter = True

    def __init__(self, journal: Journal) -> None:
        """Nothing is read yet."""
        self._journal = journal

    def rows(self, events: Sequence[Event]) -> Mapping[int, str]:
        """See `Rewriter.rows`."""
        rows = dict[int, str]()
        tracers = {owner: Tracer(self._journal, owner) for owner in {e.owner for e in events}}
        for event in events:
            quotations = tracers[event.owner].told_by(event.body, event.run_loop_id)
            if quotations := self._journal.words.checked(event.body, quotations, event.owner):
                rows[event.seq or 0] = kept(event.body, quotations)
        return rows
