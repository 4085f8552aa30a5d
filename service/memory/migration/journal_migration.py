"""Writes the rows of an older journal anew, one run loop a transaction, forward only.

What the events tell stays the same to the letter, but for what other run loops are about: a row
that would be read otherwise is left as it is. So is a run loop that cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from anyio import to_thread

from service.domain.errors import StorageError
from service.domain.history.events import Event
from service.memory.journal.protocol import Journal
from service.memory.migration.fork_rows import ForkRows
from service.memory.migration.move_rows import MoveRows
from service.memory.migration.quoting_rows import QuotingRows
from service.memory.migration.route_rows import RouteRows

log = logging.getLogger(__name__)

_BETWEEN_LINES = 1000  # run loops


class Rewriter(Protocol):
    """Knows how some kinds of events are kept today."""

    @property
    def kinds(self) -> Sequence[str] | None:
        """The types of these events; None: all."""
        ...

    @property
    def to_the_letter(self) -> bool:
        """Whether they MUST be read as before; else what they tell may be as it is by now."""
        ...

    def rows(self, events: Sequence[Event]) -> Mapping[int, str]:
        """By number: how those are kept that are to be written anew. Blocks.

        Args:
            events: of one run loop, with their words: all of these kinds, in order.

        Raises:
            StorageError: the journal cannot be read.
            ValueError: an event cannot be read.
        """
        ...


def rewriters(journal: Journal) -> list[Rewriter]:
    """All that is to be done; of a row that several write anew, what the last one writes counts."""
    return [QuotingRows(journal), RouteRows(), MoveRows(journal), ForkRows(journal)]


async def migrate(journal: Journal, using: Sequence[Rewriter] | None = None) -> int:
    """Bring an open journal into the form of today; how many run loops were left to look at.

    Raises:
        StorageError: the disk refuses; what is done stays done.
    """
    left = await journal.unmigrated()
    if not left:
        return 0
    log.info("the journal is brought into a new form: %d run loops", len(left))
    using = rewriters(journal) if using is None else using
    for number, run_loop_id in enumerate(left, start=1):
        rows = await to_thread.run_sync(_rows, journal, using, run_loop_id)
        await journal.write_anew(run_loop_id, rows)
        if number % _BETWEEN_LINES == 0:
            log.info("%d of %d run loops are in the new form", number, len(left))
    log.info("the journal is in the new form")
    return len(left)


def _rows(journal: Journal, using: Sequence[Rewriter], run_loop_id: str) -> dict[int, str]:
    """How the rows of a run loop are kept that are to be written anew, by number."""
    rows = dict[int, str]()
    try:
        for rewriter in using:
            its = [
                event
                for kind in rewriter.kinds or (None,)
                for event in journal.read_blocking(run_loop_id=run_loop_id, kind=kind)
            ]
            its.sort(key=lambda event: event.seq or 0)
            events = {event.seq or 0: event for event in its}
            rows |= {
                seq: row
                for seq, row in rewriter.rows(its).items()
                if not rewriter.to_the_letter or _tells_the_same(journal, events[seq], row)
            }
    except (StorageError, ValueError) as error:  # pydantic's errors are of this kind too
        log.warning("run loop %s stays in the form that it has: %s", run_loop_id, error)
        return {}
    return rows


def _tells_the_same(journal: Journal, event: Event, row: str) -> bool:
    [body] = journal.words.bodies([(event.seq or 0, event.owner, row)])
    return event.model_copy(update={"body": body}).wire() == event.wire()
