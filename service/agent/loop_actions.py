"""What an owner can do with their run loops besides talking to them: the agent's own methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

from reactivex import Observable

from service.agent.engine import Engine
from service.agent.moving.mover import Moved
from service.domain.errors import ConflictError
from service.domain.forgetting_terms import ForgetPreview, ForgetReceipt, ForgetRequest
from service.domain.history.events import CompactionFinished
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.memory import Memory


class LoopActions(ABC):
    """Looks at run loops, ends them, takes them up, forks them, moves messages, and forgets."""

    memory: Memory

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """The parts that do the work."""

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
        return await self.engine.control.replay(run_loop_id, owner, at)

    async def cancel(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Stop a loop. Returns once its work has really ended.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended already.
        """
        return await self.engine.control.cancel(run_loop_id, owner)

    async def complete(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Declare a loop done, so that it goes to long-term memory.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended already, or is still at work.
        """
        return await self.engine.control.complete(run_loop_id, owner)

    async def compact(self, run_loop_id: str, *, owner: str = "me") -> CompactionFinished:
        """Have the old rounds of a loop summarised now, however much room there is.

        A loop that is at work does it before its next step. Cancelling this call cancels nothing,
        and a crash leaves it to the next start.

        Returns:
            How many messages were replaced, by what and whom, and the tokens before and after.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended, waits for a person, or has nothing that a summary would
                make shorter; or the caller is part of its work.
        """
        return await self.engine.control.compact(run_loop_id, owner)

    def auto_enhance(self, *, owner: str = "me") -> bool:
        """Whether the model looks over its answers to an owner once more."""
        return self.engine.auto_enhance.is_on(owner)

    def switch_auto_enhance(self, *, on: bool, owner: str = "me") -> None:
        """Have the model look over its answers to an owner, or not; until the agent is closed."""
        self.engine.auto_enhance.switch(owner, on=on)

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
                await self.engine.control.cancel(run_loop_id, owner)

        return await self.memory.forgetting.forget(request, confirm, owner=owner, stop=stop)

    async def resume(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Take up a cancelled or failed loop where it ended.

        What had not been answered is answered now. (A message with its id takes it up too.)

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it is active, or completed.
        """
        return await self.engine.control.resume(run_loop_id, owner)

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
        return await self.engine.control.fork(run_loop_id, owner, at)

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
            message_id: the message; None: the newest one that was no answer to what the loop asks,
                or, where nothing was said there since the same move, the one that was moved then.
            to: the loop where it belongs: an active one is joined, one that was cancelled or failed
                goes on, a completed one is taken up by a new one. None, or ``new``: a new one.
            owner: whose.

        Raises:
            NotFoundError: the owner has no such run loop, or it no such message.
            InvalidInputError: it is in that loop already.
            ConflictError: it was moved to another one before; or its words were summarised together
                with others; or it was an answer, and something was said since, or its loop is
                completed, or a tool with side effects has run upon it; or one has run for it, and
                the other loop waits for a person; or that is at work for long; or the caller is
                work of a loop whose end would have to be waited for.
            StorageError: the disk refuses; nothing was moved.
        """
        return await self.engine.mover.move(run_loop_id, message_id, to, owner)

    async def possible_moves(
        self, run_loop_id: str, message_id: str, places: Sequence[str], *, owner: str = "me"
    ) -> tuple[str, ...]:
        """To which of these places a message could be moved now, in their order.

        Args:
            run_loop_id: the loop that it is in; where it is not there, it can be moved nowhere.
            message_id: the message.
            places: ids of run loops, and ``new`` for a new one.
            owner: whose.

        Raises:
            StorageError: the history cannot be read.
        """
        return await self.engine.mover.possible(run_loop_id, message_id, places, owner)

    async def undo_reroute(
        self, run_loop_id: str, *, message_id: str | None = None, owner: str = "me"
    ) -> Moved:
        """Take the last move of a message back, with all that was done for it since.

        It is as crash-safe as the move was. The loop that a message had opened, and that was
        cancelled when it left, goes on; one that the move had opened is cancelled. The same wish
        again changes nothing.

        Args:
            run_loop_id: the loop that it was moved out of, or into.
            message_id: the message; None: whichever was moved last there.
            owner: whose.

        Raises:
            NotFoundError: the owner has no such run loop, or the one where it was is not there any
                more.
            ConflictError: it was not moved; or it was answered together with another message of the
                loop where it is; or as for `reroute`.
            StorageError: the disk refuses; nothing was moved.
        """
        return await self.engine.mover.undo(run_loop_id, message_id, owner)
