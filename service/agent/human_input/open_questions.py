"""Open questions as an observable: what people are asked, and a way to answer from any thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from reactivex import Observable
from reactivex import operators as ops

from service.agent.human_input.answer_reading import Answer
from service.domain.errors import ConflictError, RondoError
from service.domain.history.approval_rules import Narrowing
from service.domain.history.human_input import CallDecision, InputRequired, Remember
from service.domain.history.state import RunLoopState
from service.memory.memory import Memory

log = logging.getLogger(__name__)

Send = Callable[[str, Answer, str], Coroutine[None, None, None]]
"""Takes the id of a run loop, the answer, and whose it is."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a run loop wants to know from a person."""

    run_loop_id: str
    owner: str
    goal: str
    """Of the run loop."""
    request: InputRequired
    """What is asked."""
    asked_at: datetime
    _post: Callable[[str, Answer, str], Future[None]] = field(repr=False, compare=False)

    def answer(
        self,
        *,
        approved: bool | None = None,
        text: str | None = None,
        choices: Sequence[str] | None = None,
        decisions: Sequence[CallDecision] = (),
        arguments: str | None = None,
        remember: Remember | None = None,
        narrow: Narrowing | None = None,
    ) -> Future[None]:
        """Answer it, from any thread; what each part means: see `Agent.answer`.

        The future is done once the answer is safe, and has the error that `Agent.answer` raises
        where it was not taken. Waiting for it on the agent's own thread would wait forever.
        """
        answer = Answer(
            approved=approved,
            text=text,
            choices=None if choices is None else tuple(choices),
            decisions=tuple(decisions),
            arguments=arguments,
            remember=remember,
            narrow=narrow,
            request_id=self.request.request_id,
        )
        return self._post(self.run_loop_id, answer, self.owner)


class Questions:
    """Gives the questions that are open. Made on the agent's own thread."""

    def __init__(self, memory: Memory, send: Send) -> None:
        self._memory = memory
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._moments: dict[str, datetime] = {}

    @property
    def open(self) -> Observable[tuple[Question, ...]]:
        """The open questions, oldest first: at once, and whenever that changes."""

        states = self._memory.short_term.active_states
        return states.pipe(ops.map(self._asked_in), ops.distinct_until_changed())

    def _asked_in(self, states: Iterable[RunLoopState]) -> tuple[Question, ...]:
        waiting = [(state, state.awaiting) for state in states if state.awaiting is not None]
        # Replaced, never changed in place: each subscriber looks on a thread of its own.
        earlier = self._moments
        moments = {
            request.request_id: earlier.get(request.request_id) or self._asked_at(state, request)
            for state, request in waiting
        }
        self._moments = moments
        questions = [
            Question(
                run_loop_id=state.id,
                owner=state.owner,
                goal=state.goal,
                request=request,
                asked_at=moments[request.request_id],
                _post=self._post,
            )
            for state, request in waiting
        ]
        return tuple(sorted(questions, key=lambda each: (each.asked_at, each.request.request_id)))

    def _asked_at(self, state: RunLoopState, request: InputRequired) -> datetime:
        """When a question was asked: messages may have come in since. Reads, on the subscriber's
        own thread; once for each question."""
        try:
            events = self._memory.journal.read_blocking(run_loop_id=state.id, kind="input.required")
        except RondoError as error:
            log.warning("when run loop %s began to wait cannot be read: %s", state.id, error)
            events = []
        for event in reversed(events):
            body = event.body
            if isinstance(body, InputRequired) and body.request_id == request.request_id:
                return event.at
        return state.updated_at

    def _post(self, run_loop_id: str, answer: Answer, owner: str) -> Future[None]:
        sending = self._send(run_loop_id, answer, owner)
        try:
            return asyncio.run_coroutine_threadsafe(sending, self._loop)
        except RuntimeError as error:  # the agent's event loop is closed
            sending.close()
            failed: Future[None] = Future()
            refusal = ConflictError(
                "the agent does not run any more",
                advice="The question is safe; answer it after the next start.",
            )
            refusal.__cause__ = error
            failed.set_exception(refusal)
            return failed
