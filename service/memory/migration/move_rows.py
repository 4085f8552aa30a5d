"""Rows of messages that were moved, and of what followed: they refer to where the words are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from service.domain.history.events import Event, MessageMoved, RouteDecided
from service.memory.forgetting.histories import History, history_of
from service.memory.journal.kept_words import handed_over
from service.memory.journal.protocol import Journal

_Pair = tuple[Event, Event]


class MoveRows:
    """See `service.memory.migration.journal_migration.Rewriter`."""

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
                for original, now in _pairs(source, target, seq, event.body, before):
                    rows.setdefault(original.seq or 0, handed_over(original.body, now))
            before.update(range(*event.body.iterations))
        return rows

    def _target(self, run_loop_id: str, owner: str) -> History | None:
        events = self._journal.read_blocking(run_loop_id=run_loop_id, owner=owner)
        return history_of(events) if events else None  # else it was forgotten


def _pairs(
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
