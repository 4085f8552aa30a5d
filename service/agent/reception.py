"""The reception: takes messages in, and brings each to the run loop that it belongs to.

A message is safe once `accept` returns. Where it belongs may take a while to decide, while models
load; messages without an id are decided upon one after another, in the order in which they came.
"""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from service.agent.hook_runner import HookRunner
from service.agent.router import Router
from service.agent.scheduler import Scheduler
from service.domain.errors import (
    ConflictError,
    NotFoundError,
    Problem,
    RondoError,
    StorageError,
)
from service.domain.events import (
    ErrorOccurred,
    EventBody,
    MessageReceived,
    RouteDecided,
    RunLoopInterrupted,
    RunLoopResumed,
    RunLoopStarted,
)
from service.domain.ids import new_id
from service.domain.routes import Route
from service.memory.inbox import Delivery, InboxEntry, Receipt
from service.memory.memory import Memory

log = logging.getLogger(__name__)

_STORAGE_RETRY_SECONDS = 5.0


class Reception:
    """Accepts messages and delivers them."""

    def __init__(
        self,
        group: TaskGroup,
        memory: Memory,
        router: Router,
        scheduler: Scheduler,
        hooks: HookRunner,
    ) -> None:
        self._group = group
        self._memory = memory
        self._router = router
        self._scheduler = scheduler
        self._hooks = hooks
        self._changes: dict[str, anyio.Event] = {}
        self._problems: dict[str, Problem] = {}
        self._queue, self._waiting = anyio.create_memory_object_stream[InboxEntry](math.inf)

    async def accept(
        self, entry: InboxEntry, *, idempotency_key: str | None, request_hash: str | None
    ) -> Receipt:
        """Make a message safe, and begin to deliver it.

        Raises:
            ConflictError: the idempotency key was used for another request.
            StorageError: the disk refuses; the message was not accepted.
        """
        receipt = await self._memory.journal.inbox.accept(
            entry, idempotency_key=idempotency_key, request_hash=request_hash
        )
        if not receipt.replayed:
            self._enqueue(entry)
        return receipt

    async def run(self) -> None:
        """Deliver messages, first those that an earlier process has left, for ever."""
        for entry in await self._memory.journal.inbox.undelivered():
            self._enqueue(entry)
        async for entry in self._waiting:
            await self._deliver(entry)

    async def delivery(self, message_id: str) -> Delivery | Problem:
        """Wait until a message is in its run loop; or what keeps it from getting there.

        Raises:
            NotFoundError: no such message was accepted.
        """
        while True:
            changed = self._changes.setdefault(message_id, anyio.Event())
            found = await self._memory.journal.inbox.delivery(message_id)
            if found is not None:
                self._wake(message_id)  # others may have looked before it was there
                return found
            if message_id in self._problems:
                return self._problems[message_id]
            await changed.wait()

    def _enqueue(self, entry: InboxEntry) -> None:
        if entry.requested_run_loop_id is None:
            self._queue.send_nowait(entry)
        else:
            self._group.start_soon(self._deliver, entry)

    async def _deliver(self, entry: InboxEntry) -> None:
        """Bring a message to its loop. Whatever happens, the next message gets its turn."""
        message_id = entry.message_id
        besides: list[EventBody] = []  # what routing used, and what went wrong in it
        while True:
            try:
                joined = await self._attempt(entry, besides)
            except StorageError as error:
                # It is safe in the inbox: whoever waits is told, and we try again.
                log.error("message %s cannot be delivered yet: %s", message_id, error)
                self._tell(message_id, error.problem())
                await anyio.sleep(_STORAGE_RETRY_SECONDS)
            except Exception as error:
                log.exception("message %s cannot be delivered before the next start", message_id)
                self._tell(message_id, _mistake(error))
                return
            else:
                self._problems.pop(message_id, None)
                if joined is not None:
                    self._scheduler.wake(joined[1])
                self._tell(message_id)
                if joined is not None:
                    await self._tell_hooks(entry, *joined)
                return

    async def _tell_hooks(self, entry: InboxEntry, route: Route, run_loop_id: str) -> None:
        async def report(problem: Problem) -> None:
            try:
                await self._memory.journal.append(run_loop_id, ErrorOccurred(problem=problem))
            except RondoError as refused:
                log.warning("the failure of a hook cannot be journaled: %s", refused)

        await self._hooks.after_routing(entry, route, run_loop_id, report)

    async def _attempt(
        self, entry: InboxEntry, besides: list[EventBody]
    ) -> tuple[Route, str] | None:
        """Why and where the message has joined; None when it had been delivered before."""
        while True:
            try:
                return await self._route_and_append(entry, besides)
            except ConflictError:
                # The loop ended while it was being chosen: choose again.
                if await self._memory.journal.inbox.delivery(entry.message_id) is not None:
                    return None

    async def _route_and_append(
        self, entry: InboxEntry, besides: list[EventBody]
    ) -> tuple[Route, str]:
        route = await self._route(entry, besides)
        received = MessageReceived(
            message_id=entry.message_id,
            message=entry.message,
            metadata=entry.metadata,
            mode=entry.mode,
        )
        decided = RouteDecided(message_id=entry.message_id, route=route)
        return route, await self._append(entry, route, received, decided, *besides)

    async def _route(self, entry: InboxEntry, besides: list[EventBody]) -> Route:
        requested = None
        words = await self._hooks.before_routing(
            entry, lambda problem: besides.append(ErrorOccurred(problem=problem))
        )
        if entry.requested_run_loop_id is not None:
            try:
                requested = await self._memory.journal.replay(
                    entry.requested_run_loop_id, owner=entry.owner
                )
            except NotFoundError:
                log.warning("run loop %s was forgotten meanwhile", entry.requested_run_loop_id)
        try:
            return await self._router.route(
                words,
                active=self._memory.short_term.states(entry.owner),
                now=datetime.now(UTC),
                requested=requested,
                on_usage=besides.append,
            )
        except StorageError:
            raise
        except Exception as error:
            # A mistake of the router's must not keep a message from being answered.
            log.exception("message %s could not be routed", entry.message_id)
            reason = f"where it belongs could not be decided ({type(error).__name__})"
            return Route(decision="new", confidence=0.0, method="fallback", reason=reason)

    async def _append(self, entry: InboxEntry, route: Route, *bodies: EventBody) -> str:
        if route.run_loop_id is not None:
            if entry.mode == "interrupt":
                async with self._scheduler.held(route.run_loop_id, "interrupt"):
                    await self._join(entry, route, *bodies)
            else:
                await self._join(entry, route, *bodies)
            return route.run_loop_id
        run_loop_id = new_id()
        goal = entry.message.text.strip() or "(an image)"
        started = RunLoopStarted(goal=goal, predecessor_id=route.predecessor_id)
        await self._memory.journal.append(
            run_loop_id,
            started,
            *bodies,
            owner=entry.owner,
            durable=True,
            delivering=entry.message_id,
        )
        return run_loop_id

    async def _join(self, entry: InboxEntry, route: Route, *bodies: EventBody) -> None:
        run_loop_id = route.run_loop_id or ""
        state = self._memory.short_term.state(run_loop_id)
        if state is None and route.method == "explicit":
            bodies = (RunLoopResumed(), *bodies)
        elif state is not None and entry.mode == "interrupt" and state.status != "idle":
            bodies = (*bodies, RunLoopInterrupted(message_id=entry.message_id))
        await self._memory.journal.append(
            run_loop_id, *bodies, durable=True, delivering=entry.message_id
        )

    def _tell(self, message_id: str, problem: Problem | None = None) -> None:
        if problem is not None:
            self._problems[message_id] = problem
        self._wake(message_id)

    def _wake(self, message_id: str) -> None:
        changed = self._changes.pop(message_id, None)
        if changed is not None:
            changed.set()


def _mistake(error: Exception) -> Problem:
    return Problem(
        kind="internal",
        title="The message could not be worked on",
        detail=f"{type(error).__name__}: {error}",
        advice="It is safe, and is tried again at the next start; the daemon's log says more.",
    )
