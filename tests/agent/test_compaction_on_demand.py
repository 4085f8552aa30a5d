"""A person wants a conversation summarised now, though the window is far from full."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, NotFoundError
from service.domain.history.events import CompactionRequested
from service.domain.history.fold import fold
from service.domain.history.human_input import InputRequired
from service.memory.memory import Memory
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    running_agent,
    sending,
    sent,
    types,
    until,
)
from tests.support.agent.compacting import all_events, conversation, finished, is_request, talks
from tests.support.agent.conversations import WORDS
from tests.support.agent.waiting import Launches, launch_call, rested, wanting

pytestmark = pytest.mark.anyio


async def test_a_resting_loop_is_summarised_and_rests_again(tmp_path: Path) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm) as agent:
        loop_id, _ = await conversation(agent, 4)
        before = await agent.replay(loop_id)
        done = await agent.compact(loop_id)
        await rested(agent, loop_id)
        after = await agent.replay(loop_id)
        events = await all_events(agent, loop_id)
        assert done.method == "model"
        assert done.messages == 6
        assert done.tokens_after < done.tokens_before / 2
        assert after.history_size < before.history_size / 2
        assert after.history[-2:] == before.history[-2:], "the newest round stays as it is"
        assert after.iterations == before.iterations
        assert types(events)[-5:-1].count("compaction.finished") == 1
        assert events[-1].type == "run_loop.idle"
        assert fold(events) == after
        more = await sent(agent, "Question 5: and now?", loop_id)
        assert "compaction.finished" not in types(more)
        assert "They spoke of foxes." in llm.calls[-1][2].notes
        assert answer_of(more).startswith("Answer to Question 5")


async def test_a_loop_at_work_is_summarised_between_two_steps(tmp_path: Path) -> None:
    at_work, go_on = anyio.Event(), anyio.Event()

    @tool()
    async def dig() -> str:
        """Dig."""
        at_work.set()
        await go_on.wait()
        return "a bone"

    def respond(messages: Sequence[Message]) -> Answer:
        if not is_request(messages) and messages[-1].text == "Dig!":
            return [call("dig")]
        return talks(messages)

    async with running_agent(tmp_path, respond, dig) as agent, anyio.create_task_group() as group:
        loop_id, _ = await conversation(agent, 3)

        async def compact() -> None:
            assert (await agent.compact(loop_id)).messages == 6

        async with sending(agent, "Dig!", loop_id) as events:
            await at_work.wait()
            group.start_soon(compact)
            await until(lambda: "compaction.requested" in types(events))
            go_on.set()
        kinds = types(events)
        order = [each for each in kinds if each.startswith(("tool", "compaction", "message.comp"))]
    assert order == [
        "message.completed",
        "tool.started",
        "compaction.requested",
        "tool.finished",
        "compaction.started",
        "compaction.finished",
        "message.completed",
    ]
    assert answer_of(events).startswith("Answer to a bone")


async def test_killed_in_the_middle_the_next_start_does_it(tmp_path: Path) -> None:
    asked = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            asked.set()
            return [anyio.Event()]
        return talks(messages)

    async with running_agent(tmp_path, respond) as agent:
        loop_id, _ = await conversation(agent, 3)
        before = await agent.replay(loop_id)
        async with anyio.create_task_group() as group:
            group.start_soon(agent.compact, loop_id)
            await asked.wait()
            group.cancel_scope.cancel()  # whoever waits for it goes away, which cancels nothing
        assert (await agent.replay(loop_id)).status == "running"
    async with running_agent(tmp_path, talks) as agent:
        await rested(agent, loop_id)
        assert [done.messages for done in finished(await all_events(agent, loop_id))] == [4]
        assert (await agent.replay(loop_id)).history_size < before.history_size / 1.5


async def test_without_a_model_for_it_rules_of_the_house_summarise(tmp_path: Path) -> None:
    for number, how in enumerate(("extract", "off")):
        async with running_agent(tmp_path / str(number), talks, compaction=how) as agent:
            loop_id, _ = await conversation(agent, 3)
            assert (await agent.compact(loop_id)).method == "extract"


async def test_many_steps_for_one_request_are_summarised_too(tmp_path: Path) -> None:
    @tool()
    def read(page: int) -> str:
        """Read."""
        return f"page {page}: {WORDS * 20}"

    def respond(messages: Sequence[Message]) -> Answer:
        read_so_far = sum(message.role == "tool" for message in messages)
        if is_request(messages) or read_so_far == 5:
            return "That was all."
        return [call("read", f'{{"page": {read_so_far}}}')]

    async with running_agent(tmp_path, respond, read) as agent:
        loop_id = (await sent(agent, "Read it all."))[0].run_loop_id
        assert (await agent.compact(loop_id)).messages > 5
        history = (await agent.replay(loop_id)).history
        assert history[0].text == "Read it all."
        assert history[-1].text == "That was all."


async def test_what_cannot_be_summarised_is_refused_in_words(tmp_path: Path) -> None:
    launches = Launches()
    model = wanting(launch_call("rocket"))

    def respond(messages: Sequence[Message]) -> Answer:
        return model(messages) if "rocket" in messages[-1].text else talks(messages)

    async with running_agent(tmp_path, respond, launches.tool(), auto_classify=False) as agent:
        short = (await sent(agent, "Hello."))[0].run_loop_id
        with pytest.raises(ConflictError, match="there is nothing to summarise"):
            await agent.compact(short)
        assert CompactionRequested() not in [each.body for each in await all_events(agent, short)]
        long, _ = await conversation(agent, 3)
        await agent.compact(long)
        await rested(agent, long)
        with pytest.raises(ConflictError, match="there is nothing to summarise"):
            await agent.compact(long)
        waiting = await sent(agent, "The rocket, please.", long)
        assert isinstance(waiting[-1].body, InputRequired)
        with pytest.raises(ConflictError, match="waits for you"):
            await agent.compact(long)
        await agent.cancel(long)
        with pytest.raises(ConflictError, match="cancelled already"):
            await agent.compact(long)
        with pytest.raises(NotFoundError):
            await agent.compact(short, owner="you")
        with pytest.raises(NotFoundError):
            await agent.compact("nobody")


async def test_a_loop_that_ends_meanwhile_says_so(tmp_path: Path) -> None:
    asked = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            asked.set()
            return [anyio.Event()]
        return talks(messages)

    async with running_agent(tmp_path, respond) as agent:
        loop_id, _ = await conversation(agent, 3)
        async with anyio.create_task_group() as group:

            async def compact() -> None:
                with pytest.raises(ConflictError, match="has ended before"):
                    await agent.compact(loop_id)

            group.start_soon(compact)
            await asked.wait()
            await agent.cancel(loop_id)


async def test_a_loop_cannot_wait_for_its_own_next_step(tmp_path: Path) -> None:
    agents: list[Agent] = []

    @tool()
    async def tidy() -> str:
        """Tidy up."""
        (state,) = agents[0].memory.short_term.states()
        try:
            await agents[0].compact(state.id)
        except ConflictError as error:
            return error.detail
        return "tidied"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("tidy")] if messages[-1].text == "Tidy!" else talks(messages)

    async with running_agent(tmp_path, respond, tidy) as agent:
        agents.append(agent)
        loop_id, _ = await conversation(agent, 3)
        await sent(agent, "Tidy!", loop_id)
        (result,) = (await agent.run_loop(loop_id)).iterations[-2].tool_results
    assert "by its own work" in result.content


async def test_no_answer_is_looked_over_because_of_it(tmp_path: Path) -> None:
    async with running_agent(tmp_path, talks) as agent:
        loop_id, _ = await conversation(agent, 3)
        agent.switch_auto_enhance(on=True)
        await agent.compact(loop_id)
        loop = await rested(agent, loop_id)
    assert len(loop.iterations) == 3


async def test_the_wish_is_kept_where_the_journal_is_all_that_is_left(tmp_path: Path) -> None:
    async with running_agent(tmp_path, talks) as agent:
        loop_id, _ = await conversation(agent, 3)
    async with Memory(tmp_path, None) as memory:
        await memory.journal.append(loop_id, CompactionRequested(), durable=True)
    async with running_agent(tmp_path, talks) as agent:
        await rested(agent, loop_id)
        assert len(finished(await all_events(agent, loop_id))) == 1
