"""Custom executors that ask a model with a client of their own pass the same door.

What they use cannot be bounded from here: they are let in as the built-in one would be, and what
they journal as `Usage` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from service.domain.conversation.instructions import CallLLM, InstructionKind
from service.domain.conversation.messages import Message
from service.domain.errors import BudgetError, ConflictError
from service.domain.history.events import ErrorOccurred, RunLoopIdle, UsagePurpose
from service.llm.spending.accounts import Account
from service.loop.context.offered_tools import offered_tools
from service.loop.execution import Executor, Loop
from service.loop.executor_deps import ExecutorDeps
from service.loop.executors.call_llm import fail

_PURPOSES: Mapping[InstructionKind, UsagePurpose] = {"call_llm": "answer", "compact": "compaction"}
"""The kinds of instruction for which a model is asked."""


def admitted(
    executors: Mapping[InstructionKind, Executor], deps: ExecutorDeps
) -> dict[InstructionKind, Executor]:
    """These executors; those that ask a model begin only while the caps on spending let it."""
    return {
        kind: partial(_run, deps, executor, _PURPOSES[kind]) if kind in _PURPOSES else executor
        for kind, executor in executors.items()
    }


async def _run(
    deps: ExecutorDeps, executor: Executor, purpose: UsagePurpose, instruction: Any, loop: Loop
) -> None:
    state = loop.state
    model = deps.model(state)
    messages: list[Message] = [*state.history, *(each.message for each in state.unseen)]
    async with deps.account(state, purpose) as account:
        try:
            await account.reserve(
                model.llm,
                messages,
                prices=model.prices,
                tools=offered_tools(deps, state),
                ends_soon=False,  # it may wait for other run loops
            )
        except BudgetError as refused:
            await _refuse(deps, refused, account, instruction, loop)
            return
        await executor(instruction, loop)


async def _refuse(
    deps: ExecutorDeps, error: BudgetError, account: Account, instruction: Any, loop: Loop
) -> None:
    state = loop.state
    is_more = isinstance(instruction, CallLLM) and not instruction.message_ids
    if not (is_more and state.is_answered):
        await fail(deps, error, account, loop)
        return
    # The answer stays, though it may not be bettered or gone on with.
    with suppress(ConflictError):  # something was said meanwhile: the brain looks again
        told = ErrorOccurred(problem=error.problem())
        await loop.emit(told, RunLoopIdle(), if_last_seq=state.last_seq)
