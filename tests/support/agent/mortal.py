"""An agent in a process of its own, which is killed at the n-th commit of its journal."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Literal

import anyio

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.history.human_input import InputRequired
from service.storage.sqlite_file import SqliteFile
from service.tools.decorator import FunctionTool, tool
from tests.support.agent.agents import Answer, Respond, call, running_agent

Moment = Literal["before", "after"]
JOURNAL = "journal.sqlite3"
KEY = "the one message"
WORDS = "Look, stamp, post and pay."

forkserver = multiprocessing.get_context("forkserver")
forkserver.set_forkserver_preload(["tests.support.agent.mortal"])


def live(
    folder: Path,
    *,
    die_at: int | None = None,
    moment: Moment = "before",
    respond: Respond | None = None,
) -> bool:
    """Send the message and see it through, in a process of its own; whether it lived to the end.

    Args:
        folder: the data folder is in it, and what the tools leave behind.
        die_at: the number of the commit, from 1; None: never.
        moment: whether death comes just before that commit is written, or just after.
        respond: what the model answers: a function of a module; None: it calls the tools.
    """
    process = forkserver.Process(target=_live, args=(folder, die_at, moment, respond or _respond))
    process.start()
    process.join(30)
    if process.exitcode == -signal.SIGKILL:
        return False
    assert process.exitcode == 0, f"the process ended with {process.exitcode}"
    return True


def _live(folder: Path, die_at: int | None, moment: Moment, respond: Respond) -> None:
    if die_at is not None:
        arm(die_at, moment)
    anyio.run(_see_it_through, folder, respond)


def arm(die_at: int, moment: Moment) -> None:
    """Have this process be killed at its n-th commit of a journal, from 1."""
    commits = 0

    transaction = SqliteFile.transaction

    @contextmanager
    def deadly(file: SqliteFile, *, durable: bool) -> Iterator[sqlite3.Connection]:
        nonlocal commits
        is_fatal = False
        if file.path.name == JOURNAL:
            commits += 1
            is_fatal = commits == die_at
        if is_fatal and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with transaction(file, durable=durable) as db:
            yield db
        if is_fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    SqliteFile.transaction = deadly  # type: ignore[method-assign, assignment]


async def _see_it_through(folder: Path, respond: Respond) -> None:
    async with running_agent(folder / "home", respond, *_tools(folder)) as agent:
        with agent.reader() as reader:
            receipt = await agent.accept(WORDS, idempotency_key=KEY, request_hash="h")
            async with aclosing(agent.follow(receipt.message_id, reader=reader)) as events:
                last = [event async for event in events][-1]
        await _answer_until_it_rests(agent, last.run_loop_id)


async def _answer_until_it_rests(agent: Agent, run_loop_id: str) -> None:
    with anyio.fail_after(20):
        while True:
            state = agent.memory.short_term.state(run_loop_id)
            assert state is not None, "the loop has ended"
            if state.status == "idle":
                return
            if isinstance(state.awaiting, InputRequired):
                await agent.answer(run_loop_id, approved=True, request_id=state.awaiting.request_id)
            await anyio.sleep(0.002)


def _respond(messages: Sequence[Message]) -> Answer:
    """Depends on nothing but the conversation, as after a restart there is nothing else."""
    results = [message for message in messages if message.role == "tool"]
    if not results:
        return [
            call("look", "{}", index=0),
            call("stamp", "{}", index=1),
            call("post", "{}", index=2),
        ]
    if len(results) == 3:
        return [call("pay", "{}", index=3)]
    return "Done."


def _tools(folder: Path) -> tuple[FunctionTool, ...]:
    def note(name: str) -> None:
        with (folder / name).open("a") as file:
            file.write("x")

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "seen"

    @tool(effect="idempotent")
    async def stamp(context: ToolContext) -> str:
        """Set a stamp."""
        (folder / f"stamp {context.idempotency_key.replace('/', ' ')}").touch()
        return "stamped"

    @tool(effect="side_effects")
    async def post() -> str:
        """Post a letter."""
        note("letters")
        return "posted"

    @tool(effect="side_effects", needs_approval=True)
    async def pay() -> str:
        """Pay."""
        note("payments")
        return "paid"

    return look, stamp, post, pay
