"""Rows of forks: what one began with becomes the numbers of the events that it inherited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from service.domain.history.events import Event, RouteDecided, RunLoopImported, RunLoopStarted
from service.domain.history.redaction import redacted
from service.memory.journal.kept_words import kept_as
from service.memory.journal.protocol import Journal


class ForkRows:
    """See `service.memory.migration.journal_migration.Rewriter`."""

    kinds = None
    to_the_letter = True

    def __init__(self, journal: Journal) -> None:
        """Nothing is read yet."""
        self._journal = journal

    def rows(self, events: Sequence[Event]) -> Mapping[int, str]:
        """See `Rewriter.rows`."""
        opening = events[0].body if events else None
        if not isinstance(opening, RunLoopStarted) or opening.forked_from is None:
            return {}
        point = opening.forked_from
        parent = self._journal.read_blocking(run_loop_id=point.run_loop_id, owner=events[0].owner)
        inherited = [event for event in parent if (event.seq or 0) <= point.seq]
        return {
            copy.seq or 0: kept_as(copy.body, original.seq or 0)
            for copy, original in _pairs(events[1:], inherited)
        }


def _pairs(copies: Sequence[Event], inherited: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Each copy with what it is a copy of; the forks of earlier versions do not say so."""
    waiting = iter(copies)
    copy = next(waiting, None)
    for original in inherited:
        if copy is None:
            return
        if copy.type == original.type and _skeleton(copy) == _skeleton(original):
            yield copy, original
            copy = next(waiting, None)  # else it is the parent's alone


def _skeleton(event: Event) -> object:
    """What a copy of an event has in common with it, whatever words either of them has lost."""
    match event.body:
        case RunLoopImported(source=source, run_loop=run_loop):
            return [source, *(each.timestamp for each in run_loop.iterations)]
        case RouteDecided(message_id=message_id):
            return message_id
    return redacted(event.body)
