"""``/healthz``, ``/readyz`` and ``/``: is it alive, can it answer, where to look."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio.to_thread
from fastapi import APIRouter, Response

from service.domain.errors import RondoError
from service.server.daemon import Daemon, TheDaemon
from service.wire.daemon_bodies import Health, Readiness, ReadyPart, Welcome

router = APIRouter(tags=["probes"])


@router.get("/healthz")
async def healthz() -> Health:
    """Whether the process is alive. Answers from the first moment, and needs no token."""
    return Health()


@router.get("/readyz", responses={503: {"model": Readiness, "description": "Not ready yet"}})
async def readyz(daemon: TheDaemon, response: Response) -> Readiness:
    """Whether everything is loaded, part by part, in words. Needs no token."""
    readiness = await _readiness(daemon)
    if not readiness.ready:
        response.status_code = 503
    return readiness


@router.get("/")
async def root() -> Welcome:
    """What answers here."""
    return Welcome()


async def _readiness(daemon: Daemon) -> Readiness:
    agent = daemon.agent_now
    if agent is None or daemon.closing.is_set():
        detail = "it is stopping" if daemon.closing.is_set() else "it is starting"
        if daemon.failure is not None:
            detail = daemon.failure.title
        part = ReadyPart(ready=False, detail=detail)
        return Readiness(ready=False, agent=part, llm=part, memory=part)
    status = agent.models.status()
    memory = await _memory_part(daemon)
    return Readiness(
        ready=status.ready and memory.ready,
        agent=ReadyPart(ready=True, detail="it works"),
        llm=ReadyPart(ready=status.ready, detail=status.detail),
        memory=memory,
    )


async def _memory_part(daemon: Daemon) -> ReadyPart:
    """Memory works without an embedder too, only less well: it is ready then."""
    agent = await daemon.agent()
    trouble = await anyio.to_thread.run_sync(
        _disk_trouble, daemon.settings.data_dir, daemon.least_free_bytes
    )
    if trouble is not None:
        return ReadyPart(ready=False, detail=trouble)
    damage = agent.memory.journal.damage
    if damage is not None:  # what was read since the start: the whole file is not looked through
        # Anybody may ask: neither what was said nor where the folder is, is theirs to know.
        advice = damage.advice.replace(str(daemon.settings.data_dir.absolute()), "the data folder")
        words = f"part of the journal cannot be read; its run loops are shown as failed. {advice}"
        return ReadyPart(ready=False, detail=f"{words} `rondo doctor` looks through the files.")
    try:
        stats = await agent.memory.long_term.stats()
    except RondoError as error:
        return ReadyPart(ready=False, detail=error.title)
    detail = (
        f"{stats.run_loops} run loops in {stats.segments} segments; "
        f"{stats.pending} wait to be embedded"
    )
    if stats.problem:  # in words that may quote an endpoint, which need a token
        detail += "; search goes by words only, /v1/memory/stats says why"
    return ReadyPart(ready=True, detail=detail)


def _disk_trouble(folder: Path, least_free_bytes: int) -> str | None:
    """Why nothing can be written in a folder. Asks the file system only: anybody may call this."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"the data folder cannot be used: {error.strerror}"
    if free < least_free_bytes:
        return f"the disk of the data folder is full: {free / 1e6:.1f} MB are free"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "the data folder cannot be written"
    return None
