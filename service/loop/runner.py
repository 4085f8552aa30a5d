"""The runner: turns a run loop until it rests, waits for a person, or ends.

`step` is one turn of the wheel: the brain says what is next, and its executor does it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from service.domain.conversation.instructions import KINDS, InstructionKind
from service.domain.errors import ConfigurationError, ConflictError
from service.domain.history.state import RunLoopState
from service.loop.brain import Decide
from service.loop.execution import Executor, Loop
from service.loop.replies import withdrawn

log = logging.getLogger(__name__)

_GIVE_WAY: frozenset[InstructionKind] = frozenset(
    ("finish", "request_human_approve", "request_human_prompt", "request_human_select")
)
"""Instructions that are void once a message has come in."""


async def step(loop: Loop, decide: Decide, executors: Mapping[InstructionKind, Executor]) -> None:
    """Do the next thing in a running loop.

    Raises:
        OwnCodeError: a custom brain or executor failed.
        StorageError: what happened could not be journaled.
    """
    state = loop.state
    instruction = await decide(state)
    if loop.state.last_seq != state.last_seq:
        return  # something has come in while the brain thought: it looks again
    kind = KINDS[type(instruction)]
    log.debug("run loop %s: step: %s", state.id, kind)
    executor = executors.get(kind)
    if executor is None:
        raise ConfigurationError(f"there is no executor for {kind} instructions")
    try:
        await executor(instruction, loop)
    except ConflictError:
        # A message came in between the brain's look and the executor's act: look again.
        if kind not in _GIVE_WAY:
            raise


async def run(loop: Loop, decide: Decide, executors: Mapping[InstructionKind, Executor]) -> None:
    """Turn a loop until it is no longer running.

    Raises:
        OwnCodeError: a custom brain or executor failed.
        StorageError: what happened could not be journaled; the loop stays where it was.
    """
    while True:
        state = loop.state
        if state.is_spoken_to:
            # Said before it was asked, or kept by an earlier version: no message waits for answers.
            await _hear_instead(state, loop)
        elif state.status == "running":
            await step(loop, decide, executors)
        else:
            return


async def _hear_instead(state: RunLoopState, loop: Loop) -> None:
    last = [unseen.id for unseen in state.unseen if unseen.mode != "followup"][-1]
    try:
        await loop.emit(
            *withdrawn(state, state.awaiting, last), durable=True, if_last_seq=state.last_seq
        )
    except ConflictError:
        log.debug("run loop %s was answered, or has ended, meanwhile", state.id)
