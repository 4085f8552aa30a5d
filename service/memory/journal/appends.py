"""What is to be written to the journal, and how it is folded.

Folding comes before writing: what cannot be folded is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

import anyio
from anyio import to_thread

from service.domain.conversation.tool_definitions import QUOTING_TOOLS
from service.domain.history.events import (
    TRANSIENT,
    Event,
    EventBody,
    MemoryRecalled,
    RouteDecided,
    RunLoopStarted,
    ToolFinished,
)
from service.domain.history.fold import begin, evolve
from service.domain.history.human_input import InputRequired
from service.domain.history.references import Quotation, Reference, carried
from service.domain.history.state import RunLoopState
from service.memory.journal.change_feed import Commit
from service.memory.journal.event_reader import EventReader
from service.memory.journal.kept_words import goal_quotations, json_of
from service.memory.journal.standing_approvals import StandingApproval
from service.schedules.schedule import Settlement
from service.storage.clock import millis_of, moment_of

_QUOTING = (MemoryRecalled, ToolFinished, RouteDecided, InputRequired)
"""Events that may hold words of other run loops."""


@dataclass(frozen=True, slots=True)
class Append:
    """Events that somebody wants to be written to one loop."""

    run_loop_id: str
    bodies: Sequence[EventBody]
    owner: str | None = None
    """Of a new loop."""
    if_last_seq: int | None = None
    """Write only if the loop's last event is still this one."""
    delivering: str | None = None
    """The inbox message that these events put into the loop."""
    ended: RunLoopState | None = None
    """For a loop that has ended: as it is."""
    moments: Sequence[datetime] | None = None
    """When each thing happened; None: now."""
    copied: bool = False
    """Whether the events are a fork's beginning."""
    same_as: Sequence[int | None] = ()
    """By the place of a body: the number of the event whose body it has, and that holds its words.
    Needs `read_at`."""
    granting: Sequence[StandingApproval] = ()
    settling: Settlement | None = None
    """What became of the times of the schedule that opens this loop."""
    read_at: int | None = None
    """The `Journal.lost_words_at` when what is written was read: write only if no words have been
    forgotten since. None: whatever was."""
    redelivering: Sequence[str] = ()
    """Messages that were delivered before, to another loop, and are in this one now."""
    taking_over: Mapping[int, Event] = field(default_factory=dict)
    """By the place of a body: an event of another loop, whose words it holds from now on; that one
    refers to it. Needs `read_at`."""
    quotations: Mapping[int, Sequence[Quotation]] = field(default_factory=dict)
    """By the place of a body: which of its texts stand elsewhere, and are kept as references. What
    does not give a text character for character is kept in words."""


def copies_of(run_loop_id: str, events: Sequence[Event], *, owner: str, read_at: int) -> Append:
    """The history of a new loop that begins with copies; they keep their times, and refer to what
    they are copies of.

    Args:
        run_loop_id: of the new loop.
        events: the first is its own; the others are copied.
        owner: of both loops.
        read_at: the `Journal.lost_words_at` when they were read.
    """
    return Append(
        run_loop_id,
        [event.body for event in events],
        owner,
        moments=[event.at for event in events],
        copied=True,
        same_as=[None, *(event.seq for event in events[1:])],
        read_at=read_at,
        quotations={0: [*_goal_of(events[0])]},
    )


def _goal_of(opening: Event) -> Iterator[Quotation]:
    """Where the goal of a fork may stand: in the event in whose place its first one is."""
    if isinstance(opening.body, RunLoopStarted) and opening.seq is not None:
        for field_ in ("goal", "run_loop.goal"):
            end = len(opening.body.goal)
            words = (Reference(event=opening.seq, field=field_, start=0, end=end),)
            yield Quotation(field="goal", words=words)


Trace = Callable[[Sequence[EventBody], str, str, EventReader], Mapping[int, Sequence[Quotation]]]
"""Finds of events of a run loop and owner, by their places, which texts stand elsewhere. Blocks."""


async def traced(
    batch: Sequence[Append],
    trace: Trace | None,
    journal: EventReader,
    threads: anyio.CapacityLimiter,
) -> Sequence[Append]:
    """The same to be written, with references in the places of what memory gave."""
    if trace is None or not any(quotes(body) for each in batch for body in each.bodies):
        return batch

    def work() -> list[Append]:
        owners = [_owner(each, each.ended or journal.state(each.run_loop_id)) for each in batch]
        return [
            replace(
                each,
                quotations={
                    **trace(each.bodies, each.run_loop_id, owner, journal),
                    **each.quotations,
                },
            )
            for each, owner in zip(batch, owners, strict=True)
        ]

    return await to_thread.run_sync(work, limiter=threads)


def quotes(body: EventBody) -> bool:
    """Whether words of an event may have been said before."""
    if isinstance(body, ToolFinished):
        return body.name in QUOTING_TOOLS
    return isinstance(body, MemoryRecalled)


def _owner(append: Append, state: RunLoopState | None) -> str:
    return (state.owner if state else append.owner) or ""


class Forgotten(Protocol):
    """Knows what was forgotten since the start, by whoever is about to write it once more."""

    def without_forgotten(
        self, body: EventBody, quotations: Sequence[Quotation], owner: str, journal: EventReader
    ) -> EventBody:
        """What memory gave, or the router said, without what was forgotten on the way."""
        ...


def stamped(
    append: Append,
    state: RunLoopState | None,
    last_seq: int,
    number: int,
    forgotten: Forgotten | None,
    journal: EventReader,
) -> Commit:
    """The events with their numbers and times, folded into the state.

    Args:
        append: what is to be written.
        state: of the loop before; None: it is new.
        last_seq: the newest event of the journal.
        number: of the change.
        forgotten: asked for what the events may still hold; None: nothing was forgotten.
        journal: as it is.
    """
    now = _stored(datetime.now(UTC))
    events = []
    owner = _owner(append, state)
    quotations = dict(append.quotations)
    for index, body in enumerate(append.bodies):
        if isinstance(body, TRANSIENT):
            raise ValueError(f"{body.type} is transient and is not journaled")
        is_copy = any(append.same_as[index : index + 1])
        if not is_copy and (goals := goal_quotations(body)):
            quotations[index] = (*quotations.get(index, ()), *goals)
        if forgotten is not None and not is_copy and isinstance(body, _QUOTING):
            whole, its = body, quotations.get(index, ())
            body = forgotten.without_forgotten(whole, its, owner, journal)
            quotations[index] = carried(its, json_of(whole), json_of(body))
        event = Event(
            seq=last_seq + 1 + index,
            at=_stored(append.moments[index]) if append.moments else now,
            owner=owner,
            run_loop_id=append.run_loop_id,
            body=body,
        )
        state = begin(event) if state is None else evolve(state, event)
        events.append(event)
    if state is None:
        raise ValueError("nothing to append")
    return Commit(
        number=number,
        at=millis_of(now),
        kind="appended",
        owner=state.owner,
        run_loop_id=state.id,
        first_seq=events[0].seq,
        last_seq=state.last_seq,
        copied=append.copied,
        events=tuple(events),
        state=state,
        quotations={
            index: journal.words.checked(events[index].body, its, owner)
            for index, its in quotations.items()
        },
    )


def _stored(at: datetime) -> datetime:
    """A moment in the milliseconds that are stored."""
    return moment_of(millis_of(at))
