"""Callbacks: an answer as it comes, for programs that would rather be called than read events.

===================== ====================== ======================================================
callback              event                  is given
===================== ====================== ======================================================
`on_text`             ``message.delta``      the next piece of the assistant's words
`on_retry`            ``llm.retry``,         why; drop what `on_text` gave since the last message
                      ``llm.fallback``,
                      ``message.moved``,
                      ``iteration.abandoned``
`on_tool_start`       ``tool.started``       the event: which tool, with which arguments
`on_tool_end`         ``tool.finished``      the event: what it came to
`on_input_required`   ``input.required``     what a person is asked; what it returns is the answer
`on_complete`         ``run_loop.idle``      the last words, whole
===================== ====================== ======================================================

Each may be a function or a coroutine function. One that raises is reported in the log, and breaks
nothing; of a question that has no answer then, see `Agent.ask`. They run one after another, on the
event loop: the next event waits for them, the run loop does not.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from service.agent.human_input.answer_reading import Answer
from service.domain.errors import ConflictError, Problem, error_of
from service.domain.history.events import (
    Event,
    EventBody,
    IterationAbandoned,
    LLMFallback,
    LLMRetry,
    MessageCompleted,
    MessageDelta,
    MessageMoved,
    ToolFinished,
    ToolStarted,
)
from service.domain.history.human_input import CallDecision, InputRequired, Remember
from service.domain.history.outcome import MessageOutcome
from service.domain.history.own_part import OwnPart
from service.memory.journal.inbox import Delivery

if TYPE_CHECKING:
    from service.memory.journal.event_feed import Reader

log = logging.getLogger(__name__)

_STANDS = Problem(
    kind="abandoned",
    title="The last answer stands as it is",
    detail="what was to better it, or to go on with it, came to nothing",
)
Reply = bool | str | Answer
"""A person's answer: a yes or a no, where they are asked to approve; else words, such as one of the
options. Words where they are asked to approve are a no, with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What is called while an answer comes; each may be left out."""

    on_text: Callable[[str], Awaitable[None] | None] | None = None
    """The next piece of the assistant's words."""
    on_retry: Callable[[Problem], Awaitable[None] | None] | None = None
    """Why the answer begins anew: drop what `on_text` gave since the last message."""
    on_tool_start: Callable[[ToolStarted], Awaitable[None] | None] | None = None
    """A tool begins to work: which, and with which arguments."""
    on_tool_end: Callable[[ToolFinished], Awaitable[None] | None] | None = None
    """What a call of a tool came to."""
    on_input_required: Callable[[InputRequired], Awaitable[Reply | None] | Reply | None] | None = (
        None
    )
    """What a person is asked. It gives their answer; None: there is none now."""
    on_complete: Callable[[str], Awaitable[None] | None] | None = None
    """The last words, whole: the ones that count."""


class _Conversation(Protocol):
    """What of an `Agent` it takes to follow a message and to answer what is asked."""

    def reader(self, *, owner: str) -> Reader: ...

    def follow(
        self, message_id: str, *, reader: Reader, since: Delivery | None = None
    ) -> AsyncGenerator[Event]: ...

    async def answer(
        self,
        run_loop_id: str,
        *,
        approved: bool | None,
        text: str | None,
        choices: Sequence[str] | None,
        decisions: Sequence[CallDecision],
        arguments: str | None,
        remember: Remember | None,
        request_id: str | None,
        owner: str,
    ) -> str: ...


async def tell(
    agent: _Conversation, message_id: str, *, reader: Reader, callbacks: Callbacks, owner: str
) -> str:
    """Follow a message, call back, and give the last words. See `Agent.ask`."""
    telling = _Telling(callbacks, message_id)
    await telling.hear_all(agent.follow(message_id, reader=reader))
    outcome = telling.outcome
    while outcome.request is not None and not outcome.over:
        reply = await telling.reply(outcome.request)
        # The place in the feed is taken before the answer: nothing of what it leads to is missed.
        with agent.reader(owner=owner) as further:
            await _answer(agent, outcome.run_loop_id, outcome.request, reply, owner)
            outcome.request = None
            since = Delivery(outcome.run_loop_id, outcome.last_seq + 1)
            await telling.hear_all(agent.follow(message_id, reader=further, since=since))
    return await telling.complete()


async def _answer(
    agent: _Conversation, run_loop_id: str, request: InputRequired, reply: Reply, owner: str
) -> None:
    if isinstance(reply, bool):
        reply = Answer(approved=reply)
    elif isinstance(reply, str):
        reply = Answer(text=reply, approved=False if request.kind == "approve" else None)
    try:
        await agent.answer(
            run_loop_id,
            approved=reply.approved,
            text=reply.text,
            choices=reply.choices,
            decisions=reply.decisions,
            arguments=reply.arguments,
            remember=reply.remember,
            request_id=request.request_id,
            owner=owner,
        )
    except ConflictError as error:
        # Somebody else was faster, or the loop has ended: what follows tells.
        log.info("an answer came too late: %s", error)


class _Telling:
    """Hears the events of a message, one after another. What is not for it is not told."""

    def __init__(self, callbacks: Callbacks, message_id: str) -> None:
        self._callbacks = callbacks
        self._part = OwnPart(message_id)
        self.outcome = MessageOutcome(self._part)
        self._streamed = ""
        self._called_back: list[EventBody] = []
        """What was called back for, of all that a move takes to another loop."""
        self._again: list[EventBody] = []
        """What is told there again, and shall not be called back for twice."""

    async def hear_all(self, events: AsyncGenerator[Event]) -> None:
        """Hear events to their end, or to where the loop has turned to another message."""
        async with aclosing(events):
            async for event in events:
                await self._hear(event)
                if self._part.over:
                    break

    async def _hear(self, event: Event) -> None:
        self.outcome.add(event.body, run_loop_id=event.run_loop_id, seq=event.seq)
        if self._part.going_on:
            await self._call_back_once(event.body)
        if isinstance(event.body, MessageMoved) and self._part.message_id in event.body.message_ids:
            await self._go_on_in(event.body)

    async def _go_on_in(self, moved: MessageMoved) -> None:
        """The message is in another loop now, whose events tell of it from its beginning."""
        self.outcome.request = None
        self._again, self._called_back = self._called_back, []
        if moved.to_iteration is None:
            self._again = []
        if self._streamed:
            self._streamed = ""
            await _call(self._callbacks.on_retry, _moved(moved.to_run_loop_id))

    async def _call_back_once(self, body: EventBody) -> None:
        if isinstance(body, MessageCompleted | ToolStarted | ToolFinished):
            self._called_back.append(body)
            if body in self._again:
                self._again.remove(body)
                return
        await self._call_back(body)

    async def _call_back(self, body: EventBody) -> None:
        callbacks = self._callbacks
        match body:
            case MessageDelta(text=text, whole=whole):
                if whole:  # a reader that fell behind hears it from its beginning
                    text = text.removeprefix(self._streamed)
                self._streamed += text
                await _call(callbacks.on_text, text)
            case MessageCompleted() as completed:
                await self._said(completed.message.text)
            case IterationAbandoned() if self._streamed:
                self._streamed = ""
                await _call(callbacks.on_retry, _STANDS)
            case LLMRetry(problem=problem) | LLMFallback(problem=problem):
                self._streamed = ""
                await _call(callbacks.on_retry, problem)
            case ToolStarted() as started:
                await _call(callbacks.on_tool_start, started)
            case ToolFinished() as finished:
                await _call(callbacks.on_tool_end, finished)
            case _:
                pass

    async def _said(self, text: str) -> None:
        """A message is whole: what did not stream of it, or was lost on the way, is told now."""
        if text.startswith(self._streamed) and len(text) > len(self._streamed):
            await _call(self._callbacks.on_text, text[len(self._streamed) :])
        self._streamed = ""

    async def reply(self, request: InputRequired) -> Reply:
        """The person's answer.

        Raises:
            ConflictError: there is none.
        """
        reply = await _call(self._callbacks.on_input_required, request)
        if not isinstance(reply, bool | str | Answer):
            raise ConflictError(
                f"run loop {self.outcome.run_loop_id} waits for a person: {request.prompt}",
                advice="Give an `on_input_required` that returns the answer; or answer with"
                " `Agent.answer`, and ask on with the run loop's id.",
            )
        return reply

    async def complete(self) -> str:
        """The last words.

        Raises:
            RondoError: there is no answer, and why.
        """
        if self.outcome.problem is not None:
            raise error_of(self.outcome.problem)
        if self.outcome.cancelled is not None:
            raise error_of(_cancelled(self.outcome.cancelled))
        await _call(self._callbacks.on_complete, self.outcome.response)
        return self.outcome.response


async def _call(callback: Callable[..., object] | None, *arguments: object) -> object:
    if callback is None:
        return None
    try:
        result = callback(*arguments)
        if inspect.isawaitable(result):
            result = await result
    except Exception:
        log.exception("a callback failed: %s", getattr(callback, "__qualname__", callback))
        return None
    return result


def _cancelled(reason: str) -> Problem:
    return Problem(
        kind=ConflictError.kind,
        title="The run loop was cancelled before it had answered",
        detail=reason,
        advice="Send a message with its id to go on.",
    )


def _moved(run_loop_id: str) -> Problem:
    return Problem(
        kind=ConflictError.kind,
        title="The message was moved while it was being answered",
        detail=f"It is in run loop {run_loop_id} now.",
        advice="What has streamed of the answer is void: it is made again there.",
    )
