"""The agent: send it a message, and watch the run loop that the message became part of.

It owns every task that works on run loops. A client that goes away cancels nothing: what `send`
yields is only a view of what the agent's own tasks do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from types import TracebackType
from typing import Any, Self

import anyio
from reactivex import Observable

from service.agent.answer_reading import Answer
from service.agent.callbacks import Callbacks, tell
from service.agent.consolidation.options import ConsolidationStatus
from service.agent.engine import start_engine
from service.agent.following import follow
from service.agent.hook_runner import HookRunner
from service.agent.llm.protocol import LLM
from service.agent.loop import Executor
from service.agent.message_check import check_message
from service.agent.options import AgentOptions
from service.agent.questions import Question
from service.domain.errors import ConflictError
from service.domain.events import CallDecision, Event, Remember
from service.domain.forgetting import ForgetPreview, ForgetReceipt, ForgetRequest
from service.domain.ids import new_id
from service.domain.instructions import InstructionKind
from service.domain.messages import Message
from service.domain.run_loops import RunLoop, SendMode
from service.domain.state import RunLoopState
from service.memory.history.feed import Reader
from service.memory.history.inbox import InboxEntry, Receipt
from service.memory.memory import Memory
from service.tools.registry import ToolRegistry


def create_agent(
    llm: LLM,
    tools: ToolRegistry,
    memory: Memory,
    options: AgentOptions | None = None,
    *,
    executors: Mapping[InstructionKind, Executor] | None = None,
) -> Agent:
    """Put an agent together. It works inside ``async with``.

    `executors` are the agent's own: they go before those of the options, and these before the
    built-in ones.

    Raises:
        ConfigurationError: one of the hooks is not an instance of `Hooks`.
    """
    return Agent(llm, tools, memory, options or AgentOptions(), executors or {})


class Agent:
    """Run loops, what they work with, and what they remember."""

    def __init__(
        self,
        llm: LLM,
        tools: ToolRegistry,
        memory: Memory,
        options: AgentOptions,
        executors: Mapping[InstructionKind, Executor],
    ) -> None:
        self.llm = llm
        self.tools = tools
        self.memory = memory
        self.options = options
        self.executors = executors
        self._hooks = HookRunner(options.hooks, timeout_seconds=options.hook_timeout_seconds)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the memory, take up what an earlier process left, and begin to work.

        Raises:
            DataFolderInUseError: another process owns the data folder.
            StorageError: the folder cannot be used.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.memory)
            stack.push_async_callback(self.llm.aclose)
            group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(group.cancel_scope.cancel)
            self._engine = start_engine(
                group, self.llm, self.tools, self.memory, self.options, self._hooks, self.executors
            )
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop all work where it is, and close the memory; the next start takes it up again."""
        # An error of the caller's is not the task group's: given to it, it would come back wrapped.
        await self._stack.aclose()

    # --- sending

    async def send(
        self,
        message: str | Message,
        run_loop_id: str | None = None,
        *,
        mode: SendMode = "steer",
        owner: str = "me",
        metadata: dict[str, Any] | None = None,
    ) -> AsyncGenerator[Event]:
        """Send a message, and follow its run loop until it rests, ends, or waits for a person.

        Args:
            message: the words.
            run_loop_id: the loop it belongs to, when the sender knows: an active one is joined, one
                that was cancelled or failed goes on, a completed one is taken up by a new one that
                remembers it. None: the router decides.
            mode: how it joins a loop that is at work: ``steer`` (seen at the next step),
                ``followup`` (after the answer), ``interrupt`` (at once, in place of the work).
            owner: whose message it is.
            metadata: kept with the message.

        Raises:
            InvalidInputError: the message is empty or too long.
            NotFoundError: the owner has no such run loop.
            StorageError: the disk refuses; the message was not accepted.
        """
        with self.reader(owner=owner) as reader:
            receipt = await self.accept(
                message, run_loop_id=run_loop_id, mode=mode, owner=owner, metadata=metadata
            )
            async with aclosing(self.follow(receipt.message_id, reader=reader)) as events:
                async for event in events:
                    yield event

    async def ask(
        self,
        message: str | Message,
        run_loop_id: str | None = None,
        *,
        callbacks: Callbacks | None = None,
        mode: SendMode = "steer",
        owner: str = "me",
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Send a message as `send` does, call back as its answer comes, and give the last words.

        Cancelling this call cancels nothing: the run loop goes on.

        Raises:
            InvalidInputError: the message is empty or too long.
            NotFoundError: the owner has no such run loop.
            StorageError: the disk refuses; the message was not accepted.
            ConflictError: a person is asked, and no callback gave an answer.
            RondoError: the loop failed or was cancelled; its ``kind`` tells why.
        """
        with self.reader(owner=owner) as reader:
            receipt = await self.accept(
                message, run_loop_id=run_loop_id, mode=mode, owner=owner, metadata=metadata
            )
            called = callbacks or Callbacks()
            return await tell(
                self, receipt.message_id, reader=reader, callbacks=called, owner=owner
            )

    async def accept(
        self,
        message: str | Message,
        *,
        run_loop_id: str | None = None,
        mode: SendMode = "steer",
        owner: str = "me",
        metadata: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
    ) -> Receipt:
        """Make a message safe; when this returns, nothing but forgetting can lose it.

        With an idempotency key, the same request (`request_hash`) is accepted once.

        Raises:
            InvalidInputError: the message is empty or too long.
            NotFoundError: the owner has no such run loop.
            ConflictError: the idempotency key was used for another request.
            StorageError: the disk refuses; the message was not accepted.
        """
        if isinstance(message, str):
            message = Message.user(message)
        check_message(message, metadata or {})
        if run_loop_id is not None:
            await self.memory.journal.run_loops.check_owner(run_loop_id, owner=owner)
        entry = InboxEntry(
            message_id=new_id(),
            owner=owner,
            message=message,
            requested_run_loop_id=run_loop_id,
            metadata=metadata or {},
            mode=mode,
        )
        return await self._engine.reception.accept(
            entry, idempotency_key=idempotency_key, request_hash=request_hash
        )

    def reader(self, *, owner: str = "me") -> Reader:
        """A place in the feed, to be held from before `accept` on, so that `follow` sees all."""
        return Reader(self.memory.feed, owner=owner)

    async def follow(self, message_id: str, *, reader: Reader) -> AsyncGenerator[Event]:
        """What became of a message: its loop's events from where it joined.

        Ends when the loop rests, ends, or waits for a person; or with an ``error`` event when the
        message is safe but cannot be worked on at present.

        Args:
            message_id: from the receipt.
            reader: see `reader`; deltas that streamed before its ``with`` are not seen.

        Raises:
            NotFoundError: no such message was accepted.
        """
        delivery = await self._engine.reception.delivery(message_id)
        async with aclosing(follow(delivery, reader, self.memory.short_term)) as events:
            async for event in events:
                yield event

    def events(
        self, *, owner: str = "me", run_loop_id: str | None = None, after: int | None = None
    ) -> AsyncGenerator[Event]:
        """Events of one loop or of all, for as long as they are read; see `Feed.events`."""
        return self.memory.feed.events(owner=owner, run_loop_id=run_loop_id, after=after)

    # --- notes

    async def consolidation_status(self) -> ConsolidationStatus | None:
        """How the writing of notes gets on; None where it is switched off.

        Raises:
            StorageError: the journal cannot be read.
        """
        consolidator = self._engine.consolidator
        return None if consolidator is None else await consolidator.status()

    # --- run loops

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

    @property
    def questions(self) -> Observable[tuple[Question, ...]]:
        """What people are asked, oldest first: at once, and whenever that changes.

        Each subscriber has a thread of its own, and can answer from there.
        """
        return self._engine.questions.open

    async def answer(
        self,
        run_loop_id: str,
        *,
        approved: bool | None = None,
        text: str | None = None,
        choices: Sequence[str] | None = None,
        decisions: Sequence[CallDecision] = (),
        arguments: str | None = None,
        remember: Remember | None = None,
        request_id: str | None = None,
        owner: str = "me",
    ) -> None:
        """A person's answer to a loop that waits for one. The same answer twice counts once.

        Args:
            run_loop_id: the loop.
            approved: whether the calls may run; not with a `text`, but for a no.
            text: the answer in words; for a no, its reason.
            choices: of the options, for ``select``.
            decisions: about single calls: before `approved`, with reasons and arguments.
            arguments: JSON to run the one call that waits with, instead of the model's own.
            remember: how long a yes holds, for what the policy says that it covers.
            request_id: which request is answered; None: the one that is open.
            owner: who answers.

        Raises:
            InvalidInputError: it is no answer to what is asked; nothing was decided.
            NotFoundError: the owner has no such run loop.
            ConflictError: the loop does not wait for this answer (any more).
            StorageError: the disk refuses; the loop still waits.
        """
        answer = Answer(
            approved=approved,
            text=text,
            choices=None if choices is None else tuple(choices),
            decisions=tuple(decisions),
            arguments=arguments,
            remember=remember,
            request_id=request_id,
        )
        await self._engine.answers.answer(run_loop_id, answer, owner)
