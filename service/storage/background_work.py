"""Work in the background that is done whenever it is wanted, and tried again where it fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from service.domain.errors import Problem, RondoError

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0


class Step:
    """One kind of work: whether it is wanted, and what kept it from being done the last time."""

    def __init__(self, work: Callable[[], Awaitable[Problem | None]]) -> None:
        """`work` gives what kept it from being done; what it raises is that, too."""
        self._work = work
        self._wanted = anyio.Event()
        self.ended = anyio.Event()
        """Set, and replaced, when a go has ended."""
        self.problem: Problem | None = None
        self._working = False

    @property
    def busy(self) -> bool:
        """Whether it is at work, or is about to be."""
        return self._working or self._wanted.is_set()

    def want(self) -> None:
        """Have it done soon."""
        self._wanted.set()

    async def repeat(self, first_pause: float = FIRST_PAUSE) -> None:
        """Do it whenever it is wanted, until cancelled.

        Args:
            first_pause: seconds before what failed is tried again; doubles each time it fails.
        """
        pause = first_pause
        while True:
            # After a failure, try again when the pause is over, or when there is something new.
            with anyio.move_on_after(pause if self.problem else None):
                await self._wanted.wait()
            self._wanted = anyio.Event()
            self._working = True
            problem = await self._try()
            if problem is not None:
                log.warning("long-term memory lags behind: %s", problem.in_words())
                pause = min(2 * pause, LONGEST_PAUSE) if self.problem else first_pause
            self.problem = problem
            self._working = False
            self.stop()

    async def _try(self) -> Problem | None:
        try:
            return await self._work()
        except Exception as error:  # noqa: BLE001  the worker outlives any failure, and tells it
            return problem_of(error)

    def stop(self) -> None:
        """Wake those who wait for the end of a go."""
        self.ended.set()
        self.ended = anyio.Event()


def problem_of(error: Exception) -> Problem:
    """What went wrong in the background, in words."""
    if isinstance(error, RondoError):
        return error.problem()
    log.error("archiving failed", exc_info=error)
    return Problem(kind="internal", title="A run loop was not archived", detail=repr(error))
