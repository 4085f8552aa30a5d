"""The lifecycle: loops that have answered complete once no follow-up came for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

import anyio

from service.domain.errors import ConflictError, StorageError
from service.domain.history.events import RunLoopCompleted
from service.domain.history.state import RunLoopState
from service.memory.journal.change_feed import rests
from service.memory.memory import Memory

log = logging.getLogger(__name__)

_LONGEST_SLEEP = 60.0  # clocks are set, machines sleep: look again at least once a minute


class Lifecycle:
    """Completes loops that have been idle for long enough."""

    def __init__(
        self,
        memory: Memory,
        linger_seconds: float,
        *,
        retry_seconds: float = 5.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Name what it works with.

        Args:
            memory: open.
            linger_seconds: how long a loop rests before it completes.
            retry_seconds: after the disk has refused: until it is asked again.
            now: the clock by which loops were last changed.
        """
        self._memory = memory
        self._retry = retry_seconds
        self._linger = linger_seconds
        self._now = now
        self._first_seen: dict[tuple[str, int], float] = {}
        """When a rest was first seen, on a clock that nobody sets."""

    async def run(self) -> None:
        """Complete loops, until cancelled."""
        with self._memory.journal.changes.subscribe("lifecycle", rests) as changes:
            while True:
                number = self._memory.journal.changes.last
                sleep = await self._look()
                changes.done(number)
                with anyio.move_on_after(sleep):
                    await changes.changed()

    async def _look(self) -> float:
        """Complete what has rested for long enough; after how many seconds to look again."""
        sleep = _LONGEST_SLEEP
        resting: dict[tuple[str, int], float] = {}
        for state in self._memory.short_term.states():
            if state.status == "idle":
                rest = (state.id, state.last_seq)
                resting[rest] = self._first_seen.get(rest, anyio.current_time())
                left = self._linger - self._age(state, resting[rest])
                if left > 0:
                    sleep = min(sleep, left)
                elif not await self._complete(state):
                    sleep = min(sleep, self._retry)
        self._first_seen = resting
        return sleep

    def _age(self, state: RunLoopState, first_seen: float) -> float:
        """How many seconds a loop has rested, also where the clock was set back since."""
        by_the_clock = (self._now() - state.updated_at).total_seconds()
        return max(by_the_clock, anyio.current_time() - first_seen)

    async def _complete(self, state: RunLoopState) -> bool:
        """Complete a loop; False where the disk refuses."""
        try:
            await self._memory.journal.append(
                state.id,
                RunLoopCompleted(reason="answered, and no follow-up came"),
                if_last_seq=state.last_seq,
            )
        except ConflictError:
            pass  # a follow-up came just now
        except StorageError as error:
            log.error("run loop %s cannot be completed yet: %s", state.id, error)
            return False
        return True
