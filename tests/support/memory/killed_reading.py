"""Run loops that talk, rest, go on and end while long-term memory follows, until it is killed.

As a program: ``python -m tests.support.memory.killed_reading FOLDER``; a line for what was done.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import anyio.lowlevel

from service.domain.conversation.messages import Message
from service.domain.history.events import (
    IterationStarted,
    MessageCompleted,
    RunLoopCompleted,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.ids import new_id
from service.memory.journal.protocol import Journal
from service.memory.memory import Memory
from tests.support.histories import received


async def said(journal: Journal, run_loop_id: str, *, words: str = "a heron") -> None:
    """A person says something, in several commits, and the loop rests."""
    state = journal.state(run_loop_id)
    index = state.iteration_count if state else 0
    await journal.append(
        run_loop_id,
        *([] if state else [RunLoopStarted(goal=words)]),
        received(words, f"m{index}"),
        owner="me",
    )
    await journal.append(run_loop_id, IterationStarted(index=index))
    await journal.append(
        run_loop_id, MessageCompleted(message=Message.assistant(f"{words}, indeed"))
    )
    await journal.append(run_loop_id, RunLoopIdle())


async def talk(folder: Path) -> None:
    """Talk until killed."""
    async with Memory(folder, None) as memory, anyio.create_task_group() as group:
        group.start_soon(memory.work)
        await memory.warmed_up()
        while True:
            run_loop_id = new_id()
            for number in range(3):
                await said(memory.journal, run_loop_id, words=f"a heron {number} of {run_loop_id}")
                print(number, flush=True)
                await anyio.lowlevel.checkpoint()  # appends give nobody else a turn
                if number == 1:
                    await memory.archivist.drain()
            await memory.journal.append(run_loop_id, RunLoopCompleted())


if __name__ == "__main__":
    anyio.run(talk, Path(sys.argv[1]))
