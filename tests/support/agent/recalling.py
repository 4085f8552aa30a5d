"""Agents that remember something, and what was recalled of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from service.agent.agent import Agent
from service.domain.history.events import Event, MemoryRecalled, Recollection
from service.memory.protocol import Embedder
from tests.support.agent.agents import FunctionLLM, running_agent
from tests.support.agent.continuations import Turns
from tests.support.memory.remembering import run_loop


@asynccontextmanager
async def remembering_agent(
    folder: Path,
    llm: FunctionLLM,
    remembered: Mapping[str, Turns],
    embedder: Embedder | None = None,
    **options: Any,
) -> AsyncIterator[Agent]:
    options = {"auto_classify": False, **options}
    async with running_agent(folder, llm, embedder=embedder, **options) as agent:
        memory = agent.memory.long_term
        for loop_id, turns in remembered.items():
            await memory.archive(run_loop(loop_id, *turns))
        await memory.embed_pending()
        yield agent


def recalled(events: Sequence[Event]) -> list[Recollection]:
    """What was recalled of a topic; a person's limits are told apart (`test_care`)."""
    return [
        piece
        for event in events
        if isinstance(event.body, MemoryRecalled)
        for piece in event.body.recollections
        if not piece.heed
    ]
