"""Tasks and locks: work that is finished once begun, background work that is tried again, and locks
by key, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, TypeVarTuple

import anyio
from anyio.abc import TaskGroup

from service.domain.errors import Problem, RondoError

log = logging.getLogger(__name__)

T = TypeVar("T")
Args = TypeVarTuple("Args")

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


def start_unless_ending(
    group: TaskGroup,
    work: Callable[[*Args], Coroutine[Any, Any, Any]],
    *args: *Args,
    name: str,
) -> bool:
    """Start a task for somebody outside of its group, unless the group is cancelled or has ended.

    Once all tasks of a cancelled group are done, anyio tells nobody in it of the cancellation any
    more. One that was started just then would wait for that without end, and the group for it.

    Returns:
        Whether it was started.
    """
    if group.cancel_scope.cancel_called:
        return False
    try:
        group.start_soon(work, *args, name=name)
    except RuntimeError as error:  # the group has ended
        log.debug("%s is not started: %s", name, error)
        return False
    return True


def _done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("work that was to be finished failed: %s", error)


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
