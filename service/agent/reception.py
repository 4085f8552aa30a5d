"""The reception: takes messages in, and brings each to the run loop that it belongs to.

A message is safe once `accept` returns. Where it belongs may take a while to decide, while models
load; messages without an id are decided upon one after another, in the order in which they came.
Messages that name the same loop get there in the order in which they came, too.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from service.agent.undelivered import UNREADABLE, decided_again, not_worked_on
from service.domain.errors import ConflictError, NotFoundError, Problem, RondoError, StorageError
from service.domain.history.events import (
    ErrorOccurred,
    EventBody,
    MessageReceived,
    RouteDecided,
    RunLoopStarted,
)
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.history.state import RunLoopState
from service.domain.ids import new_id
from service.domain.routes import Route
from service.llm.spending.accounts import Account, Spending
from service.loop import unexpected_errors
from service.loop.hooks.hook_runner import HookRunner
from service.loop.replies import joining
from service.loop.scheduler import Activity, Scheduler, step_outside
from service.memory.journal.inbox import Delivery, InboxEntry, Receipt
from service.memory.memory import Memory
from service.routing.clarification import question, rather_asked
from service.routing.message_splitting import (
    is_part,
    opened_by_earlier_parts,
    parts_of,
    without_announcement,
)
from service.routing.router import Router
from service.storage.concurrency import KeyedLock, run_to_end, start_unless_ending

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Routed:
    """A message that has been decided upon."""

    route: Route
    besides: list[EventBody]
    """What routing used, and what went wrong in it."""


class Reception:
    """Accepts messages and delivers them."""

    def __init__(
        self,
        group: TaskGroup,
        memory: Memory,
        router: Router,
        scheduler: Scheduler,
        hooks: HookRunner,
        activity: Activity,
        spending: Spending,
        *,
        storage_retry_seconds: float,
    ) -> None:
        self._storage_retry = storage_retry_seconds
        self._group = group
        self._memory = memory
        self._router = router
        self._scheduler = scheduler
        self._hooks = hooks
        self._changes: dict[str, anyio.Event] = {}
        self._problems: dict[str, Problem] = {}
        self._arriving = KeyedLock()
        """Messages that name their loop, by its id."""
        self._at_work: set[str] = set()
        """Messages that are on their way into a loop."""
        self._held_back: list[InboxEntry] | None = []
        """What came in before the messages of an earlier process were taken up."""
        self._queue, self._waiting = anyio.create_memory_object_stream[InboxEntry](math.inf)
        self._activity = activity
        self._spending = spending
        self._accounts: dict[str, Account] = {}
        """By message: what routing it has used, until the message is in its loop."""

    @property
    def at_work(self) -> bool:
        """Whether any message is on its way into a run loop."""
        return bool(self._at_work)

    @property
    def awaited(self) -> int:
        """How many messages somebody waits for."""
        return len(self._changes)

    async def accept(
        self, entry: InboxEntry, *, idempotency_key: str | None, request_hash: str | None
    ) -> Receipt:
        """Make a message safe, and begin to deliver it.

        Raises:
            ConflictError: the idempotency key was used for another request.
            StorageError: the disk refuses; the message was not accepted.
        """
        self._activity.happened()
        return await run_to_end(self._accept(entry, idempotency_key, request_hash))

    async def _accept(
        self, entry: InboxEntry, idempotency_key: str | None, request_hash: str | None
    ) -> Receipt:
        inbox = self._memory.journal.inbox
        parts = parts_of(entry) if self._router.options.split_matters else (entry,)
        receipt = await inbox.accept(
            *parts, idempotency_key=idempotency_key, request_hash=request_hash
        )
        waiting: Sequence[InboxEntry | None] = parts
        if receipt.replayed:
            ids = (receipt.message_id, *receipt.parts)
            waiting = [await inbox.waiting(message_id) for message_id in ids]
        for each in waiting:
            if each is not None:
                self._enqueue(each)
        return receipt

    async def run(self) -> None:
        """Deliver messages, first those that an earlier process has left, until cancelled."""
        older = await self._memory.journal.inbox.undelivered()
        newer, self._held_back = self._held_back or [], None
        self._at_work.clear()
        for entry in (*older, *newer):
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
            try:
                delivery = await self._memory.journal.inbox.delivery(message_id)
            except BaseException:
                self._wake(message_id)
                raise
            if delivery is None and changed.is_set():
                continue  # others may have looked before it was there
            outcome = delivery or self._problems.get(message_id)
            if outcome is None and message_id in self._memory.journal.inbox.unreadable:
                outcome = UNREADABLE
            if outcome is not None:
                self._wake(message_id)
                return outcome
            await changed.wait()

    def _enqueue(self, entry: InboxEntry) -> None:
        if entry.message_id in self._at_work:
            return
        self._at_work.add(entry.message_id)
        self._problems.pop(entry.message_id, None)
        if self._held_back is not None:
            self._held_back.append(entry)
        elif entry.requested_run_loop_id is None:
            self._queue.send_nowait(entry)
        elif not start_unless_ending(self._group, self._deliver, entry, name="delivery"):
            log.info("message %s is delivered when Rondo starts again", entry.message_id)

    async def _deliver(self, entry: InboxEntry) -> None:
        """Bring a message to its loop. Whatever happens, the next message gets its turn."""
        if entry.requested_run_loop_id is None:
            await self._bring(entry, None)
            return
        step_outside()
        async with self._arriving.turn(entry.requested_run_loop_id):
            joined = await self._delivered(entry, None)
        if joined is not None:
            await self._tell_hooks(entry, *joined)

    async def _bring(self, entry: InboxEntry, routed: _Routed | None) -> None:
        step_outside()
        joined = await self._delivered(entry, routed)
        if joined is not None:
            await self._tell_hooks(entry, *joined)

    async def _delivered(
        self, entry: InboxEntry, routed: _Routed | None
    ) -> tuple[Route, str] | None:
        """Why and where the message has joined; None where that is not, or no longer, for us."""
        message_id, task = entry.message_id, asyncio.current_task()
        besides = [] if routed is None else routed.besides
        while True:
            try:
                joined = await self._attempt(entry, routed, besides)
            except StorageError as error:
                # It is safe in the inbox: whoever waits is told, and we try again.
                log.error("message %s cannot be delivered yet: %s", message_id, error)
                self._tell(message_id, error.problem())
                await anyio.sleep(self._storage_retry)
                routed = None
            except BaseException as error:
                if unexpected_errors.passes_through(error, task):
                    raise
                log.exception("message %s cannot be delivered before the next start", message_id)
                self._done_with(message_id, not_worked_on(error))
                return None
            else:
                if joined is not None:
                    self._scheduler.wake(joined[1])
                    self._done_with(message_id)
                return joined

    async def _attempt(
        self, entry: InboxEntry, routed: _Routed | None, besides: list[EventBody]
    ) -> tuple[Route, str] | None:
        first: Route | None = None
        while True:
            if routed is None:
                route = await self._route(entry, besides)
                routed = _Routed(route if first is None else decided_again(route, first), besides)
                if self._takes_time(entry, routed.route):
                    # What is at work may take long to stop: the next message need not wait.
                    self._group.start_soon(self._bring, entry, routed)
                    return None
            try:
                return routed.route, await self._append(entry, routed)
            except ConflictError:
                # The loop ended while it was being chosen: choose again.
                first, routed = routed.route, None
                if await self._memory.journal.inbox.delivery(entry.message_id) is not None:
                    self._done_with(entry.message_id)
                    return None

    @staticmethod
    def _takes_time(entry: InboxEntry, route: Route) -> bool:
        return (
            entry.requested_run_loop_id is None
            and entry.mode == "interrupt"
            and route.run_loop_id is not None
        )

    async def _tell_hooks(self, entry: InboxEntry, route: Route, run_loop_id: str) -> None:
        async def report(problem: Problem) -> None:
            try:
                await self._memory.journal.append(run_loop_id, ErrorOccurred(problem=problem))
            except RondoError as refused:
                log.warning("the failure of a hook cannot be journaled: %s", refused)

        await self._hooks.after_routing(entry, route, run_loop_id, report)

    async def _route(self, entry: InboxEntry, besides: list[EventBody]) -> Route:
        requested: RunLoopState | Literal["new"] | None = None
        words = await self._hooks.before_routing(
            entry, lambda problem: besides.append(ErrorOccurred(problem=problem))
        )
        if entry.requested_run_loop_id == NEW_RUN_LOOP:
            requested = NEW_RUN_LOOP
        elif entry.requested_run_loop_id is not None:
            try:
                requested = await self._memory.journal.replay(
                    entry.requested_run_loop_id, owner=entry.owner
                )
            except NotFoundError:
                log.warning("run loop %s was forgotten meanwhile", entry.requested_run_loop_id)
        active: Sequence[RunLoopState] = self._memory.short_term.states(entry.owner)
        if is_part(entry):
            words = without_announcement(words)
            siblings = await opened_by_earlier_parts(entry, self._memory.journal)
            active = [state for state in active if state.id not in siblings]
        account = self._account_for(entry)
        task = asyncio.current_task()
        below = self._router.options.ask_below if entry.mode == "steer" else 0.0
        try:
            route = await self._router.route(
                words,
                active=active,
                now=datetime.now(UTC),
                requested=requested,
                account=account,
            )
            return rather_asked(route, below=below)
        except StorageError:
            raise
        except BaseException as error:
            if unexpected_errors.passes_through(error, task):
                raise
            # A mistake of the router's must not keep a message from being answered.
            log.exception("message %s could not be routed", entry.message_id)
            reason = f"where it belongs could not be decided ({type(error).__name__})"
            return Route(decision="new", confidence=0.0, method="fallback", reason=reason)
        finally:
            besides += account.take_usage()

    def _account_for(self, entry: InboxEntry) -> Account:
        if entry.message_id not in self._accounts:
            opened = self._spending.account(owner=entry.owner, purpose="routing")
            self._accounts[entry.message_id] = opened
        return self._accounts[entry.message_id]

    async def _append(self, entry: InboxEntry, routed: _Routed) -> str:
        route = routed.route
        received = MessageReceived(
            message_id=entry.message_id,
            message=entry.message,
            metadata=entry.metadata,
            mode=entry.mode,
            model=entry.model,
        )
        decided = RouteDecided(message_id=entry.message_id, route=route)
        besides: tuple[EventBody, ...] = (decided, *routed.besides)
        if route.run_loop_id is not None:
            if entry.mode == "interrupt":
                async with self._scheduler.held(route.run_loop_id, "interrupt"):
                    await self._join(entry, route, received, *besides)
            else:
                await self._join(entry, route, received, *besides)
            return route.run_loop_id
        if route.method == "asked":
            besides = (*besides, question(route, entry.message.words))
        run_loop_id = new_id()
        goal = entry.message.words.strip()
        started = RunLoopStarted(goal=goal, predecessor_id=route.predecessor_id)
        await self._memory.journal.append(
            run_loop_id,
            started,
            received,
            *besides,
            owner=entry.owner,
            durable=True,
            delivering=entry.message_id,
        )
        return run_loop_id

    async def _join(
        self, entry: InboxEntry, route: Route, received: MessageReceived, *besides: EventBody
    ) -> None:
        run_loop_id = route.run_loop_id or ""
        while True:
            state = self._memory.short_term.state(run_loop_id)
            # What it waits for may be answered meanwhile: then this is a message like any other.
            waits = state is not None and state.awaiting is not None and not state.asks_where
            bodies = joining(route, state, received, besides)
            try:
                await self._memory.journal.append(
                    run_loop_id,
                    *bodies,
                    durable=True,
                    delivering=entry.message_id,
                    if_last_seq=state.last_seq if waits and state is not None else None,
                )
            except ConflictError:
                now = self._memory.short_term.state(run_loop_id)
                if not waits or now is None or now is state:
                    raise
            else:
                return

    def _done_with(self, message_id: str, problem: Problem | None = None) -> None:
        """A message is in its loop, or it is given up until the next start."""
        self._at_work.discard(message_id)
        self._problems.pop(message_id, None)
        if (account := self._accounts.pop(message_id, None)) is not None:
            account.close()
        self._tell(message_id, problem)

    def _tell(self, message_id: str, problem: Problem | None = None) -> None:
        if problem is not None:
            self._problems[message_id] = problem
        self._wake(message_id)

    def _wake(self, message_id: str) -> None:
        changed = self._changes.pop(message_id, None)
        if changed is not None:
            changed.set()
