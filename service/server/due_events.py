"""Events of all run loops, with those that schedules have opened and nobody was told of."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import TYPE_CHECKING

from service.domain.errors import StorageError
from service.domain.history.events import Event, MessageReceived

if TYPE_CHECKING:
    from service.agent.agent import Agent

log = logging.getLogger(__name__)

_SCHEDULED = "schedule"  # as in service.schedules.schedule, which need not be imported for it


async def events_with_due(
    agent: Agent, owner: str, *, after: int, is_fresh: bool
) -> AsyncGenerator[Event]:
    """Events as they come; what has come due counts as told once its reader asks for more.

    Args:
        agent: at work.
        owner: whose events.
        after: the number of the last event that is not told again.
        is_fresh: whether the reader has seen none before: then what has come due meanwhile is told
            from its beginning.
    """
    if is_fresh:
        due = [each.run_loop_id for each in await agent.schedules.notices(owner=owner)]
        for event in await _histories(agent, owner, due, until=after):
            yield event
        await _seen(agent, owner, due)
    async with aclosing(agent.events(owner=owner, after=after)) as events:
        async for event in events:
            yield event
            if isinstance(event.body, MessageReceived) and _SCHEDULED in event.body.metadata:
                await _seen(agent, owner, [event.run_loop_id])


async def _histories(
    agent: Agent, owner: str, run_loop_ids: Collection[str], *, until: int
) -> list[Event]:
    journal = agent.memory.journal
    histories = [await journal.read(run_loop_id=each, owner=owner) for each in run_loop_ids]
    events = [event for history in histories for event in history]
    return sorted((e for e in events if (e.seq or 0) <= until), key=lambda event: event.seq or 0)


async def _seen(agent: Agent, owner: str, run_loop_ids: Collection[str]) -> None:
    try:
        await agent.schedules.seen(run_loop_ids, owner=owner)
    except StorageError as error:
        log.warning("what was told may be told again: %s", error.problem().in_words())
