"""An agent in a process of its own, which is killed at the commit by which it moves a message."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import anyio

from service.agent.agent import Agent
from service.storage.sqlite_file import SqliteFile
from tests.support.agent.agents import running_agent, sent
from tests.support.agent.mortal import JOURNAL
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived

Moment = Literal["before", "after"]
WORDS = "By train along the coast"

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["tests.support.agent.mortal_moves"])


def move_and_die(folder: Path, *, moment: Moment, ended: bool, undo: bool = False) -> None:
    """Move the newest message of one loop to another one, and be killed at that commit.

    Args:
        folder: the data folder.
        moment: whether death comes just before the commit is written, or just after.
        ended: whether the loop that the message leaves is completed.
        undo: whether it is moved first, and the commit is that by which this is taken back.
    """
    process = _forkserver.Process(target=_live, args=(folder, moment, ended, undo))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL, f"it ended with {process.exitcode}"


def _live(folder: Path, moment: Moment, ended: bool, undo: bool) -> None:
    anyio.run(_move, folder, moment, ended, undo)


async def _move(folder: Path, moment: Moment, ended: bool, undo: bool) -> None:
    async with running_agent(folder, embedder=WordEmbedder(), auto_classify=False) as agent:
        trip = await _opened(agent, "A trip to Rome")
        bill = await _opened(agent, "The bill")
        await sent(agent, WORDS, bill)
        if ended:
            await agent.complete(bill)
        if undo:
            await agent.reroute(bill, to=trip)
        await archived(agent.memory)
        transaction = SqliteFile.transaction

        @contextmanager
        def deadly(file: SqliteFile, *, durable: bool) -> Iterator[sqlite3.Connection]:
            is_fatal = file.path.name == JOURNAL
            if is_fatal and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            with transaction(file, durable=durable) as db:
                yield db
            if is_fatal:
                os.kill(os.getpid(), signal.SIGKILL)

        SqliteFile.transaction = deadly  # type: ignore[method-assign, assignment]
        await (agent.undo_reroute(bill) if undo else agent.reroute(bill, to=trip))


async def _opened(agent: Agent, words: str) -> str:
    return (await sent(agent, words))[-1].run_loop_id
