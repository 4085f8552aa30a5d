"""Rows of routes, and of questions where a message belongs: goals in them become ids of run loops.

What such a run loop is about may have changed since, or be forgotten: then that is told, and no
words of it are left here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from service.domain.history.events import Event, RouteDecided
from service.domain.history.references import Goal, Told
from service.memory.journal.kept_routes import goals_told
from service.memory.journal.kept_words import kept

_QUOTED = re.compile("(.*?“)(.*)(”.*)", re.DOTALL)  # a goal may hold marks of its own


class RouteRows:
    """See `service.memory.migration.journal_migration.Rewriter`."""

    kinds = ("route.decided", "input.required")
    to_the_letter = False

    def rows(self, events: Sequence[Event]) -> Mapping[int, str]:
        """See `Rewriter.rows`."""
        by_seq = {event.seq or 0: (event.body, _quotations(event)) for event in events}
        return {seq: kept(body, its) for seq, (body, its) in by_seq.items() if its}


def _quotations(event: Event) -> tuple[Told, ...]:
    quotations = goals_told(event.body)
    if not isinstance(event.body, RouteDecided) or any(
        e.field == "route.reason" for e in quotations
    ):
        return quotations
    route = event.body.route
    quote = _QUOTED.fullmatch(route.reason)
    if quote is None or route.run_loop_id is None:
        return quotations
    # Versions before named it otherwise there than among the candidates.
    words = (quote[1], Goal(goal_of=route.run_loop_id), quote[3])
    return (*quotations, Told(field="route.reason", words=words))
