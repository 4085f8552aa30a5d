"""Following a message: the events of its run loop, up to where somebody can speak again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

from service.domain.errors import Problem
from service.domain.events import (
    TERMINAL,
    ErrorOccurred,
    Event,
    InputRequired,
    RunLoopIdle,
)
from service.memory.history.feed import Reader
from service.memory.history.inbox import Delivery
from service.memory.history.short_term import ShortTermMemory


async def follow(
    delivery: Delivery | Problem, reader: Reader, short_term: ShortTermMemory
) -> AsyncGenerator[Event]:
    """The events of a loop from where a message joined it.

    Ends when the loop rests, ends, or waits for a person; or with an ``error`` event when the
    message is safe but cannot be worked on at present.

    Args:
        delivery: where the message went, or why it did not get there.
        reader: a place in the feed that was held since before the message was accepted.
        short_term: tells what the loop waits for.
    """
    if isinstance(delivery, Problem):
        yield _error_event(delivery)
        return
    events = reader.events(run_loop_id=delivery.run_loop_id, after=delivery.first_seq - 1)
    async with aclosing(events):
        async for event in events:
            yield event
            if isinstance(event.body, (RunLoopIdle, InputRequired, *TERMINAL)):
                return
            if event.seq is None and isinstance(event.body, ErrorOccurred):
                return
            state = short_term.state(event.run_loop_id)
            if state is not None and state.awaiting and event.seq == state.last_seq:
                # The loop was waiting before: it hears the message after the answer.
                yield event.model_copy(update={"seq": None, "body": state.awaiting})
                return


def _error_event(problem: Problem) -> Event:
    return Event(
        seq=None,
        at=datetime.now(UTC),
        owner="",
        run_loop_id="",
        body=ErrorOccurred(problem=problem),
    )
