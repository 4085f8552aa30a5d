"""``/v1/memory/notes``: what consolidation has written, and how it gets on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread
from fastapi import APIRouter

from service.domain.anchors import MemoryNote
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.memory_bodies import Consolidation, NoteList

if TYPE_CHECKING:
    from service.agent.agent import Agent
    from service.agent.consolidation.consolidation_worker import ConsolidationStatus

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


@router.get("/notes")
async def notes(daemon: TheDaemon, owner: Owner) -> NoteList:
    """All notes with the anchors that each sentence rests on, and how their writing gets on."""
    agent = await daemon.agent()
    note_list = await anyio.to_thread.run_sync(agent.memory.long_term.notes.of, owner)
    return NoteList(notes=note_list, consolidation=_shown(await agent.consolidation_status()))


@router.delete("/notes/{note_id}")
async def remove(note_id: str, daemon: TheDaemon, owner: Owner) -> MemoryNote:
    """Delete a note. What it was written from stays, and is not read for notes again."""
    note_store = (await daemon.agent()).memory.long_term.notes
    return await anyio.to_thread.run_sync(lambda: note_store.remove(note_id, owner=owner))


async def counted_notes(agent: Agent, owner: str) -> tuple[int, str | None]:
    """How many notes an owner has, and why none are written at present, if something hinders it."""
    note_list = await anyio.to_thread.run_sync(agent.memory.long_term.notes.of, owner)
    status = await agent.consolidation_status()
    return len(note_list), None if status is None else status.problem


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
