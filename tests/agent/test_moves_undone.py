"""A move that is taken back: the message is where it was, with its answer, and once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import ConflictError, NotFoundError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import MessageMoved, RouteDecided
from tests.support.agent.agents import Answer, running_agent, sending, sent, until
from tests.support.agent.heist import SECRET, SECRETS, forget, house, moved, places
from tests.support.agent.mortal_moves import WORDS, Moment, move_and_die
from tests.support.agent.moves import answers, heard, spoken, whole
from tests.support.agent.moving import at_rest, message_ids, opened, running
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived, traces

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("named", ["left", "came to"])
async def test_a_move_is_undone_by_the_id_of_either_run_loop_and_undone_again_changes_nothing(
    tmp_path: Path, named: str
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "去罗马的旅行")
        bill = await opened(agent, "The bill")
        await sent(agent, "坐火车去", bill)
        before = spoken(await whole(agent, bill))
        message = (await message_ids(agent, bill))[-1]
        await agent.reroute(bill, message_id=message, to=trip)

        loop = bill if named == "left" else trip
        undone = await agent.undo_reroute(loop)

        assert (undone.message_ids, undone.from_run_loop_id) == ((message,), trip)
        assert undone.to_run_loop_id == undone.run_loop.id == bill
        assert spoken(await whole(agent, bill)) == before
        assert heard(await whole(agent, trip)) == ["去罗马的旅行", None]
        written = agent.memory.journal.last_seq
        for each in (bill, trip):
            assert (await agent.undo_reroute(each, message_id=message)).to_run_loop_id == bill
        assert agent.memory.journal.last_seq == written
        # It can be moved again, and back again.
        await agent.reroute(bill, message_id=message, to=trip)
        await agent.undo_reroute(loop, message_id=message)
        assert spoken(await whole(agent, bill)) == before


async def test_the_run_loop_that_was_left_empty_goes_on_and_the_one_that_was_opened_ends(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        new = (await agent.reroute(trip, to="new")).to_run_loop_id
        assert (await whole(agent, trip)).status == "cancelled"
        await agent.undo_reroute(new)
        back = await whole(agent, trip)
        assert (back.status, back.goal) == ("idle", "A trip to Rome")
        assert answers(back)[-1] == "You said: A trip to Rome"
        assert (await whole(agent, new)).status == "cancelled"
        await sent(agent, "And back?", trip)
        assert heard(await whole(agent, trip)) == [None, "A trip to Rome", "And back?"]


async def test_a_move_is_undone_while_the_answer_comes_and_the_answer_comes_there(
    tmp_path: Path,
) -> None:
    began: list[str] = []
    ready = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text != "By train":
            return f"You said: {messages[-1].text}"
        began.append("By train")
        return [TextDelta("Let me see"), ready]

    async with running(tmp_path, respond) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        async with sending(agent, "By train", bill) as events:
            await until(lambda: len(began) == 1)
            await agent.reroute(bill, to=trip)
            await until(lambda: len(began) == 2)
            await agent.undo_reroute(bill)
            assert heard(await whole(agent, trip)) == ["A trip to Rome", None]
            ready.set()
        assert (events[-1].run_loop_id, events[-1].type) == (bill, "run_loop.idle")
        assert answers(await whole(agent, bill))[-1] == "Let me see"
        assert (await whole(agent, trip)).status == "idle"


async def test_a_run_loop_that_went_on_meanwhile_takes_the_message_back_behind_that(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        message = (await message_ids(agent, bill))[-1]
        await agent.reroute(bill, to=trip)
        await sent(agent, "Is it paid?", bill)
        await sent(agent, "And a hotel?", trip)
        await agent.undo_reroute(bill, message_id=message)
        assert heard(await whole(agent, bill)) == ["The bill", None, "Is it paid?", "By train"]
        assert heard(await whole(agent, trip)) == ["A trip to Rome", None, "And a hotel?"]


async def test_two_who_undo_at_once_undo_it_once(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        await agent.reroute(bill, to=trip)
        places: list[str] = []

        async def undo(run_loop_id: str) -> None:
            places.append((await agent.undo_reroute(run_loop_id)).to_run_loop_id)

        async with anyio.create_task_group() as group:
            for each in (bill, trip, bill):
                group.start_soon(undo, each)
        assert places == [bill] * 3
        assert heard(await whole(agent, bill)) == ["The bill", None, "By train"]


async def test_what_was_not_moved_or_was_answered_with_another_message_is_refused_in_words(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        with pytest.raises(ConflictError, match="nothing to undo"):
            await agent.undo_reroute(trip)
        with pytest.raises(NotFoundError):
            await agent.undo_reroute("no-such-loop")
        other = await opened(agent, "The bill")
        with pytest.raises(ConflictError, match="was not moved"):
            await agent.undo_reroute(other, message_id=(await message_ids(agent, other))[0])
        # A copy of its history has moved nothing itself.
        await sent(agent, "By train", other)
        await agent.reroute(other, to=trip)
        fork = await agent.fork(other)
        with pytest.raises(ConflictError, match="nothing to undo"):
            await agent.undo_reroute(fork.id)


async def test_both_run_loops_tell_that_the_move_was_taken_back(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        bill = await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        await agent.reroute(bill, to=trip)
        await agent.undo_reroute(bill)
        await at_rest(agent, bill)
        left = [e.body for e in await agent.memory.journal.read(run_loop_id=trip)]
        came = [e.body for e in await agent.memory.journal.read(run_loop_id=bill)]
        assert [e.undo for e in left if isinstance(e, MessageMoved)] == [True]
        [*_, route] = [e.route for e in came if isinstance(e, RouteDecided)]
        assert (route.undo, route.moved_from, route.method) == (True, trip, "person")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_undo_is_there_whole_or_not_at_all_when_the_process_is_killed(
    tmp_path: Path, moment: Moment
) -> None:
    move_and_die(tmp_path, moment=moment, ended=False, undo=True)
    async with running_agent(tmp_path, embedder=WordEmbedder(), auto_classify=False) as agent:
        loops = await agent.memory.journal.run_loops.summaries(owner="me")
        ids = {each.goal: each.id for each in loops}
        trip = await whole(agent, ids["A trip to Rome"])
        bill = await whole(agent, ids["The bill"])
        undone = moment == "after"
        assert heard(trip) == ["A trip to Rome", None if undone else WORDS]
        assert heard(bill) == ["The bill", None, *([WORDS] if undone else [])]
        await agent.undo_reroute(bill.id)
        assert heard(await whole(agent, bill.id)) == ["The bill", None, WORDS]
        await archived(agent.memory)
        results = await agent.memory.long_term.search(
            "train coast", owner="me", limit=20, fold=False
        )
        assert {h.anchor.run_loop_id for h in results.hits if "coast" in h.content} == {bill.id}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["run loop", "words"])
async def test_forgetting_what_was_moved_and_moved_back_leaves_no_word_of_it(
    tmp_path: Path, which: str
) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        await agent.undo_reroute(garden)
        assert {loop for loop, _ in await places(agent, SECRET)} == {garden}
        for each in (garden, bank):
            await agent.complete(each)
        await archived(agent.memory)
        assert traces(tmp_path, *SECRETS)
        if which == "run loop":
            await forget(agent, ForgetRequest(run_loop_ids=(garden,)))
        else:
            for query in ("Quixotic", "zugzwang-9913"):
                await forget(agent, ForgetRequest(query=query, exact=True))
        assert traces(tmp_path, *SECRETS) == []
