"""The agent: send it a message, and watch the run loop that the message became part of.

It owns every task that works on run loops. A client that goes away cancels nothing: what `send`
yields is only a view of what the agent's own tasks do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Any, Self

import anyio
from reactivex import Observable

from service.agent.agent_options import AgentOptions
from service.agent.callbacks import Callbacks, tell
from service.agent.consolidation.consolidation_worker import ConsolidationStatus
from service.agent.engine import Engine, start_engine
from service.agent.file_acceptance import accept_with_files
from service.agent.following import follow
from service.agent.human_input.answer_reading import Answer
from service.agent.human_input.open_questions import Question
from service.agent.loop_actions import LoopActions
from service.agent.message_check import check_message
from service.agent.schedules.schedule_actions import ScheduleActions
from service.domain.conversation.file_attachments import (
    NewFile,
    check_files,
    metadata_of,
    named,
    with_files,
)
from service.domain.conversation.instructions import InstructionKind
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, Problem
from service.domain.history.approval_rules import Narrowing
from service.domain.history.events import Event
from service.domain.history.human_input import NEW_RUN_LOOP, CallDecision, Remember
from service.domain.ids import new_id
from service.domain.run_loops import SendMode
from service.domain.spend import SpendStatus
from service.llm.named_models import Models
from service.loop.brain import Brain
from service.loop.execution import Executor
from service.loop.hooks.hook_runner import HookRunner
from service.memory.journal.event_feed import Reader
from service.memory.journal.inbox import Delivery, InboxEntry, Receipt
from service.memory.memory import Memory
from service.routing.calibration.recalibration import Recalibration
from service.tools.registry import ToolRegistry


class Agent(LoopActions):
    """An assistant: its run loops, what they work with, and what they remember.

    Made by `create_agent`, and at work inside ``async with``. `ask` gives an answer, `send` the
    events that lead to it; `memory` holds what was said.
    """

    def __init__(
        self,
        models: Models,
        tools: ToolRegistry,
        memory: Memory,
        options: AgentOptions,
        brain: Brain | None,
        executors: Mapping[InstructionKind, Executor],
    ) -> None:
        self.models = models
        self.tools = tools
        self.memory = memory
        self.options = options
        self.brain = brain
        self.executors = executors
        self._hooks = HookRunner(options.hooks, timeout_seconds=options.hook_timeout_seconds)
        self._stack = AsyncExitStack()
        self._working: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The parts that do the work; not part of the library's promise.

        Raises:
            ConflictError: the agent is not at work.
        """
        if self._working is None:
            raise ConflictError(
                "the agent is not at work",
                advice="Use it inside `async with create_agent(…) as agent:`.",
            )
        return self._working

    async def __aenter__(self) -> Self:
        """Open the memory, take up what an earlier process left, and begin to work.

        Raises:
            DataFolderInUseError: another process owns the data folder.
            StorageError: the folder cannot be used.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.memory)
            stack.push_async_callback(self.models.aclose)
            group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(group.cancel_scope.cancel)
            self._working = start_engine(
                group,
                self.models,
                self.tools,
                self.memory,
                self.options,
                self._hooks,
                self.brain,
                self.executors,
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
        try:
            await self._stack.aclose()
        finally:
            self._working = None

    # --- sending

    async def send(
        self,
        message: str | Message,
        run_loop_id: str | None = None,
        *,
        mode: SendMode = "steer",
        owner: str = "me",
        metadata: dict[str, Any] | None = None,
        model: str | None = None,
        files: Sequence[NewFile] = (),
    ) -> AsyncGenerator[Event]:
        """Send a message, and follow its run loop until it rests, ends, or waits for a person.

        Args:
            message: the words.
            run_loop_id: the loop it belongs to, when the sender knows: an active one is joined, one
                that was cancelled or failed goes on, a completed one is taken up by a new one that
                remembers it. ``new``: it opens a new one. None: the router decides.
            mode: how it joins a loop that is at work: ``steer`` (seen at the next step),
                ``followup`` (after the answer), ``interrupt`` (at once, in place of the work).
            owner: whose message it is.
            metadata: kept with the message.
            model: the name of the model that answers it, and what follows it in its loop until a
                message names another one. None: the loop's; in a new one the default.
            files: go with it; `read_file` reads copies of them in the loop.

        Raises:
            InvalidInputError: the message is empty or too long, or there is no such model.
            NotFoundError: the owner has no such run loop.
            StorageError: the disk refuses; the message was not accepted.
        """
        with self.reader(owner=owner) as reader:
            receipt = await self.accept(
                message,
                run_loop_id=run_loop_id,
                mode=mode,
                owner=owner,
                metadata=metadata,
                model=model,
                files=files,
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
        model: str | None = None,
        files: Sequence[NewFile] = (),
    ) -> str:
        """Send a message as `send` does, call back as its answer comes, and give the last words.

        Cancelling this call cancels nothing: the run loop goes on.

        Raises:
            InvalidInputError: the message is empty or too long, or there is no such model.
            NotFoundError: the owner has no such run loop.
            StorageError: the disk refuses; the message was not accepted.
            ConflictError: a person is asked, and no callback gave an answer.
            RondoError: the loop failed or was cancelled: one of the kind that fits, such as an
                `LLMError` or a `BudgetError`.
        """
        with self.reader(owner=owner) as reader:
            receipt = await self.accept(
                message,
                run_loop_id=run_loop_id,
                mode=mode,
                owner=owner,
                metadata=metadata,
                model=model,
                files=files,
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
        model: str | None = None,
        files: Sequence[NewFile] = (),
        idempotency_key: str | None = None,
        request_hash: str | None = None,
    ) -> Receipt:
        """Make a message safe; when this returns, nothing but forgetting can lose it.

        With an idempotency key, the same request (`request_hash`) is accepted once. With
        `RouterOptions.split_matters` it may become several messages: the receipt names them.
        `files` go with it: `read_file` reads copies of them in its run loop.

        Raises:
            InvalidInputError: the message is empty or too long, there is no such model, or the
                files are too large.
            NotFoundError: the owner has no such run loop.
            ConflictError: the idempotency key was used for another request.
            StorageError: the disk refuses; the message was not accepted.
        """
        if isinstance(message, str):
            message = Message.user(message)
        check_files(files)
        sent = named(files, owner)
        message = with_files(message, sent)
        metadata = {**(metadata or {}), **metadata_of(sent)}
        check_message(message, metadata)
        if model is not None:
            self.models.check(model)
        if run_loop_id not in (None, NEW_RUN_LOOP):
            await self.memory.journal.run_loops.check_owner(run_loop_id, owner=owner)
        entry = InboxEntry(
            message_id=new_id(),
            owner=owner,
            message=message,
            requested_run_loop_id=run_loop_id,
            metadata=metadata,
            mode=mode,
            model=model,
        )
        return await accept_with_files(
            self.engine.reception,
            self.memory.sent_files,
            entry,
            tuple(zip(sent, files, strict=True)),
            idempotency_key=idempotency_key,
            request_hash=request_hash,
        )

    def reader(self, *, owner: str = "me") -> Reader:
        """A place in the feed, to be held from before `accept` on, so that `follow` sees all."""
        return Reader(self.memory.feed, owner=owner)

    async def follow(
        self, message_id: str, *, reader: Reader, since: Delivery | None = None
    ) -> AsyncGenerator[Event]:
        """What became of a message: its loop's events from where it joined.

        Ends when the loop rests, ends, or waits for a person; or with an ``error`` event when the
        message is safe but cannot be worked on at present.

        Args:
            message_id: from the receipt.
            reader: see `reader`; deltas that streamed before its ``with`` are not seen.
            since: where to go on, by who has followed it before; None: from where it joined.

        Raises:
            NotFoundError: no such message was accepted.
        """
        delivery = since or await self.delivery(message_id)
        short_term = self.memory.short_term
        async with aclosing(follow(message_id, delivery, reader, short_term)) as events:
            async for event in events:
                yield event

    async def delivery(self, message_id: str) -> Delivery | Problem:
        """Wait until a message is in its run loop: where; or what keeps it from getting there.

        Raises:
            NotFoundError: no such message was accepted.
        """
        return await self.engine.reception.delivery(message_id)

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
        consolidator = self.engine.consolidator
        return None if consolidator is None else await consolidator.status()

    @property
    def recalibration(self) -> Recalibration:
        """The calibration of the router by what all owners together have corrected."""
        return self.engine.recalibration

    @property
    def schedules(self) -> ScheduleActions:
        """What is to be told or done, and when: reminders, and tasks that recur or wait."""
        return self.engine.schedules

    @property
    def questions(self) -> Observable[tuple[Question, ...]]:
        """What people are asked, oldest first: at once, and whenever that changes.

        Each subscriber has a thread of its own, and can answer from there.
        """
        return self.engine.questions.open

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
        narrow: Narrowing | None = None,
        request_id: str | None = None,
        owner: str = "me",
    ) -> str:
        """A person's answer to a loop that waits for one. The same answer twice counts once.

        Args:
            run_loop_id: the loop.
            approved: whether the calls may run; not with a `text`, but for a no.
            text: the answer in words; for a no, its reason.
            choices: of the options, for ``select``.
            decisions: about single calls: before `approved`, with reasons and arguments.
            arguments: JSON to run the one call that waits with, instead of the model's own.
            remember, narrow: how long a yes holds, and by what it is narrower than its scope.
            request_id: which request is answered; None: the only one that the loop has asked.
            owner: who answers.

        Returns:
            The id of the loop that goes on with it: another one only where the router had asked,
            and the messages of this one belong there.

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
            narrow=narrow,
            request_id=request_id,
        )
        return await self.engine.answers.answer(run_loop_id, answer, owner)

    # --- spending

    async def spend_status(self) -> SpendStatus:
        """How far the caps on spending are used up today and this month, by all owners together.

        Raises:
            StorageError: the journal cannot be read.
        """
        return await self.engine.spending.status()
