"""A move that is asked for again, after messages were moved on; and loops that were emptied."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.errors import ConflictError
from tests.support.agent.agents import sent
from tests.support.agent.moves import heard, whole
from tests.support.agent.moving import message_ids, opened, running

pytestmark = pytest.mark.anyio


async def test_the_first_move_again_after_the_message_was_moved_on_is_refused(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        first, second = await opened(agent, "Gardening"), await opened(agent, "Cooking")
        third = await opened(agent, "Reading")
        await sent(agent, "Which soil?", first)
        message = (await message_ids(agent, first))[-1]
        await agent.reroute(first, message_id=message, to=second)
        await agent.reroute(second, message_id=message, to=third)
        with pytest.raises(ConflictError, match=third):
            await agent.reroute(first, message_id=message, to=second)
        # Where it is now, it may be wished to: nothing is left to be done.
        again = await agent.reroute(first, message_id=message, to=third)
        assert again.to_run_loop_id == third
        assert heard(await whole(agent, third)) == ["Reading", "Which soil?"]


async def test_a_new_loop_is_refused_for_what_was_moved_to_another_one_before(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        first, second = await opened(agent, "Gardening"), await opened(agent, "Cooking")
        await sent(agent, "Which soil?", first)
        message = (await message_ids(agent, first))[-1]
        await agent.reroute(first, message_id=message, to=second)
        with pytest.raises(ConflictError, match=second):
            await agent.reroute(first, message_id=message, to=None)


async def test_a_new_loop_wished_for_twice_is_opened_once(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        first, other = await opened(agent, "Gardening"), await opened(agent, "Cooking")
        await sent(agent, "Which soil?", first)
        message = (await message_ids(agent, first))[-1]
        moved = await agent.reroute(first, message_id=message, to=None)
        again = await agent.reroute(first, message_id=message, to=None)
        assert again.to_run_loop_id == moved.to_run_loop_id
        with pytest.raises(ConflictError):
            await agent.reroute(first, message_id=message, to=other)
        back = await agent.reroute(moved.to_run_loop_id, message_id=message, to=other)
        assert back.to_run_loop_id == other
        with pytest.raises(ConflictError, match=other):
            await agent.reroute(first, message_id=message, to=None)


@pytest.mark.parametrize("words", ["Repair the bicycle", "修自行车"])
async def test_what_is_said_next_in_an_emptied_loop_is_what_it_is_about(
    tmp_path: Path, words: str
) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        emptied = await opened(agent, "By train")
        await agent.reroute(emptied, to=trip)
        assert (await whole(agent, emptied)).goal == "By train"
        await sent(agent, words, emptied)
        await sent(agent, "And the lamp", emptied)
        assert (await whole(agent, emptied)).goal == words
        [listed] = [
            s for s in await agent.memory.journal.run_loops.summaries(owner="me") if s.id == emptied
        ]
        assert listed.goal == words


async def test_where_all_was_moved_already_it_says_where_to_look(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        trip = await opened(agent, "A trip to Rome")
        emptied = await opened(agent, "By train")
        other = await opened(agent, "By ship")
        await agent.reroute(emptied, to=trip)
        with pytest.raises(ConflictError) as refused:
            await agent.reroute(emptied, to=other)
        assert "moved before" in (refused.value.advice or "")


@pytest.mark.parametrize("where", ["another", "new", "completed"])
async def test_a_wish_that_names_no_message_said_twice_moves_one(
    tmp_path: Path, where: str
) -> None:
    async with running(tmp_path) as agent:
        soil, trip = await opened(agent, "Which soil?"), await opened(agent, "去里斯本")
        await sent(agent, "And which hotel?", soil)
        if where == "completed":
            await agent.complete(trip)
        to = None if where == "new" else trip
        first = await agent.reroute(soil, to=to)
        again = await agent.reroute(soil, to=to)
        assert (again.message_ids, again.to_run_loop_id) == (
            first.message_ids,
            first.to_run_loop_id,
        )
        assert heard(await whole(agent, soil)) == ["Which soil?", None]
        assert heard(await whole(agent, again.to_run_loop_id))[-1] == "And which hotel?"
        # What is said there afterwards is another wish's; and so is another place.
        await sent(agent, "And the seeds?", soil)
        other = await agent.reroute(soil, to=to)
        assert other.message_ids != first.message_ids
        assert (await agent.reroute(soil, to=None if to else trip)).message_ids != other.message_ids
        assert heard(await whole(agent, soil)) == [None, None, None]


async def test_a_wish_that_names_no_message_is_a_new_one_once_the_first_was_undone(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as agent:
        soil, trip = await opened(agent, "Which soil?"), await opened(agent, "Lisbon")
        await sent(agent, "And which hotel?", soil)
        await agent.reroute(soil, to=trip)
        await agent.undo_reroute(soil)
        await agent.reroute(soil, to=trip)
        assert heard(await whole(agent, trip)) == ["Lisbon", None, "And which hotel?"]
        assert heard(await whole(agent, soil)) == ["Which soil?", None, None]


async def test_in_a_fork_a_move_of_the_first_loop_is_no_wish_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        soil, trip = await opened(agent, "Which soil?"), await opened(agent, "Lisbon")
        await sent(agent, "And which hotel?", soil)
        await agent.reroute(soil, to=trip)
        fork = await agent.fork(soil)
        await agent.reroute(fork.id, to=trip)
        assert heard(await whole(agent, trip)) == ["Lisbon", "And which hotel?", "Which soil?"]
