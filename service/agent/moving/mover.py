"""The mover: a person says that a message belongs to another run loop, and it goes there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import anyio
import anyio.lowlevel
from anyio import to_thread

from service.agent.moving.move_plan import check_can_be_taken_back, has_side_effects, is_free, plan
from service.agent.moving.move_undo import check_came_alone, last_move, left_last
from service.agent.moving.moved_rounds import Round, WentBefore, all_waiting, place_of, round_of
from service.domain.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from service.domain.history.events import MessageMoved, RouteDecided
from service.domain.history.human_input import NEW_RUN_LOOP, InputReceived
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.loop.scheduler import Scheduler
from service.memory.journal.change_feed import Commit
from service.memory.memory import Memory
from service.storage.concurrency import run_to_end
from service.tools.registry import ToolRegistry
from service.tuning import MOVE_MOST_ATTEMPTS

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved, and where to."""

    message_ids: tuple[str, ...]
    """Messages that were observed together are moved together."""
    from_run_loop_id: str
    to_run_loop_id: str
    run_loop: RunLoop
    """The loop that they are in now."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a person asked for."""

    run_loop_id: str
    message_id: str | None
    to: str | None
    owner: str
    answer: InputReceived | None = None
    """Said to the router, which had asked where the messages of the loop belong: all of them go."""
    undo: bool = False
    """Whether it takes a move back."""


class _BusyError(Exception):
    """The target is at work."""


class _OvertakenError(Exception):
    """One of the loops has gone on meanwhile."""


class Mover:
    """Moves messages between run loops.

    Moves at once need no lock: each is one transaction that is refused where one of its two loops
    has gone on since it was read, and then begins anew.
    """

    def __init__(
        self, memory: Memory, scheduler: Scheduler, tools: ToolRegistry, *, patience_seconds: float
    ) -> None:
        """Name what it works with.

        Args:
            memory: open.
            scheduler: of the loops at work.
            tools: what they may call.
            patience_seconds: how long a move waits for a loop that is at work.
        """
        self._patience = patience_seconds
        self._memory = memory
        self._journal = memory.journal
        self._scheduler = scheduler
        self._tools = tools
        self._threads = anyio.CapacityLimiter(2)  # those that are shared may be used up by tools

    async def move(
        self, run_loop_id: str, message_id: str | None, to: str | None, owner: str
    ) -> Moved:
        """See `Agent.reroute`."""
        if to == NEW_RUN_LOOP:
            to = None
        if to == run_loop_id:
            raise InvalidInputError(
                "the message is in that run loop already", advice="Name another one, or a new one."
            )
        await self._journal.run_loops.check_owner(run_loop_id, owner=owner)
        if to is not None:
            await self._journal.run_loops.check_owner(to, owner=owner)
        self._check_outside(run_loop_id, to or run_loop_id)
        wish = _Wish(run_loop_id, message_id, to, owner)
        if message_id is None:
            wish = replace(wish, message_id=await self._newest(wish))
        return await self._try_on(wish)

    async def _newest(self, wish: _Wish) -> str:
        """The message that a wish is about which names none: the newest one; but where nothing was
        said in the loop since the same wish, the one that was moved then."""
        moved = left_last(await self._journal.read(run_loop_id=wish.run_loop_id))
        if moved is not None:
            before = WentBefore(moved.message_ids, moved.to_run_loop_id)
            if await self._is_as_wished(wish, before, moved.to_run_loop_id):
                return moved.message_ids[-1]
        return (await self._read(wish)).message_ids[-1]

    async def possible(
        self, run_loop_id: str, message_id: str, places: Sequence[str], owner: str
    ) -> tuple[str, ...]:
        """See `Agent.possible_moves`."""
        wish = _Wish(run_loop_id, message_id, None, owner)
        feasible = tuple[str, ...]()
        try:
            gone = await self._read(wish)
        except (ConflictError, NotFoundError):
            return feasible
        if isinstance(gone, WentBefore):
            return feasible
        for place in places:
            to = None if place == NEW_RUN_LOOP else place
            try:
                await self._prepared(replace(wish, to=to), gone)
            except _BusyError:
                state = self._memory.short_term.state(place)
                if state is not None and state.awaiting is not None:
                    continue  # else it has done with what it is at, soon
            except (ConflictError, NotFoundError):
                continue
            feasible = (*feasible, place)
        return feasible

    async def undo(self, run_loop_id: str, message_id: str | None, owner: str) -> Moved:
        """See `Agent.undo_reroute`."""
        await self._journal.run_loops.check_owner(run_loop_id, owner=owner)
        events = await self._journal.read(run_loop_id=run_loop_id)
        move = last_move(events, message_id)
        wish = _Wish(run_loop_id, move.message_ids[-1], move.from_run_loop_id, owner, undo=True)
        place = await self._place_now(wish, WentBefore(move.message_ids, move.to_run_loop_id))
        if move.is_undo:
            if place != move.to_run_loop_id:
                raise _gone_on(wish, place)
            now = await self._journal.replay(place, owner=owner)
            return Moved(move.message_ids, move.from_run_loop_id, now.id, now.run_loop())
        await self._journal.run_loops.check_owner(move.from_run_loop_id, owner=owner)
        self._check_outside(place, move.from_run_loop_id)
        return await self._try_on(replace(wish, run_loop_id=place))

    def _check_outside(self, *run_loop_ids: str) -> None:
        if any(self._scheduler.is_within(each) for each in run_loop_ids):
            raise ConflictError(
                "a message cannot be moved by the work of its own run loop, whose end that would"
                " have to wait for",
                advice="Move it from outside of tools and hooks.",
            )

    async def move_as_answered(
        self, run_loop_id: str, answer: InputReceived, to: str, owner: str
    ) -> None:
        """Take an answer to the router, and move what waits for it to the loop that was chosen.

        Raises:
            NotFoundError: the owner has no such run loop, any more.
            ConflictError: the loop does not wait for this answer, any more.
            StorageError: the disk refuses; nothing was moved.
        """
        await self._journal.run_loops.check_owner(to, owner=owner)
        await run_to_end(self._until_moved(_Wish(run_loop_id, None, to, owner, answer)))

    async def _try_on(self, wish: _Wish) -> Moved:
        """Move when the target has done with what it is at."""
        deadline = anyio.current_time() + self._patience
        while anyio.current_time() < deadline:
            try:
                return await run_to_end(self._until_moved(wish))
            except _BusyError:
                with anyio.CancelScope(deadline=deadline):
                    await self._until_at_rest(wish.to or "")
        raise ConflictError(
            f"run loop {wish.to} is at work, and takes in a message with its answer only between"
            " two of its own",
            advice="Move it when that has answered; or cancel it first.",
        )

    async def _until_at_rest(self, run_loop_id: str) -> None:
        state = self._memory.short_term.state(run_loop_id)
        if state is not None and state.status == "waiting_for_human_input":
            raise ConflictError(
                f"run loop {run_loop_id} waits for an answer to what it has asked",
                advice="Answer it, or cancel it; then move the message.",
            )
        await self._scheduler.at_rest(run_loop_id)
        await anyio.sleep(0.01)  # it may go on at once, with what came in meanwhile

    async def _until_moved(self, wish: _Wish) -> Moved:
        for _ in range(MOVE_MOST_ATTEMPTS):
            try:
                outcome = await self._attempt(wish)
            except _OvertakenError as error:
                log.debug("a move begins anew: %s", error)
                await anyio.lowlevel.checkpoint()
            else:
                break
        else:
            raise ConflictError(
                f"run loop {wish.run_loop_id} kept changing while its message was to be moved",
                advice="Nothing was moved. Try it again.",
            )
        if isinstance(outcome, WentBefore):
            return await self._repeated(wish, outcome)
        source, target = outcome
        self._scheduler.wake(target.state.id)
        # Memory is to find the words where they are now, before anybody is told that they are.
        await self._memory.archivist.archive((source.state, target.state), read_at=target.number)
        now = await self._journal.replay(target.state.id)
        moved = (each.body for each in source.events)
        message_ids = next(each.message_ids for each in moved if isinstance(each, MessageMoved))
        return Moved(message_ids, wish.run_loop_id, now.id, now.run_loop())

    async def _attempt(self, wish: _Wish) -> WentBefore | list[Commit]:
        """Move, unless it was moved before.

        Raises:
            _OvertakenError: something came in between; nothing was written.
        """
        async with AsyncExitStack() as stack:
            read_at = self._journal.lost_words_at
            current = await self._read(wish)
            if isinstance(current, Round) and current.is_last:
                await self._prepared(wish, current)  # before anything is stopped for it
                await stack.enter_async_context(self._scheduler.held(wish.run_loop_id, "move"))
                read_at = self._journal.lost_words_at
                current = await self._read(wish)
            if isinstance(current, WentBefore):
                return current
            current, target = await self._prepared(wish, current)
            planning = partial(plan, current, target, read_at=read_at, undo=wish.undo)
            planned = await to_thread.run_sync(planning, limiter=self._threads)
            source = planned.source
            if wish.answer is not None:
                source = replace(source, bodies=[wish.answer, *source.bodies])
            try:
                return await self._journal.append_together(source, planned.target)
            except ConflictError as error:
                raise _OvertakenError(str(error)) from error

    async def _read(self, wish: _Wish) -> Round | WentBefore:
        def work() -> Round | WentBefore:
            events = self._journal.read_blocking(run_loop_id=wish.run_loop_id)
            if wish.answer is not None:
                return _answered(all_waiting(events), wish.answer)
            return round_of(events, wish.message_id)

        return await self._in_thread(wish.run_loop_id, work)

    async def _in_thread(self, run_loop_id: str, work: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        except ValueError as error:  # pydantic's errors are of this kind too
            raise StorageError(
                f"the history of run loop {run_loop_id} cannot be read: {error}",
                advice="It may be of a newer version of Rondo; the other run loops go on.",
            ) from error

    async def _prepared(self, wish: _Wish, gone: Round) -> tuple[Round, RunLoopState | None]:
        """What goes, in the way that the target can take it in; and the target."""
        if gone.reopens is not None:
            check_can_be_taken_back(gone, self._tools)
        if wish.to is None:
            return gone, None
        if wish.undo:
            check_came_alone(gone)
        target = await self._journal.replay(wish.to, owner=wish.owner)
        waits = target.awaiting is not None and not target.asks_where
        if waits and not has_side_effects(gone, self._tools):
            # It hears the message, and answers it itself: what it was answered goes nowhere.
            gone = replace(gone, anew=True)
        if gone.came_to_something and not is_free(target):
            raise _BusyError
        return gone, target

    async def _repeated(self, wish: _Wish, before: WentBefore) -> Moved:
        """The same wish again changes nothing."""
        place = await self._place_now(wish, before)
        if not await self._is_as_wished(wish, before, place):
            raise _gone_on(wish, place)
        now = await self._journal.replay(place, owner=wish.owner)
        return Moved(before.message_ids, wish.run_loop_id, now.id, now.run_loop())

    async def _is_as_wished(self, wish: _Wish, before: WentBefore, place: str) -> bool:
        """Whether a loop where messages are now is the one that is wished for, or was opened as it
        was wished."""
        if wish.to == place:
            return True
        if place != before.to_run_loop_id or not await self._was_opened_for(wish, before):
            return False
        return wish.to == (await self._journal.replay(place, owner=wish.owner)).predecessor_id

    async def _place_now(self, wish: _Wish, before: WentBefore) -> str:
        """Where the messages are that were moved, and perhaps moved on since."""
        move: WentBefore | None = before
        place = before.to_run_loop_id
        while move is not None:
            place = move.to_run_loop_id
            await self._journal.run_loops.check_owner(place, owner=wish.owner)  # not forgotten
            events = await self._journal.read(run_loop_id=place)
            move = await self._in_thread(place, partial(place_of, events, before.message_ids[-1]))
        return place

    async def _was_opened_for(self, wish: _Wish, before: WentBefore) -> bool:
        """Whether the loop that the messages were moved to was opened by that move."""
        routes = await self._journal.read(run_loop_id=before.to_run_loop_id, kind="route.decided")
        first = routes[0].body if routes else None
        return (
            isinstance(first, RouteDecided)
            and first.message_id in before.message_ids
            and first.route.decision == "new"
            and first.route.moved_from == wish.run_loop_id
        )


def _gone_on(wish: _Wish, place: str) -> ConflictError:
    return ConflictError(
        f"message {wish.message_id} is not in run loop {wish.run_loop_id} any more: it was"
        f" moved, and is in {place} now",
        advice="Move it from there.",
    )


def _answered(waiting: Round, answer: InputReceived) -> Round:
    """The round, if its loop waits for this answer still."""
    asked = waiting.state.awaiting
    if asked is None or asked.request_id != answer.request_id:
        raise ConflictError(f"run loop {waiting.state.id} does not wait for this answer any more")
    return waiting
