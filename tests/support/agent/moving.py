"""What tests of moved messages share: an agent without a router, and what to look at."""

from __future__ import annotations

from pathlib import Path

from service.agent.agent import Agent
from service.domain.history.events import MessageReceived
from tests.support.agent.agents import running_agent, sent, until


async def opened(agent: Agent, words: str) -> str:
    """A loop that has answered these words."""
    events = await sent(agent, words)
    return events[-1].run_loop_id


async def message_ids(agent: Agent, run_loop_id: str) -> list[str]:
    events = await agent.memory.journal.read(run_loop_id=run_loop_id)
    return [e.body.message_id for e in events if isinstance(e.body, MessageReceived)]


async def at_rest(agent: Agent, run_loop_id: str) -> None:
    await until(
        lambda: (
            (state := agent.memory.short_term.state(run_loop_id)) is not None
            and state.status == "idle"
        )
    )


def unseen(agent: Agent, run_loop_id: str) -> int:
    state = agent.memory.short_term.state(run_loop_id)
    assert state is not None
    return len(state.unseen)


def running(folder: Path, *args: object, **options: object):  # type: ignore[no-untyped-def]
    return running_agent(folder, *args, auto_classify=False, **options)  # type: ignore[arg-type]
