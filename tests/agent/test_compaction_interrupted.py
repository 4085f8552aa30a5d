"""What comes in between while old rounds are summarised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.history.state import RunLoopState
from service.memory.forgetting.histories import history_of
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    running_agent,
    sent,
    types,
    until,
)
from tests.support.agent.compacting import (
    LIMIT,
    all_events,
    conversation,
    finished,
    is_request,
    talks,
)
from tests.support.agent.conversations import WORDS
from tests.support.agent.moves import whole
from tests.support.agent.moving import at_rest, message_ids

pytestmark = pytest.mark.anyio


class Summarising(FunctionLLM):
    """Waits while it summarises, until it is let go on."""

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.began = anyio.Event()
        self.may_go_on = anyio.Event()

    def _respond(self, messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            self.began.set()
            return [self.may_go_on, TextDelta("They spoke of foxes.")]
        return talks(messages)


async def summarising(agent: Agent, llm: Summarising, group: Any) -> str:
    """Bring a loop to where it is being summarised."""
    first = await sent(agent, "Question 0: " + WORDS * 20)
    loop_id = first[0].run_loop_id

    async def go_on() -> None:
        number = 0
        while not llm.began.is_set():  # a later question would keep the loop from coming to rest
            number += 1
            await sent(agent, f"Question {number}: " + WORDS * 20, loop_id)

    group.start_soon(go_on)
    with anyio.fail_after(20):
        await llm.began.wait()
    return loop_id


async def test_a_message_that_comes_while_old_rounds_are_summarised_is_heard(
    tmp_path: Path,
) -> None:
    llm = Summarising()
    async with (
        running_agent(tmp_path, llm, context_tokens=LIMIT) as agent,
        anyio.create_task_group() as group,
    ):
        loop_id = await summarising(agent, llm, group)
        await agent.accept("And a word in between.", run_loop_id=loop_id)
        state = agent.memory.short_term.state
        await until(lambda: len((state(loop_id) or _never()).unseen) == 2)
        llm.may_go_on.set()
        await until(lambda: not (state(loop_id) or _never()).unseen)
        heard = [each.user_message or "" for each in (await agent.run_loop(loop_id)).iterations]
        assert any("And a word in between." in each for each in heard)
        group.cancel_scope.cancel()


def _never() -> RunLoopState:
    raise AssertionError("the loop is not active")


async def test_cancelling_while_old_rounds_are_summarised_takes_effect_at_once(
    tmp_path: Path,
) -> None:
    llm = Summarising()
    async with (
        running_agent(tmp_path, llm, context_tokens=LIMIT) as agent,
        anyio.create_task_group() as group,
    ):
        loop_id = await summarising(agent, llm, group)
        with anyio.fail_after(10):
            loop = await agent.cancel(loop_id)
        group.cancel_scope.cancel()
        assert loop.status == "cancelled"
        assert not finished(await all_events(agent, loop_id))
        asked = [each.user_message for each in loop.iterations]
        assert asked == [f"Question {number}: " + WORDS * 20 for number in range(len(asked))]


async def test_a_restart_in_the_middle_of_summarising_begins_anew_and_loses_nothing(
    tmp_path: Path,
) -> None:
    llm = Summarising()
    async with (
        running_agent(tmp_path, llm, context_tokens=LIMIT) as agent,
        anyio.create_task_group() as group,
    ):
        loop_id = await summarising(agent, llm, group)
        group.cancel_scope.cancel()
    async with running_agent(tmp_path, talks, context_tokens=LIMIT) as agent:
        state = agent.memory.short_term.state
        await until(lambda: (state(loop_id) or _never()).status == "idle")
        events = await all_events(agent, loop_id)
        assert types(events).count("compaction.started") == 2
        assert len(finished(events)) == 1
        last = (await agent.run_loop(loop_id)).iterations[-1]
        assert last.response


async def test_a_message_that_is_moved_while_old_rounds_are_summarised_is_not_in_their_place(
    tmp_path: Path,
) -> None:
    llm = Summarising()
    async with (
        running_agent(tmp_path, llm, context_tokens=LIMIT, auto_classify=False) as agent,
        anyio.create_task_group() as group,
    ):
        loop_id = await summarising(agent, llm, group)
        first, *_ = await message_ids(agent, loop_id)
        await agent.reroute(loop_id, message_id=first)
        llm.may_go_on.set()
        await at_rest(agent, loop_id)
        await whole(agent, loop_id)
        events = await all_events(agent, loop_id)
        group.cancel_scope.cancel()
        since = types(events)[types(events).index("message.moved") :]
        if "compaction.finished" in since:  # else the rest had room
            began = since.index("compaction.started")
            assert began < since.index("compaction.finished")
        assert "message.completed" in since
        assert 0 not in frozenset[int]().union(*history_of(events).summarised.values())


@pytest.mark.slow
async def test_two_loops_are_summarised_side_by_side(tmp_path: Path) -> None:
    async with running_agent(tmp_path, talks, context_tokens=LIMIT, auto_classify=False) as agent:
        ids: list[str] = []

        async def talk() -> None:
            loop_id, last = await conversation(agent, 6)
            assert last[-1].type == "run_loop.idle"
            ids.append(loop_id)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(talk)
                group.start_soon(talk)
        for loop_id in ids:
            assert finished(await all_events(agent, loop_id))
