"""``/v1/memory/notes``: what consolidation has written, and how it gets on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import anyio.to_thread
from fastapi import APIRouter
from pydantic import BaseModel

from service.domain.anchors import MemoryNote
from service.domain.run_loops import Timestamp
from service.server.auth import Owner
from service.server.daemon import TheDaemon

if TYPE_CHECKING:
    from service.agent.agent import Agent
    from service.agent.consolidation.consolidation_options import ConsolidationStatus

router = APIRouter(prefix="/v1/memory/notes", tags=["memory"])


class Consolidation(BaseModel):
    """How the writing of notes gets on. The counts are of this process."""

    enabled: bool
    state: Literal["off", "waiting", "writing", "used up", "failing"]
    """``waiting``: for idle time, or for something new; ``used up``: the day's tokens are;
    ``failing``: `problem` says why; it is tried again."""
    tokens_today: int = 0
    max_tokens_per_day: int | None = None
    sentences_written: int = 0
    sentences_dropped: Mapping[str, int] = {}
    """By reason: what the model wrote and could not show to be true."""
    passages_set_aside: int = 0
    """Segments to which the model gives no usable answer; tried again at the next start."""
    last_written_at: Timestamp | None = None
    problem: str | None = None


class NoteList(BaseModel):
    """All notes, those written last first."""

    notes: list[MemoryNote]
    consolidation: Consolidation


@router.get("")
async def notes(daemon: TheDaemon, owner: Owner) -> NoteList:
    """All notes with the anchors that each sentence rests on, and how their writing gets on."""
    agent = await daemon.agent()
    found = await anyio.to_thread.run_sync(agent.memory.long_term.notes.of, owner)
    return NoteList(notes=found, consolidation=_shown(await agent.consolidation_status()))


@router.delete("/{note_id}")
async def remove(note_id: str, daemon: TheDaemon, owner: Owner) -> MemoryNote:
    """Delete a note. What it was written from stays, and is not read for notes again."""
    found = (await daemon.agent()).memory.long_term.notes
    return await anyio.to_thread.run_sync(lambda: found.remove(note_id, owner=owner))


async def counted_notes(agent: Agent, owner: str) -> tuple[int, str | None]:
    """How many notes an owner has, and why none are written at present, if something hinders it."""
    count = await anyio.to_thread.run_sync(agent.memory.long_term.notes.count, owner)
    status = await agent.consolidation_status()
    return count, None if status is None else status.problem


def _shown(status: ConsolidationStatus | None) -> Consolidation:
    if status is None:
        return Consolidation(enabled=False, state="off")
    return Consolidation(
        enabled=True,
        state=status.state,
        tokens_today=status.tokens_today,
        max_tokens_per_day=status.max_tokens_per_day,
        sentences_written=status.sentences_written,
        sentences_dropped=status.sentences_dropped,
        passages_set_aside=status.passages_set_aside,
        last_written_at=status.last_written_at,
        problem=status.problem,
    )
