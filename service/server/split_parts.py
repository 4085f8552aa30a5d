"""Where the parts of a message went that was taken apart, told to its sender."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import JsonValue, TypeAdapter

from service.domain.errors import NotFoundError, Problem
from service.domain.history.events import Event
from service.domain.history.own_part import is_last
from service.domain.run_loops import Timestamp
from service.server.event_streams import event_frame, frame
from service.wire.send_bodies import DELIVERED, Part

if TYPE_CHECKING:
    from service.agent.agent import Agent

_MOMENT = TypeAdapter[datetime](Timestamp)


async def delivered(agent: Agent, message_ids: Sequence[str], owner: str) -> tuple[Part, ...]:
    """Where these messages went; waits until that is decided."""
    return tuple([await _delivered(agent, message_id, owner) for message_id in message_ids])


async def _delivered(agent: Agent, message_id: str, owner: str) -> Part:
    nowhere = Part(message_id=message_id, run_loop_id=None, goal="")
    try:
        delivery = await agent.delivery(message_id)
        if isinstance(delivery, Problem):
            return nowhere
        run_loop = await agent.run_loop(delivery.run_loop_id, owner=owner)
    except NotFoundError:
        return nowhere  # it was forgotten meanwhile
    return Part(
        message_id=message_id,
        run_loop_id=run_loop.id,
        goal=run_loop.goal,
        waits_for_input=run_loop.status == "waiting_for_human_input",
    )


async def frames_with_parts(
    agent: Agent, events: AsyncGenerator[Event, None], message_ids: Sequence[str], owner: str
) -> AsyncGenerator[bytes, None]:
    """Events as frames; before the last one, a frame for each of these messages."""
    parts_sent = False
    async with aclosing(events):
        async for event in events:
            if not parts_sent and is_last(event):
                parts_sent = True
                for part in await delivered(agent, message_ids, owner):
                    yield _frame(part)
            yield event_frame(event)


def _frame(part: Part) -> bytes:
    """In the form of an event, of the loop that the part went to."""
    data = part.model_dump(mode="json", exclude={"run_loop_id"})
    wire: JsonValue = {
        "seq": None,
        "type": DELIVERED,
        "at": _MOMENT.dump_python(datetime.now(UTC), mode="json"),
        "run_loop_id": part.run_loop_id or "",
        "data": data,
    }
    return frame(DELIVERED, wire)
