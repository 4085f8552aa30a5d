"""Writes the rows of an older journal anew, one run loop a transaction, forward only.

What the events tell stays the same to the letter, but for what other run loops are about: a row
that would be read otherwise is left as it is. So is a run loop that cannot be read.

- What a fork began with becomes the numbers of the events that it inherited.
- A message that was moved, and what followed it, refer to where the words are.
- What memory gave, and pages of long results, become references. What does not stand there word for
  word any more stays in words: forgetting finds it by its anchors.
- Goals in routes, and in questions where a message belongs, become ids of run loops. What such a
  run loop is about may have changed since, or be forgotten: then that is told, and no words of it
  are left here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from anyio import to_thread

from service.domain.errors import StorageError
from service.domain.history.events import (
    Event,
    MessageMoved,
    RouteDecided,
    RunLoopImported,
    RunLoopStarted,
)
from service.domain.history.redaction import redacted
from service.domain.history.references import Goal, Quotation
from service.memory.forgetting.histories import History, history_of
from service.memory.journal.kept_words import goal_quotations, handed_over, kept, kept_as
from service.memory.journal.protocol import Journal
from service.memory.tracing import Tracer

log = logging.getLogger(__name__)


class ForkRows:
    """See `service.memory.journal_migration.Rewriter`."""

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


_Pair = tuple[Event, Event]


class MoveRows:
    """See `service.memory.journal_migration.Rewriter`."""

    kinds = None
    to_the_letter = True

    def __init__(self, journal: Journal) -> None:
        """Nothing is read yet."""
        self._journal = journal

    def rows(self, events: Sequence[Event]) -> Mapping[int, str]:
        """See `Rewriter.rows`."""
        moves = [event for event in events if isinstance(event.body, MessageMoved)]
        if not moves:
            return {}
        source, rows, before = history_of(events), dict[int, str](), set[int]()
        for event in moves:
            if not isinstance(event.body, MessageMoved):
                continue
            target = self._target(event.body.to_run_loop_id, event.owner)
            if target is not None:
                seq = event.seq or 0
                for original, now in _moved_pairs(source, target, seq, event.body, before):
                    rows.setdefault(original.seq or 0, handed_over(original.body, now))
            before.update(range(*event.body.iterations))
        return rows

    def _target(self, run_loop_id: str, owner: str) -> History | None:
        events = self._journal.read_blocking(run_loop_id=run_loop_id, owner=owner)
        return history_of(events) if events else None  # else it was forgotten


def _moved_pairs(
    source: History, target: History, moved_at: int, moved: MessageMoved, before: set[int]
) -> Iterator[_Pair]:
    """What a move has taken along, with where it is: earlier versions do not say so by numbers."""
    mine = {each.seq or 0: each for each in source.events}
    its = {each.seq or 0: each for each in target.events if (each.seq or 0) > moved_at}
    arrived = dict[str, Event]()
    for seq, message_id in _messages(target):
        if seq in its:
            arrived.setdefault(message_id, its[seq])
    for seq, message_id in _messages(source):
        if seq < moved_at and message_id in moved.message_ids and message_id in arrived:
            yield mine[seq], arrived[message_id]
    if moved.to_iteration is None:
        return
    went = [index for index in range(*moved.iterations) if index not in before]
    for place, index in enumerate(went, start=moved.to_iteration):
        there = [each for seq, each in its.items() if target.iteration_of.get(seq) == place]
        for seq, at in sorted(source.iteration_of.items()):
            if at == index and (now := _same(mine[seq], there)) is not None:
                there.remove(now)
                yield mine[seq], now


def _messages(history: History) -> list[tuple[int, str]]:
    return sorted({**history.message_ids, **history.answer_ids}.items())


def _same(event: Event, there: Sequence[Event]) -> Event | None:
    if isinstance(event.body, RouteDecided):
        return None  # why it came to the first loop is told there alone
    return next((each for each in there if each.body == event.body), None)


class QuotingRows:
    """See `service.memory.journal_migration.Rewriter`."""

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
            quotations = tracers[event.owner].quotations_of(event.body, event.run_loop_id)
            if quotations := self._journal.words.checked(event.body, quotations, event.owner):
                rows[event.seq or 0] = kept(event.body, quotations)
        return rows


_QUOTED = re.compile("(.*?“)(.*)(”.*)", re.DOTALL)  # a goal may hold marks of its own


class RouteRows:
    """See `service.memory.journal_migration.Rewriter`."""

    kinds = ("route.decided", "input.required")
    to_the_letter = False

    def rows(self, events: Sequence[Event]) -> Mapping[int, str]:
        """See `Rewriter.rows`."""
        by_seq = {event.seq or 0: (event.body, _quotations(event)) for event in events}
        return {seq: kept(body, its) for seq, (body, its) in by_seq.items() if its}


def _quotations(event: Event) -> tuple[Quotation, ...]:
    quotations = goal_quotations(event.body)
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
    return (*quotations, Quotation(field="route.reason", words=words))


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
