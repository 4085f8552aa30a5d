"""Whoever comes to the same place gets in one after another, in the order in which they came."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(slots=True)
class _Queue:
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    length: int = 0
    """With whoever is within."""


class KeyedLock:
    """Lets one at a time into each of any number of places; keeps nothing of places left alone."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    def __len__(self) -> int:
        """In how many places somebody is, or waits."""
        return len(self._queues)

    @asynccontextmanager
    async def turn(self, place: str) -> AsyncGenerator[None]:
        """Wait for those who came before; whoever comes later waits until the end of ``with``."""
        queue = self._queues.setdefault(place, _Queue())
        queue.length += 1
        try:
            async with queue.turn:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[place]
