"""The runner: turns a run loop until it rests, waits for a person, or ends.

`step` is one turn of the wheel: the brain says what is next, and its executor does it.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.agent.brain import Brain
from service.agent.loop import Executor, Loop
from service.domain.errors import ConfigurationError, ConflictError
from service.domain.instructions import KINDS, Instruction, InstructionKind


async def step(loop: Loop, brain: Brain, executors: Mapping[InstructionKind, Executor]) -> None:
    """Do the next thing in a running loop.

    Raises:
        StorageError: what happened could not be journaled.
    """
    instruction: Instruction = brain.next(loop.state)
    kind = KINDS[type(instruction)]
    executor = executors.get(kind)
    if executor is None:
        raise ConfigurationError(f"there is no executor for {kind} instructions")
    try:
        await executor(instruction, loop)
    except ConflictError:
        # A message came in between the brain's look and the executor's act: look again.
        if kind != "finish":
            raise


async def run(loop: Loop, brain: Brain, executors: Mapping[InstructionKind, Executor]) -> None:
    """Turn a loop until it is no longer running.

    Raises:
        StorageError: what happened could not be journaled; the loop stays where it was.
    """
    while loop.state.status == "running":
        await step(loop, brain, executors)
