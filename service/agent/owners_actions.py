"""What an owner can do with their run loops besides talking to them: the agent's own methods."""

from __future__ import annotations

from contextlib import suppress

from reactivex import Observable

from service.agent.engine import Engine
from service.agent.moving.mover import Moved
from service.domain.errors import ConflictError
from service.domain.forgetting import ForgetPreview, ForgetReceipt, ForgetRequest
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.memory.memory import Memory


class OwnersActions:
    """Looks at run loops, ends them, takes them up, forks them, moves messages, and forgets."""

    memory: Memory
    _engine: Engine

    @property
    def active_run_loops(self) -> Observable[tuple[RunLoop, ...]]:
        """The active run loops: at once, and whenever one changes."""
        return self.memory.short_term.active

    async def run_loop(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """A run loop, active or ended, whole.

        Raises:
            NotFoundError: the owner has no such run loop.
        """
        return (await self.memory.journal.replay(run_loop_id, owner=owner)).run_loop()

    async def replay(
        self, run_loop_id: str, *, at: int | None = None, owner: str = "me"
    ) -> RunLoopState:
        """The state of a run loop, as it is or as it was right after an event.

        Args:
            run_loop_id: the loop, active or ended.
            at: the event's number; None for now.
            owner: whose.

        Raises:
            NotFoundError: the owner has no such run loop.
            InvalidInputError: it has no event up to `at`.
        """
        return await self._engine.control.replay(run_loop_id, owner, at)

    async def cancel(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Stop a loop. Returns once its work has really ended.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended already.
        """
        return await self._engine.control.cancel(run_loop_id, owner)

    async def complete(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Declare a loop done, so that it goes to long-term memory.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended already, or is still at work.
        """
        return await self._engine.control.complete(run_loop_id, owner)

    async def preview_forgetting(
        self, request: ForgetRequest, *, owner: str = "me"
    ) -> ForgetPreview:
        """What would be forgotten; removes nothing. See `Forgetting.preview`.

        Raises:
            InvalidInputError: the request names nothing, or contradicts itself.
            NotFoundError: the owner has no such run loop, or nothing stands at an anchor.
        """
        return await self.memory.forgetting.preview(request, owner=owner)

    async def forget(
        self, request: ForgetRequest, confirm: str, *, owner: str = "me"
    ) -> ForgetReceipt:
        """Forget what was previewed, for good. See `Forgetting.forget`.

        Raises:
            ForgetConflictError: it is not what was previewed any more, or run loops are active;
                nothing was removed.
        """

        async def stop(run_loop_id: str) -> None:
            with suppress(ConflictError):  # it has ended by itself just now
                await self._engine.control.cancel(run_loop_id, owner)

        return await self.memory.forgetting.forget(request, confirm, owner=owner, stop=stop)

    async def resume(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Take up a cancelled or failed loop where it ended.

        What had not been answered is answered now. (A message with its id takes it up too.)

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it is active, or completed.
        """
        return await self._engine.control.resume(run_loop_id, owner)

    async def fork(self, run_loop_id: str, *, at: int | None = None, owner: str = "me") -> RunLoop:
        """Open a loop that has the same history up to an event, and goes on by itself from there.

        The first loop is left as it is. A fork in the middle of work takes that work up: tools that
        had begun run again only where they are `read_only` or `idempotent`.

        Args:
            run_loop_id: the loop, active or ended.
            at: the event's number; None for the last, or the last before the loop's end.
            owner: whose.

        Raises:
            NotFoundError: the owner has no such run loop.
            InvalidInputError: it has no event up to `at`.
        """
        return await self._engine.control.fork(run_loop_id, owner, at)

    async def reroute(
        self,
        run_loop_id: str,
        *,
        message_id: str | None = None,
        to: str | None = None,
        owner: str = "me",
    ) -> Moved:
        """Move a message, and what followed from it, to the loop where it belongs.

        Both histories stay well formed, and no tool runs twice: what was done for the message goes
        with it. What was going on goes on there. The same wish again changes nothing, where it
        names the message.

        Args:
            run_loop_id: the loop that it is in.
            message_id: the message; None: the newest one.
            to: the loop where it belongs: an active one is joined, one that was cancelled or failed
                goes on, a completed one is taken up by a new one. None: a new one.
            owner: whose.

        Raises:
            NotFoundError: the owner has no such run loop, or it no such message.
            InvalidInputError: it is in that loop already.
            ConflictError: it was moved to another one before; or its words were summarised together
                with others; or the other loop waits for a person, or is at work for long; or the
                caller is work of a loop whose end would have to be waited for.
            StorageError: the disk refuses; nothing was moved.
        """
        return await self._engine.mover.move(run_loop_id, message_id, to, owner)
