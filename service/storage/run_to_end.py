"""Work that is finished once begun, even when whoever asked for it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)

_running: set[asyncio.Task[Any]] = set()  # the event loop itself holds tasks only weakly


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work in a task of its own. A cancelled caller leaves at once; the work goes on.

    A shielded cancel scope is not enough: it does not hold against asyncio's own cancellation, by
    `asyncio.timeout` for one.
    """
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(_done)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_unheard)
        raise


def _unheard(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("work whose caller has gone failed: %s", error, exc_info=error)


def in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Begin work in a task of its own. Failures are logged."""
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("work that was to be finished failed: %s", error)
