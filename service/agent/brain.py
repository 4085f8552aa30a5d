"""The brain: from a run loop's state to what is to be done next. Pure; it does nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.domain.errors import BudgetError, Problem
from service.domain.instructions import (
    CallLLM,
    CallTools,
    Compact,
    Finish,
    Instruction,
    LastAnswerReason,
    Question,
    RequestHumanApprove,
)
from service.domain.messages import ToolCall
from service.domain.state import RunLoopState


def asks_nothing(call: ToolCall) -> Question | None:
    """For a house without tools that ask a person."""
    return None


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run loop may go by itself."""

    max_iterations: int = 10
    """Model calls after a person last spoke; the last of them offers no tools."""
    max_consecutive_tool_failures: int = 3
    """Steps in a row in which every call failed; then comes the last answer."""
    max_repeated_calls: int = 3
    """Steps in a row with the same calls and the same results; then comes the last answer."""
    budget_tokens: int | None = None
    """Tokens that a loop may use, prompts and answers together."""
    budget_cost: float | None = None
    """What a loop may cost, in the currency of the configured prices."""
    context_tokens: int | None = None
    """How long a call may be before its oldest rounds are summarised; None: they never are."""


@dataclass(frozen=True, slots=True)
class Brain:
    """Observe, think, act, until everything that came in has been answered."""

    needs_approval: Callable[[RunLoopState, ToolCall], bool]
    question: Callable[[ToolCall], Question | None] = asks_nothing
    """What a call asks of a person; None for calls that do something else."""
    next_call_tokens: Callable[[RunLoopState], int] = lambda state: 0
    """How long the next call would be."""
    limits: Limits = Limits()
    auto_enhance: bool = False
    """Whether the model looks over its first answer once more."""

    def next(self, state: RunLoopState) -> Instruction:
        """What to do next in a loop that is running."""
        if state.pending:
            return self._act(state)
        message_ids = _landing(state)
        enhance = False
        if state.is_answered and not message_ids:
            enhance = self.auto_enhance and not state.enhanced and bool(state.history)
            if not enhance:
                return Finish()
        return self._before_call(state) or CallLLM(
            message_ids, self._last_answer(state, heard=bool(message_ids)), enhance
        )

    def waits_for_person(self, state: RunLoopState, call: ToolCall) -> bool:
        """Whether a call cannot begin without a person."""
        return self.question(call) is not None or self.needs_approval(state, call)

    def _act(self, state: RunLoopState) -> Instruction:
        """What needs nobody's yes does not wait for somebody's yes."""
        ready: list[ToolCall] = []
        questions: list[Question] = []
        undecided: list[ToolCall] = []
        for waiting in state.pending:
            call = waiting.call
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

    def _before_call(self, state: RunLoopState) -> Instruction | None:
        """What stands between the loop and its next model call, if anything does."""
        if (problem := self._spent(state)) is not None:
            return Finish(problem)
        limit = self.limits.context_tokens
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

    def _last_answer(self, state: RunLoopState, *, heard: bool) -> LastAnswerReason | None:
        limits = self.limits
        count = 1 if heard else state.iterations_since_user + (not state.thinking)
        if count >= limits.max_iterations:
            return "iterations"
        if heard:
            return None
        if state.failures >= limits.max_consecutive_tool_failures:
            return "failures"
        if state.repetitions >= limits.max_repeated_calls:
            return "repetition"
        return None


def _landing(state: RunLoopState) -> tuple[str, ...]:
    """The messages that the next call observes: a follow-up waits until all else is answered."""
    steering = tuple(unseen.id for unseen in state.unseen if unseen.mode != "followup")
    if steering or not state.is_answered:
        return steering
    return tuple(unseen.id for unseen in state.unseen[:1])
