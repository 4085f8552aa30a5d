"""Executors of the owner's own, in the place of built-in ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from service.agent.loop import Executor, Loop
from service.domain.errors import ConfigurationError
from service.domain.instructions import InstructionKind


def watched(executors: Mapping[InstructionKind, Executor]) -> dict[InstructionKind, Executor]:
    """These executors, each of which must get somewhere.

    One that comes back without an event would be called again for ever, and nothing else could run.
    """
    return {kind: partial(_run, kind, executor) for kind, executor in executors.items()}


async def _run(kind: InstructionKind, executor: Executor, instruction: Any, loop: Loop) -> None:
    before = loop.state.last_seq
    await executor(instruction, loop)
    if loop.state.last_seq == before:
        raise ConfigurationError(
            f"the executor for {kind} came back without an event, so the loop would stand still",
            advice=f"Correct it, or take it out of agent.executors.{kind}; then resume the loop.",
        )
