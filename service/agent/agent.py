"""The agent: send it a message, and watch the run loop that the message became part of.

It owns every task that works on run loops. A client that goes away cancels nothing: what `send`
yields is only a view of what the agent's own tasks do.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from reactivex import Observable

from service.agent.brain import Brain
from service.agent.context import system_message
from service.agent.executors import Workbench, builtin_executors
from service.agent.lifecycle import Lifecycle
from service.agent.llm.protocol import LLM
from service.agent.message_check import check_message
from service.agent.options import AgentOptions
from service.agent.reception import Reception
from service.agent.router import Router
from service.agent.scheduler import Scheduler
from service.domain.errors import ConflictError, InvalidInputError, LLMError, Problem
from service.domain.events import (
    TERMINAL,
    ErrorOccurred,
    Event,
    EventBody,
    InputReceived,
    InputRequired,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopIdle,
)
from service.domain.ids import new_id
from service.domain.messages import Message
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.memory.feed import Reader
from service.memory.inbox import InboxEntry, Receipt
from service.memory.memory import Memory
from service.memory.protocol import Vectors
from service.tools.approval import ApprovalPolicy
from service.tools.registry import ToolRegistry

log = logging.getLogger(__name__)


def create_agent(
    llm: LLM, tools: ToolRegistry, memory: Memory, options: AgentOptions | None = None
) -> Agent:
    """Put an agent together. It works inside ``async with``."""
    return Agent(llm, tools, memory, options or AgentOptions())


class Agent:
    """Run loops, what they work with, and what they remember."""

    def __init__(
        self, llm: LLM, tools: ToolRegistry, memory: Memory, options: AgentOptions
    ) -> None:
        self.llm = llm
        self.tools = tools
        self.memory = memory
        self.options = options
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
            self._start(group)
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

    def _start(self, group: TaskGroup) -> None:
        options = self.options
        bench = Workbench(
            llm=self.llm,
            tools=self.tools,
            memory=self.memory.long_term,
            memory_ready=self.memory.warmed_up,
            load=self.memory.load,
            instructions=options.system_prompt,
            recall_tokens=options.recall_tokens,
            answer_tokens=options.answer_tokens,
            max_retries=options.max_retries,
        )
        policy = ApprovalPolicy()
        self._scheduler = Scheduler(
            group,
            self.memory,
            Brain(
                lambda call: policy.needs_approval(call, self.tools),
                max_iterations=options.max_iterations,
            ),
            {**builtin_executors(bench), **options.executors},
        )
        router = Router(
            self.llm,
            self._embed,
            auto_classify=options.auto_classify,
            use_llm=options.router_uses_llm,
            llm_timeout_seconds=options.router_timeout_seconds,
        )
        self._reception = Reception(group, self.memory, router, self._scheduler.wake)
        lifecycle = Lifecycle(self.memory, options.linger_seconds)
        self.memory.on_rest = lifecycle.tell
        group.start_soon(self._warm_up, name="warm up")
        group.start_soon(self.memory.work, name="memory")
        group.start_soon(lifecycle.run, name="lifecycle")
        group.start_soon(self._reception.run, name="reception")
        for state in self.memory.short_term.states():
            self._scheduler.wake(state.id)

    async def _warm_up(self) -> None:
        opening = system_message(datetime.now(UTC), instructions=self.options.system_prompt)
        try:
            await self.llm.warm_up([opening], tools=self.tools.definitions())
        except LLMError as error:
            # Whoever sends a message will hear of it, and so will whoever asks for the status.
            log.warning("the language model is not ready: %s", error.problem().in_words())
        except Exception:
            log.exception("the language model could not be made ready")

    async def _embed(self, texts: Sequence[str]) -> Vectors | None:
        await self.memory.warmed_up()
        return await self.memory.long_term.embed_queries(texts)

    # --- sending

    async def send(
        self,
        message: str | Message,
        run_loop_id: str | None = None,
        *,
        owner: str = "me",
        metadata: dict[str, Any] | None = None,
    ) -> AsyncGenerator[Event]:
        """Send a message, and follow its run loop until it rests, ends, or waits for a person.

        Args:
            message: the words.
            run_loop_id: the loop it belongs to, when the sender knows: an active one is joined, a
                finished one is taken up by a new one that remembers it. None: the router decides.
            owner: whose message it is.
            metadata: kept with the message.

        Raises:
            InvalidInputError: the message is empty or too long.
            NotFoundError: the owner has no such run loop.
            StorageError: the disk refuses; the message was not accepted.
        """
        with self.reader(owner=owner) as reader:
            receipt = await self.accept(
                message, run_loop_id=run_loop_id, owner=owner, metadata=metadata
            )
            async with aclosing(self.follow(receipt.message_id, reader=reader)) as events:
                async for event in events:
                    yield event

    async def accept(
        self,
        message: str | Message,
        *,
        run_loop_id: str | None = None,
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
        )
        return await self._reception.accept(
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
        delivery = await self._reception.delivery(message_id)
        if isinstance(delivery, Problem):
            yield _error_event(delivery)
            return
        events = reader.events(run_loop_id=delivery.run_loop_id, after=delivery.first_seq - 1)
        async with aclosing(events):
            async for event in events:
                yield event
                if isinstance(event.body, (RunLoopIdle, InputRequired, *TERMINAL)):
                    return
                if event.seq is None and isinstance(event.body, ErrorOccurred):
                    return
                state = self.memory.short_term.state(event.run_loop_id)
                if state is not None and state.awaiting and event.seq == state.last_seq:
                    # The loop was waiting before: it hears the message after the answer.
                    yield _transient(event, state.awaiting)
                    return

    def events(
        self, *, owner: str = "me", run_loop_id: str | None = None, after: int | None = None
    ) -> AsyncGenerator[Event]:
        """Events of one loop or of all, for as long as they are read; see `Feed.events`."""
        return self.memory.feed.events(owner=owner, run_loop_id=run_loop_id, after=after)

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

    async def cancel(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Stop a loop. Returns once its work has really ended.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended already.
        """
        await self._active(run_loop_id, owner)
        with anyio.CancelScope(shield=True):
            await self._scheduler.stop(run_loop_id)
            try:
                commit = await self.memory.journal.append(
                    run_loop_id, RunLoopCancelled(), durable=True
                )
            finally:
                self._scheduler.release(run_loop_id)
        return commit.state.run_loop()

    async def complete(self, run_loop_id: str, *, owner: str = "me") -> RunLoop:
        """Declare a loop done, so that it goes to long-term memory.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: it has ended already, or is still at work.
        """
        state = await self._active(run_loop_id, owner)
        if state.status != "idle":
            raise ConflictError(
                f"run loop {run_loop_id} is {state.status.replace('_', ' ')}",
                advice="Wait until it has answered, or cancel it.",
            )
        commit = await self.memory.journal.append(
            run_loop_id, RunLoopCompleted(), durable=True, if_last_seq=state.last_seq
        )
        return commit.state.run_loop()

    async def answer(
        self,
        run_loop_id: str,
        *,
        approved: bool | None = None,
        text: str | None = None,
        request_id: str | None = None,
        owner: str = "me",
    ) -> None:
        """A person's answer to a loop that waits for one.

        Args:
            run_loop_id: the loop.
            approved: for ``approve``: whether the calls may run. Anything but True is a no.
            text: the answer in words; for a no, its reason.
            request_id: which request is answered; None: the one that is open.
            owner: who answers.

        Raises:
            NotFoundError: the owner has no such run loop.
            ConflictError: the loop does not wait for this answer (any more).
        """
        state = await self._active(run_loop_id, owner)
        request = state.awaiting
        if request is None or request_id not in (None, request.request_id):
            raise ConflictError(
                f"run loop {run_loop_id} does not wait for this answer",
                advice="It may have been answered already; look at the run loop.",
            )
        if request.kind == "approve" and approved is None:
            raise InvalidInputError(
                "a yes or a no is asked for", advice='Send {"approved": true} or false.'
            )
        body: EventBody = InputReceived(request_id=request.request_id, approved=approved, text=text)
        await self.memory.journal.append(
            run_loop_id, body, durable=True, if_last_seq=state.last_seq
        )
        self._scheduler.wake(run_loop_id)

    async def _active(self, run_loop_id: str, owner: str) -> RunLoopState:
        state = await self.memory.journal.replay(run_loop_id, owner=owner)
        if not state.is_active:
            raise ConflictError(
                f"run loop {run_loop_id} is {state.status} already",
                advice="Send a message with its id to take the matter up again.",
            )
        return state


def _transient(beside: Event, body: EventBody) -> Event:
    return beside.model_copy(update={"seq": None, "body": body})


def _error_event(problem: Problem) -> Event:
    return Event(
        seq=None,
        at=datetime.now(UTC),
        owner="",
        run_loop_id="",
        body=ErrorOccurred(problem=problem),
    )
