"""A message that a loop took for an answer, and that belongs elsewhere, is moved by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, LLMStatusError
from service.domain.history.events import Event, MessageReceived
from service.tools.builtins.ask_user import ask_user
from tests.support.agent.agents import Answer, answer_of, running_agent, sent, until
from tests.support.agent.moved_answers import (
    asks,
    house,
    opened,
    respond,
    said,
)
from tests.support.agent.moves import heard, whole
from tests.support.agent.waiting import Launches, request_id, rested, results_of

pytestmark = pytest.mark.anyio


async def test_an_answer_that_belongs_elsewhere_is_answered_there_and_its_loop_asks_again(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        table, trip = await opened(agent, "book a table"), await opened(agent, "A trip")
        first = request_id(agent, table)
        before = await agent.replay(table)
        message = await said(agent, "What does the train cost?", table)

        moved = await agent.reroute(table, message_id=message, to=trip)

        assert moved.message_ids == (message,)
        there = await rested(agent, trip)
        assert [each.response for each in there.iterations] == [
            "Heard: A trip",
            "Heard: What does the train cost?",
        ]
        here = await whole(agent, table)
        assert here.status == "waiting_for_human_input"
        assert here.history == before.history
        assert here.pending == before.pending
        assert [each.moved_to for each in here.iterations] == [None, trip]
        asked = asks(agent, table)
        assert asked is not None
        assert asked.request_id != first
        assert asked.prompt == "What name?"
        with pytest.raises(ConflictError, match="asked again"):
            await agent.answer(table, text="Ada", request_id=first)
        assert answer_of(await sent(agent, "Ada", table)) == "Done: Ada"
        now = await whole(agent, table)
        assert heard(now) == ["book a table", None, None]
        assert results_of(now.run_loop()) == ["Ada"]
        await whole(agent, trip)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["new", "another", "ended", "waits", "chooses"])
async def test_a_moved_answer_comes_back_as_the_answer(tmp_path: Path, where: str) -> None:
    async with house(tmp_path) as agent:
        table = await opened(agent, "book a table")
        words = {"waits": "book a table, too", "chooses": "pick a drink"}
        to = None if where == "new" else await opened(agent, words.get(where, "A trip"))
        if where == "ended":
            await agent.complete(to or "")
        message = await said(agent, "茶", table)
        moved = await agent.reroute(table, message_id=message, to=to)
        there = await rested(agent, moved.to_run_loop_id)
        assert there.iterations[-1].response == (
            "Done: 茶" if where in ("waits", "chooses") else "Heard: 茶"
        )
        again = await agent.reroute(table, message_id=message, to=to)
        assert again.to_run_loop_id == moved.to_run_loop_id

        back = await agent.undo_reroute(table, message_id=message)

        assert back.to_run_loop_id == table
        assert (await rested(agent, table)).iterations[-1].response == "Done: 茶"
        assert results_of(await agent.run_loop(table)) == ["茶"]
        repeated = await agent.undo_reroute(table, message_id=message)
        assert repeated.to_run_loop_id == table
        for each in (table, moved.to_run_loop_id):
            await whole(agent, each)
        if where in ("waits", "chooses"):
            assert asks(agent, moved.to_run_loop_id) is not None
        if where == "new":
            assert (await agent.run_loop(moved.to_run_loop_id)).status == "cancelled"
        # And there it can be moved once more.
        await agent.reroute(table, message_id=message, to=None)
        assert asks(agent, table) is not None
        await whole(agent, table)


async def test_what_was_only_asked_back_about_is_moved_and_the_loop_waits_on(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        drink = await opened(agent, "pick a drink")
        message = await said(agent, "lemonade", drink)
        assert "喝什么？\n请选一项" in (asks(agent, drink) or pytest.fail("not asked")).prompt
        moved = await agent.reroute(drink, message_id=message, to=None)
        there = await rested(agent, moved.to_run_loop_id)
        assert there.iterations[-1].response == "Heard: lemonade"
        asked = asks(agent, drink)
        assert asked is not None
        assert asked.prompt == "喝什么？"
        await agent.undo_reroute(drink)
        assert "请选一项" in (asks(agent, drink) or pytest.fail("not asked")).prompt
        assert answer_of(await sent(agent, "2", drink)) == "Done: > lemonade\n咖啡"
        await whole(agent, drink)


async def test_of_two_replies_the_newer_goes_first_and_then_the_older(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        drink = await opened(agent, "pick a drink")
        older = await said(agent, "lemonade", drink)
        newer = await said(agent, "咖啡", drink)
        with pytest.raises(ConflictError) as refused:
            await agent.reroute(drink, message_id=older, to=None)
        assert "newer answer first" in refused.value.advice
        await agent.reroute(drink, message_id=newer, to=None)
        assert "请选一项" in (asks(agent, drink) or pytest.fail("not asked")).prompt
        assert (await whole(agent, drink)).pending[0].said == "lemonade"
        await agent.reroute(drink, message_id=older, to=None)
        assert (await whole(agent, drink)).pending[0].said == ""
        assert answer_of(await sent(agent, "茶", drink)) == "Done: 茶"
        await whole(agent, drink)


async def test_steps_that_followed_are_taken_back_and_what_ran_before_stays(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        both = await opened(agent, "both")
        before = await agent.replay(both)
        assert [message.text for message in before.history][-1] == "It says both."
        message = await said(agent, "look there", both)
        after = await agent.replay(both)
        assert len(after.iterations) == 3
        moved = await agent.reroute(both, message_id=message, to=None)
        now = await whole(agent, both)
        assert now.history == before.history
        assert [each.moved_to for each in now.iterations] == [None, *[moved.to_run_loop_id] * 2]
        assert answer_of(await sent(agent, "Eve", both)) == "Done: Eve; It says both."
        assert results_of((await whole(agent, both)).run_loop()) == ["It says both.", "Eve"]


async def test_an_answer_upon_which_something_was_done_stays_and_says_why(tmp_path: Path) -> None:
    launches = Launches()
    async with house(tmp_path, launches.tool(needs_approval=False)) as agent:
        table, trip = await opened(agent, "book a table"), await opened(agent, "A trip")
        message = await said(agent, "launch it", table)
        before = await agent.replay(table)
        with pytest.raises(ConflictError, match="`launch` has run upon it") as refused:
            await agent.reroute(table, message_id=message, to=trip)
        assert "Send the words anew" in refused.value.advice
        assert await agent.replay(table) == before
        assert launches.launched == ["a rocket"]
        # With the message before it, all goes that followed, and nothing runs twice.
        moved = await agent.reroute(table, to=trip)
        assert results_of(moved.run_loop) == ["launch it", "a rocket is launched"]
        assert launches.launched == ["a rocket"]


async def test_a_yes_that_was_asked_for_upon_the_answer_is_not_wanted_any_more(
    tmp_path: Path,
) -> None:
    launches = Launches()
    async with house(tmp_path, launches.tool()) as agent:
        table = await opened(agent, "book a table")
        message = await said(agent, "launch it", table)
        late = request_id(agent, table)
        await agent.reroute(table, message_id=message, to=None)
        assert (asks(agent, table) or pytest.fail("not asked")).kind == "prompt"
        with pytest.raises(ConflictError):
            await agent.answer(table, approved=True, request_id=late)
        await sent(agent, "Ada", table)
        assert launches.launched == []
        await whole(agent, table)


async def test_an_answer_is_moved_while_the_model_is_at_work_on_it(tmp_path: Path) -> None:
    gate, ended = anyio.Event(), list[list[Event]]()

    def slowly(messages: Sequence[Message]) -> Answer:
        words = respond(messages)
        return [gate] if messages[-1].role == "tool" else words

    async with running_agent(tmp_path, slowly, ask_user, auto_classify=False) as agent:
        table, trip = await opened(agent, "book a table"), await opened(agent, "A trip")

        async def send() -> None:
            ended.append(await sent(agent, "To Rome", table))

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await until(lambda: agent.memory.short_term.state(table).thinking)  # type: ignore[union-attr]
            state = await agent.replay(table)
            assert state.before_answer is not None
            await agent.reroute(table, message_id=state.before_answer.message_id, to=trip)
        # Whoever waits for the answer to it hears that of the other loop.
        assert answer_of(ended[0]) == "Heard: To Rome"
        assert asks(agent, table) is not None
        await whole(agent, table)


@pytest.mark.parametrize("end", ["failed", "cancelled", "completed"])
async def test_a_loop_that_has_ended_asks_again_if_it_can_be_taken_up(
    tmp_path: Path, end: str
) -> None:
    def failing(messages: Sequence[Message]) -> Answer:
        if end == "failed" and messages[-1].role == "tool":
            raise LLMStatusError(400, "not today")
        return respond(messages)

    async with running_agent(tmp_path, failing, ask_user, auto_classify=False) as agent:
        table, trip = await opened(agent, "book a table"), await opened(agent, "A trip")
        message = await said(agent, "To Rome", table)
        if end == "completed":
            await agent.complete(table)
            with pytest.raises(ConflictError, match="completed"):
                await agent.reroute(table, message_id=message, to=trip)
            return
        if end == "cancelled":
            await agent.cancel(table)
        assert (await agent.run_loop(table)).status == end
        await agent.reroute(table, message_id=message, to=trip)
        assert (await rested(agent, trip)).iterations[-1].response == "Heard: To Rome"
        now = await whole(agent, table)
        assert now.status == "waiting_for_human_input"
        assert now.problem is None


async def test_an_answer_is_not_moved_once_something_else_was_said(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        table = await opened(agent, "book a table")
        message = await said(agent, "Ada", table)
        await sent(agent, "Thanks", table)
        with pytest.raises(ConflictError, match="said or summarised there since"):
            await agent.reroute(table, message_id=message, to=None)


async def test_what_a_new_loop_has_answered_is_moved_to_the_loop_that_waits_for_it(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        table = await opened(agent, "book a table")
        events = await sent(agent, "Ada Byron", "new")
        other = events[-1].run_loop_id
        moved = await agent.reroute(other, to=table)
        assert moved.to_run_loop_id == table
        assert results_of(await rested(agent, table)) == ["Ada Byron"]
        assert (await agent.run_loop(other)).status == "cancelled"
        back = await agent.undo_reroute(other)
        assert back.to_run_loop_id == other
        assert (await rested(agent, other)).iterations[-1].response == "Heard: Ada Byron"
        assert asks(agent, table) is not None
        for each in (table, other):
            await whole(agent, each)


async def test_an_earlier_message_is_moved_first_and_the_answer_after_it(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        table = await opened(agent, "A poem")
        first = (await agent.memory.journal.read(run_loop_id=table))[1]
        await sent(agent, "book a table", table)
        message = await said(agent, "To Rome", table)
        assert isinstance(first.body, MessageReceived)
        await agent.reroute(table, message_id=first.body.message_id, to=None)
        moved = await agent.reroute(table, message_id=message, to=None)
        now = await whole(agent, table)
        assert heard(now) == [None, "book a table", None]
        assert [message.role for message in now.history] == ["user", "assistant"]
        assert now.iterations[2].moved_to == moved.to_run_loop_id
        assert answer_of(await sent(agent, "Ada", table)) == "Done: Ada"
        # The whole topic goes along to another loop, with the answer that counts.
        there = await agent.reroute(table, to=None)
        assert results_of(there.run_loop) == ["Ada"]
        assert there.run_loop.iterations[-1].response == "Done: Ada"
        await whole(agent, table)
        await whole(agent, there.to_run_loop_id)
