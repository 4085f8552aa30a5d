"""Telling the cancellation of our own task from that of something it waited for."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import anyio


def current_task() -> asyncio.Task[Any] | None:
    """The task that runs now; None also where no event loop runs."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def caller_is_cancelled() -> bool:
    """Whether a `CancelledError` that arrived means this task: by anyio's scopes, or asyncio's."""
    task = asyncio.current_task()
    return anyio.current_effective_deadline() == -math.inf or (
        task is not None and task.cancelling() > 0
    )
