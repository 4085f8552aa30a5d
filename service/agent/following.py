"""Following a message: the events of its run loop, up to where somebody can speak again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

from service.domain.errors import Problem
from service.domain.history.events import ErrorOccurred, Event, MessageMoved
from service.domain.history.human_input import InputRequired
from service.domain.history.own_part import is_last
from service.memory.journal.event_feed import Reader
from service.memory.journal.inbox import Delivery
from service.memory.short_term import ShortTermMemory


async def follow(
    message_id: str, delivery: Delivery | Problem, reader: Reader, short_term: ShortTermMemory
) -> AsyncGenerator[Event]:
    """The events of a loop from where a message joined it; of the next one, where it is moved.

    Ends when the loop rests, ends, or waits for a person; or with an ``error`` event when the
    message is safe but cannot be worked on at present.

    Args:
        message_id: the message.
        delivery: where the message went, or why it did not get there.
        reader: a place in the feed that was held since before the message was accepted.
        short_term: tells what the loop waits for.
    """
    if isinstance(delivery, Problem):
        yield _error_event(delivery)
        return
    run_loop_id, after = delivery.run_loop_id, delivery.first_seq - 1
    while True:
        moved: MessageMoved | None = None
        events = reader.events(run_loop_id=run_loop_id, after=after)
        async with aclosing(events):
            async for event in events:
                yield event
                if isinstance(event.body, MessageMoved) and message_id in event.body.message_ids:
                    moved, after = event.body, event.seq or after
                    break
                if is_last(event) and not _was_answered(event, short_term):
                    return
                state = short_term.state(event.run_loop_id)
                if state is not None and state.awaiting and event.seq == state.last_seq:
                    # The loop was waiting before: it hears the message after the answer.
                    yield event.model_copy(update={"seq": None, "body": state.awaiting})
                    return
        if moved is None:
            return
        run_loop_id = moved.to_run_loop_id


def _was_answered(event: Event, short_term: ShortTermMemory) -> bool:
    """Whether this is a question that its loop does not wait for any more."""
    if not isinstance(event.body, InputRequired) or event.seq is None:
        return False
    state = short_term.state(event.run_loop_id)
    awaiting = None if state is None else state.awaiting
    return awaiting is None or awaiting.request_id != event.body.request_id


def _error_event(problem: Problem) -> Event:
    return Event(
        seq=None,
        at=datetime.now(UTC),
        owner="",
        run_loop_id="",
        body=ErrorOccurred(problem=problem),
    )
