"""Activity: told by whoever works for a person, watched by what may only work when nobody does."""

from __future__ import annotations

import anyio


class Activity:
    """Something happens: a message comes in, or a run loop begins or ends to work."""

    def __init__(self) -> None:
        self._came = anyio.Event()

    def happened(self) -> None:
        """Something has happened just now. Takes no time."""
        self._came.set()
        self._came = anyio.Event()

    async def next(self) -> None:
        """Wait until something happens."""
        await self._came.wait()
