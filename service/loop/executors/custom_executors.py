"""Custom executors, in the place of built-in ones."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, get_args

from service.domain.conversation.instructions import InstructionKind
from service.domain.errors import ConfigurationError, OwnCodeError, RondoError
from service.loop import unexpected_errors
from service.loop.execution import Executor, Loop

_HOW = "Give an `async def executor(instruction, loop)`."


def check_executors(executors: Mapping[InstructionKind, Executor]) -> None:
    """See to it that each of these can be called, and would be.

    Raises:
        ConfigurationError: there is no such kind of instruction, or it is no executor.
    """
    kinds = get_args(InstructionKind)
    for kind, executor in executors.items():
        if kind not in kinds:
            near = get_close_matches(str(kind), kinds, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ConfigurationError(
                f"there is no instruction {kind!r:.200} that an executor could carry out{meant}",
                advice=f"There are {', '.join(kinds)}.",
            )
        if (wrong := why_no_executor(executor)) is not None:
            raise ConfigurationError(f"the executor for {kind} {wrong}", advice=_HOW)


def why_no_executor(candidate: object) -> str | None:
    """Why something cannot be called as an executor is; None where it can."""
    if isinstance(candidate, type):
        return f"is the class {candidate.__name__}, not an async function"
    if not callable(candidate) or not _is_async(candidate):
        return f"is of the type {type(candidate).__name__}, not an async function"
    try:
        inspect.signature(candidate).bind(None, None)
    except TypeError as error:
        return f"cannot be called with an instruction and a loop: {error}"
    return None


def watched(executors: Mapping[InstructionKind, Executor]) -> dict[InstructionKind, Executor]:
    """These executors, each of which must get somewhere, and whose errors are told as theirs.

    One that comes back without an event would be called again forever, and nothing else could run.
    """
    return {kind: partial(_run, kind, executor) for kind, executor in executors.items()}


async def _run(kind: InstructionKind, executor: Executor, instruction: Any, loop: Loop) -> None:
    before, task = loop.state.last_seq, asyncio.current_task()
    try:
        await executor(instruction, loop)
    except BaseException as error:
        if unexpected_errors.passes_through(error, task):
            raise
        cause = unexpected_errors.one_of(error)
        if isinstance(cause, RondoError):
            raise  # such as a disk that refuses: it says itself what to do
        raise OwnCodeError(
            f"the executor {_name(executor)} of yours, for {kind}, raised"
            f" {unexpected_errors.in_words(cause)}",
            advice="The daemon's log has the details. Correct it, and resume the run loop.",
        ) from error
    if loop.state.last_seq == before:
        raise OwnCodeError(
            f"the executor {_name(executor)} of yours, for {kind}, came back without an event, so"
            " the loop would stand still",
            advice=f"Correct it, or take it out of agent.executors.{kind}; then resume the loop.",
        )


def _is_async(called: object) -> bool:
    # An object with an async `__call__` is as good as a function, and so is a partial of either.
    while isinstance(called, partial):
        called = called.func
    return any(map(inspect.iscoroutinefunction, (called, type(called).__call__)))


def _name(executor: object) -> str:
    while isinstance(executor, partial):
        executor = executor.func
    named = executor if hasattr(executor, "__qualname__") else type(executor)
    return f"{named.__module__}.{named.__qualname__}"
