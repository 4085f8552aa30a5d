"""The brain: from a run loop's state to what is to be done next. Pure; it does nothing itself.

`Brain` is what one of your own must be; `DefaultBrain` is the built-in one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from service.domain.conversation.instructions import (
    CallLLM,
    CallTools,
    Compact,
    Finish,
    Instruction,
    LastAnswerReason,
    Question,
    RequestHumanApprove,
)
from service.domain.conversation.messages import ToolCall
from service.domain.errors import BudgetError, Problem
from service.domain.history.state import RunLoopState


class Brain(Protocol):
    """Decides what a run loop does next."""

    def next(self, state: RunLoopState) -> Instruction | None:
        """What to do next in a loop that is running; None: what the built-in brain would do.

        MUST be pure: the same state gives the same instruction, and nothing is done here. It is
        called in a thread, for several loops at a time, and again after a crash. What it raises
        ends the run loop, in words; so does an instruction that cannot be carried out.
        """
        ...


Decide = Callable[[RunLoopState], Awaitable[Instruction]]
"""Asks whichever brain there is."""


def asks_nothing(call: ToolCall) -> Question | None:
    """For an agent without tools that ask a person."""
    return None


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run loop may go by itself."""

    max_iterations: int = 10
    """Model calls after a person last spoke; the last of them offers no tools."""
    max_consecutive_tool_failures: int = 3
    """Steps in a row in which every call failed, or every call of some tool; then comes the last
    answer."""
    max_repeated_calls: int = 3
    """Steps in a row with the same calls and the same results; then comes the last answer."""
    max_continuations: int = 3
    """How often the model is asked to go on with one answer whose tokens were used up."""
    budget_tokens: int | None = None
    """Tokens that a loop may use, prompts and answers together."""
    budget_cost: float | None = None
    """What a loop may cost, in the currency of the configured prices."""
    context_tokens: int | None = None
    """How long a call may be before its oldest rounds are summarised; None: as long as the model's
    window lets it."""


@dataclass(frozen=True, slots=True)
class DefaultBrain:
    """Observe, think, act, until everything that came in has been answered."""

    needs_approval: Callable[[RunLoopState, ToolCall], bool]
    question: Callable[[ToolCall], Question | None] = asks_nothing
    """What a call asks of a person; None for calls that do something else."""
    next_call_tokens: Callable[[RunLoopState], int] = lambda state: 0
    """How long the next call would be."""
    most_call_tokens: Callable[[RunLoopState], int | None] = lambda state: None
    """How long it may be, where the limits do not say; None: the oldest rounds are never
    summarised."""
    limits: Limits = Limits()
    auto_enhance: Callable[[str], bool] = lambda owner: False
    """Whether the model looks over its answers to this owner once more."""

    def next(self, state: RunLoopState) -> Instruction:
        """What to do next in a loop that is running."""
        if state.compacting:
            return Compact()
        if state.pending:
            return self.act(state)
        continues = state.is_answered and self._is_to_continue(state)
        message_ids = landing(state, goes_on=continues)
        continues = continues and not message_ids
        enhance = False
        if state.is_answered and not message_ids and not continues:
            enhance = self._is_to_enhance(state)
            if not enhance:
                return Finish()
        return self.before_call(state) or CallLLM(
            message_ids, self.last_answer(state, heard=bool(message_ids)), enhance, continues
        )

    def _is_to_continue(self, state: RunLoopState) -> bool:
        limits = self.limits
        return (
            state.cut_off
            and state.continuations < limits.max_continuations
            and state.iterations_since_user < limits.max_iterations
            and self._spent(state) is None  # what there is of the answer is no failure
        )

    def _is_to_enhance(self, state: RunLoopState) -> bool:
        # An answer that was too long once would be so again.
        was_cut_off = state.cut_off or state.continuations > 0
        is_new = bool(state.history) and not state.enhanced and not was_cut_off
        return is_new and self.auto_enhance(state.owner)

    async def decide(self, state: RunLoopState) -> Instruction:
        """The same as `next`."""
        return self.next(state)

    def waits_for_person(self, state: RunLoopState, call: ToolCall) -> bool:
        """Whether a call cannot begin without a person."""
        return self.question(call) is not None or self.needs_approval(state, call)

    def act(self, state: RunLoopState, among: Collection[ToolCall] | None = None) -> Instruction:
        """What to do about the calls that wait: what needs nobody's yes does not wait for one.

        Args:
            state: of a loop in which calls wait.
            among: only about these; None: about all.
        """
        ready: list[ToolCall] = []
        questions: list[Question] = []
        undecided: list[ToolCall] = []
        for waiting in state.pending:
            call = waiting.call
            if among is not None and call not in among:
                continue
            if waiting.started or waiting.answer is not None or waiting.approved is not None:
                ready.append(call)
            elif (question := self.question(call)) is not None:
                questions.append(question)
            elif self.needs_approval(state, call):
                undecided.append(call)
            else:
                ready.append(call)
        if ready:
            return CallTools(tuple(ready))
        return questions[0] if questions else RequestHumanApprove(tuple(undecided))

    def before_call(self, state: RunLoopState) -> Instruction | None:
        """What stands between the loop and its next model call, if anything does."""
        if (problem := self._spent(state)) is not None:
            return Finish(problem)
        limit = self.limits.context_tokens or self.most_call_tokens(state)
        if limit is None or state.compacted:
            return None  # not twice for the same call: what could be shortened is
        tokens = self.next_call_tokens(state)
        return Compact(tokens, limit) if state.overflowed or tokens > limit else None

    def _spent(self, state: RunLoopState) -> Problem | None:
        limits = self.limits
        used = state.input_tokens + state.output_tokens
        spent = ""
        if limits.budget_tokens is not None and used >= limits.budget_tokens:
            spent = f"it has used {used:,} tokens of {limits.budget_tokens:,}"
        if limits.budget_cost is not None and (state.cost or 0.0) >= limits.budget_cost:
            spent = f"it has cost {state.cost or 0.0:.4g} of {limits.budget_cost:g}"
        if not spent:
            return None
        advice = "Raise agent.budget_tokens or agent.budget_cost, or go on in a new run loop."
        return BudgetError(spent, advice=advice).problem()

    def last_answer(self, state: RunLoopState, *, heard: bool) -> LastAnswerReason | None:
        """Why the next model call must be the last one.

        Args:
            state: before the call.
            heard: whether it is to observe a message.
        """
        limits = self.limits
        count = 1 if heard else state.iterations_since_user + (not state.thinking)
        if count >= limits.max_iterations:
            return "iterations"
        if heard:
            return None
        failures = max(state.failures, *state.failing.values(), 0)
        if failures >= limits.max_consecutive_tool_failures:
            return "failures"
        if state.repetitions >= limits.max_repeated_calls:
            return "repetition"
        return None


def landing(state: RunLoopState, *, goes_on: bool = False) -> tuple[str, ...]:
    """The messages that the next call is to observe, by their ids: a follow-up waits until all else
    is answered.

    Args:
        state: of a loop that is running.
        goes_on: whether its last answer is gone on with, and so is no answer yet.
    """
    steering = tuple(unseen.id for unseen in state.unseen if unseen.mode != "followup")
    if steering or goes_on or not state.is_answered:
        return steering
    return tuple(unseen.id for unseen in state.unseen[:1])
