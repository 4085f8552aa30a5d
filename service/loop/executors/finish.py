"""Coming to rest, or to an end."""

from __future__ import annotations

from service.domain.conversation.instructions import Finish
from service.domain.history.events import RunLoopFailed, RunLoopIdle
from service.loop.execution import Loop


async def finish(instruction: Finish, loop: Loop) -> None:
    """Rest, unless something has come in meanwhile; or stop, where there is a problem."""
    if instruction.problem is not None:
        await loop.emit(RunLoopFailed(problem=instruction.problem))
    else:
        await loop.emit(RunLoopIdle(), if_last_seq=loop.state.last_seq)
