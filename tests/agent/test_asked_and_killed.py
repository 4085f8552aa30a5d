"""``kill -9`` at any commit while messages are taken apart, asked about and moved: each of them is
answered once, where it belongs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.memory.memory import Memory
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import echo, running_agent
from tests.support.agent.mortal import arm, forkserver
from tests.support.agent.moves import assert_well_formed, heard

pytestmark = pytest.mark.slow

TRIP = "Plan a weekend in Lisbon"
LISTED = "1. 蒙古国的首都是哪里？\n2. How do I bake bread?"
SAID = [TRIP, *LISTED.split("\n")]


def live(folder: Path, die_at: int | None) -> bool:
    """See all of it through, in a process of its own; whether it lived to the end.

    It dies just after that commit.
    """
    process = forkserver.Process(target=_live, args=(folder, die_at))
    process.start()
    process.join(30)
    if process.exitcode == -signal.SIGKILL:
        return False
    assert process.exitcode == 0, f"the process ended with {process.exitcode}"
    return True


def _live(folder: Path, die_at: int | None) -> None:
    if die_at is not None:
        arm(die_at, "after")
    anyio.run(_see_it_through, folder)


async def _see_it_through(folder: Path) -> None:
    asking = RouterOptions(ask_below=1, use_llm=False, split_matters=True)
    async with running_agent(folder, echo, router=asking) as agent:
        for words in (TRIP, LISTED):
            await agent.accept(words, idempotency_key=words, request_hash="h")
            await _answer_until_all_rest(agent)
    os._exit(0)  # what is left to be archived is none of this test's


async def _answer_until_all_rest(agent: Agent) -> None:
    """The first listed topic belongs to the trip, the second is new."""
    with anyio.fail_after(20):
        while True:
            states = agent.memory.short_term.states()
            for state in states:
                if (asked := state.awaiting) is not None:
                    place = 0 if "bread" not in state.goal else -1
                    await agent.answer(state.id, choices=[asked.options[place]])
            waiting = await agent.memory.journal.inbox.undelivered()
            if states and not waiting and all(state.status == "idle" for state in states):
                return
            await anyio.sleep(0.002)


def test_each_message_is_answered_once_where_it_belongs(tmp_path: Path) -> None:
    for die_at in range(1, 40):
        folder = tmp_path / f"{die_at}"
        if live(folder, die_at):
            assert die_at > 12, "it is over sooner than it can be"
            return
        assert live(folder, None)
        anyio.run(_look, folder)
    raise AssertionError("it never ends")


async def _look(folder: Path) -> None:
    async with Memory(folder, None) as memory:
        said = list[str]()
        active = frozenset(("running", "waiting_for_human_input", "idle", "cancelled"))
        for each in memory.journal.run_loops.outlines():
            if each.status not in active:
                continue
            run_loop_id = each.id
            state = assert_well_formed(await memory.journal.read(run_loop_id=run_loop_id))
            said += [words for words in heard(state) if words]
            assert state.status in ("idle", "cancelled")
            if TRIP in heard(state):
                assert heard(state) == [TRIP, SAID[1]]
            assert all(
                each.response == f"You said: {each.user_message}" for each in state.iterations
            )
        assert sorted(said) == sorted(SAID)
