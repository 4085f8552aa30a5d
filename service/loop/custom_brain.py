"""A custom brain: asked within a time, and held to what keeps a run loop well formed.

Whatever it says, the limits, the budgets and the window hold, no call runs without the yes that it
needs, no message is left unseen, and no instruction is carried out that its state does not allow.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

import anyio

from service.domain.conversation.instructions import (
    KINDS,
    CallLLM,
    CallTools,
    Compact,
    Finish,
    Instruction,
    Question,
    RequestHumanApprove,
    RequestHumanPrompt,
    RequestHumanSelect,
)
from service.domain.conversation.messages import ToolCall
from service.domain.errors import ConfigurationError, OwnCodeError
from service.domain.history.state import RunLoopState
from service.loop.brain import Brain, DefaultBrain
from service.loop.unexpected_errors import in_words

_THREADS = 8
_ADVICE = "The daemon's log has the details. Correct it, and resume the run loop."


def check_brain(brain: object) -> None:
    """See to it that something can be asked as a brain is.

    Raises:
        ConfigurationError: it cannot; says why.
    """
    method = getattr(brain, "next", None)
    if isinstance(brain, type) or not callable(method):
        wrong = "is a class" if isinstance(brain, type) else "has no method `next`"
    elif inspect.iscoroutinefunction(method):
        wrong = "has an async `next`; a brain only looks, and what takes time is an executor's"
    else:
        return
    raise ConfigurationError(
        f"the brain {brain!r:.200} {wrong}",
        advice="Give an instance of a class with `def next(self, state)` that returns an"
        " instruction, or None.",
    )


class OwnBrain:
    """Asks a custom brain."""

    def __init__(self, brain: Brain, builtin: DefaultBrain, *, timeout_seconds: float) -> None:
        """Take it.

        Args:
            brain: what is asked.
            builtin: the built-in one, whose rules hold for every brain.
            timeout_seconds: how long the brain may take.
        """
        self._brain = brain
        self._builtin = builtin
        self._timeout = timeout_seconds
        self._name = f"{type(brain).__module__}.{type(brain).__qualname__}"
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def decide(self, state: RunLoopState) -> Instruction:
        """What to do next.

        Raises:
            OwnCodeError: the brain raised, took too long, or wants what cannot be done.
        """
        instruction = None if state.compacting else await self._asked(state)
        if instruction is None:
            return self._builtin.next(state)
        if type(instruction) not in KINDS:
            raise self._failed(f"gave {instruction!r:.200}, which is no instruction")
        try:
            return self._possible(state, instruction)  # type: ignore[arg-type]  # it is one of KINDS
        except _Impossible as error:
            kind = KINDS[type(instruction)]  # type: ignore[index]
            raise self._failed(f"wants {kind}, which is not possible now: {error}") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise self._failed(
                f"gave {instruction!r:.200}, which cannot be read: {error}"
            ) from error

    async def _asked(self, state: RunLoopState) -> object:
        """What the brain says. In a thread: one that never comes back holds up nobody else."""
        outcome: list[object] = []
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                outcome.append(self._brain.next(state))
            except BaseException as error:  # noqa: BLE001  SystemExit must not end the daemon
                errors.append(error)

        with anyio.move_on_after(self._timeout):
            await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._threads)
        if errors:
            raise self._failed(f"raised {in_words(errors[0])}") from errors[0]
        if not outcome:
            raise self._failed(f"did not come back within {self._timeout:g} seconds")
        return outcome[0]

    def _failed(self, what: str) -> OwnCodeError:
        return OwnCodeError(f"the brain {self._name} of yours {what}", advice=_ADVICE)

    # --- what is possible

    def _possible(self, state: RunLoopState, instruction: Instruction) -> Instruction:
        match instruction:
            case CallLLM():
                return self._call_llm(state, instruction)
            case CallTools(calls=calls):
                # A call that needs a person is put to the person, whatever the brain says.
                return self._builtin.act(state, _waiting(state, calls))
            case RequestHumanApprove(calls=calls):
                return RequestHumanApprove(_undecided(state, calls))
            case RequestHumanPrompt() | RequestHumanSelect():
                return _question(state, instruction)
            case Compact():
                if state.compacted:
                    raise _Impossible("it was done already since the model last answered")
                return instruction
            case Finish(problem=None):
                if state.pending or state.unseen:
                    what = "tool calls wait for their results" if state.pending else _UNSEEN
                    raise _Impossible(what)
                return instruction
            case Finish():
                return instruction
            case _:
                assert_never(instruction)

    def _call_llm(self, state: RunLoopState, instruction: CallLLM) -> Instruction:
        if state.pending:
            raise _Impossible("tool calls wait for their results")
        ids = tuple(instruction.message_ids)
        unknown = [each for each in ids if each not in {unseen.id for unseen in state.unseen}]
        if unknown or len(set(ids)) < len(ids):
            raise _Impossible(f"of {ids}, not each is a message that waits to be seen")
        if instruction.continues and (ids or not (state.cut_off and state.is_answered)):
            raise _Impossible("there is no answer whose tokens were used up")
        anew = instruction.enhance or instruction.continues
        if not ids and (state.is_answered or not state.history) and not anew:
            raise _Impossible(_UNSEEN if state.unseen else "everything has been answered")
        limits = self._builtin.limits
        if not ids and state.iterations_since_user + (not state.thinking) > limits.max_iterations:
            raise _Impossible(
                f"the model was asked {state.iterations_since_user} times since a person last spoke"
                f" (agent.max_iterations is {limits.max_iterations})"
            )
        before = self._builtin.before_call(state)
        if before is not None:
            return before
        last = instruction.last_answer or self._builtin.last_answer(state, heard=bool(ids))
        return replace(instruction, message_ids=ids, last_answer=last)


_UNSEEN = "a message waits that no model call has observed (see service.loop.brain.landing)"


class _Impossible(Exception):
    """An instruction does not fit the state."""


def _waiting(state: RunLoopState, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """These calls, each of which waits for its result."""
    requested = tuple(calls)  # a list is as good
    pending = [waiting.call for waiting in state.pending]
    if not requested:
        raise _Impossible("it names no call")
    for call in requested:
        if call not in pending:
            raise _Impossible(f"{call!r:.200} does not wait for a result")
    return requested


def _undecided(state: RunLoopState, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """These calls, about each of which nothing is decided yet."""
    requested = _waiting(state, calls)
    for waiting in state.pending:
        decided = waiting.started or waiting.approved is not None or waiting.answer is not None
        if waiting.call in requested and decided:
            raise _Impossible(f"call {waiting.call.id} is decided upon already")
    return requested


def _question(state: RunLoopState, question: Question) -> Question:
    if question.call_id is not None:
        named = [each.call for each in state.pending if each.call.id == question.call_id]
        _undecided(state, named)
    return question
