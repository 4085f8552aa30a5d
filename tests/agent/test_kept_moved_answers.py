"""What is kept of a moved answer: over restarts and forks, by forgetting, in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import MessageMoved
from tests.support.agent.agents import answer_of, sent
from tests.support.agent.heist import forget
from tests.support.agent.moved_answers import (
    SECRET,
    house,
    opened,
    said,
)
from tests.support.agent.moves import whole
from tests.support.agent.waiting import rested
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived, traces

pytestmark = pytest.mark.anyio


async def test_a_fork_and_a_restart_know_what_an_answer_followed_upon(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        table = await opened(agent, "book a table")
        message = await said(agent, "To Rome", table)
        fork = await agent.fork(table)
        await agent.reroute(table, message_id=message, to=None)
        asked = await agent.replay(table)
        await agent.reroute(fork.id, message_id=message, to=None)
        await whole(agent, fork.id)
    async with house(tmp_path) as agent:
        assert await agent.replay(table) == asked
        assert answer_of(await sent(agent, "Ada", table)) == "Done: Ada"
        moves = [
            e.body
            for e in await agent.memory.journal.read(run_loop_id=table)
            if isinstance(e.body, MessageMoved)
        ]
        assert [each.reopens for each in moves] == [True]
        await whole(agent, table)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["new", "waits", "moved on", "back"])
async def test_a_moved_answer_is_forgotten_in_every_byte_where_it_is_now(
    tmp_path: Path, where: str
) -> None:
    async with house(tmp_path, embedder=WordEmbedder()) as agent:
        table = await opened(agent, "book a table")
        to = await opened(agent, "a table, too") if where in ("waits", "moved on") else None
        message = await said(agent, f"{SECRET} look there", table)
        await rested(agent, table)
        await archived(agent.memory)
        moved = await agent.reroute(table, message_id=message, to=to)
        place = moved.to_run_loop_id
        await rested(agent, place)
        if where == "moved on":
            place = (await agent.reroute(place, message_id=message, to=None)).to_run_loop_id
        if where == "back":
            place = (await agent.undo_reroute(table, message_id=message)).to_run_loop_id
        await rested(agent, place)
        for state in agent.memory.short_term.states():
            await agent.cancel(state.id)
        await archived(agent.memory)
        assert traces(tmp_path, SECRET)
        if where in ("new", "moved on"):
            await forget(agent, ForgetRequest(run_loop_ids=(place,)))
        else:
            await forget(agent, ForgetRequest(query=SECRET, exact=True))
        assert traces(tmp_path, SECRET) == []
        now = await whole(agent, table)
        if where != "back":
            assert now.iterations[0].user_message == "book a table"


@pytest.mark.slow
async def test_with_what_had_been_asked_all_goes_that_was_taken_back(tmp_path: Path) -> None:
    async with house(tmp_path, embedder=WordEmbedder()) as agent:
        table = await opened(agent, f"book a table for {SECRET}")
        message = await said(agent, "Xylobert look there", table)
        await agent.reroute(table, message_id=message, to=None)
        await sent(agent, "Ada", table)
        await agent.complete(table)
        await archived(agent.memory)
        results = await agent.memory.long_term.search("table", owner="me")
        anchor = next(hit.anchor for hit in results.hits if SECRET in hit.content)
        before = len(traces(tmp_path, "It says the map."))
        assert before
        await forget(agent, ForgetRequest(anchors=(anchor.ref,)))
        assert traces(tmp_path, SECRET, "It says the map.") == []
        await whole(agent, table)


async def test_memory_finds_a_moved_answer_only_where_it_is(tmp_path: Path) -> None:
    async with house(tmp_path, embedder=WordEmbedder()) as agent:
        table = await opened(agent, "book a table")
        message = await said(agent, SECRET, table)
        await rested(agent, table)
        await archived(agent.memory)
        moved = await agent.reroute(table, message_id=message, to=None)
        await rested(agent, moved.to_run_loop_id)
        await archived(agent.memory)
        results = await agent.memory.long_term.search(SECRET, owner="me", limit=20, fold=False)
        places = {hit.anchor.run_loop_id for hit in results.hits if SECRET in hit.content}
        assert places == {moved.to_run_loop_id}
