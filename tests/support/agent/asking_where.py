"""A house whose router asks where messages belong, and what tests of that look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from service.agent.agent import Agent
from service.domain.history.events import Event
from service.domain.history.human_input import InputRequired
from service.domain.history.state import RunLoopState
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import echo, request_of, running_agent, sent, until

ALWAYS = RouterOptions(ask_below=1, use_llm=False)
TRIP = "Plan a weekend in Lisbon"
VAGUE = "and what does it cost?"


@asynccontextmanager
async def house(folder: Path, **options: Any) -> AsyncIterator[Agent]:
    async with running_agent(folder, echo, **{"router": ALWAYS, **options}) as agent:
        yield agent


async def trip_of(agent: Agent) -> str:
    """The first topic: with nothing to choose from, nobody is asked."""
    events = await sent(agent, TRIP)
    assert events[-1].type == "run_loop.idle"
    return events[-1].run_loop_id


async def asked(agent: Agent, words: str = VAGUE) -> tuple[str, InputRequired]:
    """The loop that waits, and what it asks."""
    events = await sent(agent, words)
    return events[-1].run_loop_id, request_of(events)


async def following(agent: Agent, message_id: str) -> list[Event]:
    with agent.reader() as reader:
        return [event async for event in agent.follow(message_id, reader=reader)]


async def at_rest(agent: Agent, run_loop_id: str) -> None:
    def rests() -> bool:
        state = agent.memory.short_term.state(run_loop_id)
        return state is not None and state.status == "idle"

    await until(rests)


def waits(agent: Agent) -> list[RunLoopState]:
    return [s for s in agent.memory.short_term.states() if s.status == "waiting_for_human_input"]
