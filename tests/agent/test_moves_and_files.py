"""Moved messages in exports and imports, beside summaries, and in loops that came from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError
from service.domain.history.events import CompactionFinished, RunLoopImported
from service.domain.history.imported import standing
from service.domain.run_loops import RunLoop
from service.memory.journal.imported_loops import Import
from service.memory.ledger.segmenter import segment
from tests.support.agent.agents import running_agent, sent
from tests.support.agent.moves import heard, whole
from tests.support.agent.moving import message_ids, opened

pytestmark = pytest.mark.anyio


async def test_an_emptied_iteration_survives_its_json_and_gives_no_segments(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        trip, bill = await opened(agent, "A trip to Rome"), await opened(agent, "The bill")
        await sent(agent, "By train", bill)
        await agent.reroute(bill, to=trip)
        loop = await agent.run_loop(bill)
        assert RunLoop.model_validate_json(loop.model_dump_json()).iterations[1].moved_to == trip
        assert "moved_to" not in loop.iterations[0].model_dump(mode="json")
        assert {piece.anchor.iteration_index for piece in segment(loop)} == {0}


async def test_a_file_from_before_the_move_brings_nothing_back(tmp_path: Path) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        bill = await opened(agent, "The bill")
        await sent(agent, "It is due on Monday", bill)
        first = (await message_ids(agent, bill))[0]
        await agent.complete(bill)
        in_file = await agent.run_loop(bill)
        await agent.reroute(bill, message_id=first)
        current = await agent.run_loop(bill)
        assert current.goal == "It is due on Monday"
        for labels_may_change in (False, True):
            relation = standing(current, in_file, labels_may_change=labels_may_change)
            assert relation == "unchanged"


async def test_words_that_were_summarised_with_others_are_not_moved(tmp_path: Path) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        bill = await opened(agent, "The bill")
        for words in ("It is due on Monday", "By train", "Thanks"):
            await sent(agent, words, bill)
        summary = CompactionFinished(
            messages=4,
            replacement=(Message.user("The bill is due."), Message.assistant("Yes.")),
            method="model",
            tokens_before=99,
            tokens_after=9,
        )
        await agent.memory.journal.append(bill, summary)
        ids = await message_ids(agent, bill)
        with pytest.raises(ConflictError, match="summarised") as refused:
            await agent.reroute(bill, message_id=ids[1])
        assert "fork" in refused.value.advice
        moved = await agent.reroute(bill, message_id=ids[2])
        source, target = await whole(agent, bill), await whole(agent, moved.to_run_loop_id)
        assert heard(source) == ["The bill", "It is due on Monday", None, "Thanks"]
        assert [m.text for m in source.history if m.role == "user"] == [
            "The bill is due.",
            "Thanks",
        ]
        assert heard(target) == ["By train"]
        # What was summarised alone can go, with its summary.
        await sent(agent, "And now?", bill)
        assert heard(await whole(agent, bill))[-1] == "And now?"


async def test_what_came_whole_from_a_file_stays_as_it_is(tmp_path: Path) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        trip = await opened(agent, "A trip to Rome")
        await agent.complete(trip)
        loop = (await agent.run_loop(trip)).model_copy(update={"id": "imported"})
        body = RunLoopImported(run_loop=loop)
        await agent.memory.append_imports(
            [Import("imported", body, body.model_dump_json())], owner="me"
        )
        with pytest.raises(ConflictError, match="no message that could be moved"):
            await agent.reroute("imported")
        fork = await agent.fork("imported")
        await sent(agent, "By train", fork.id)
        moved = await agent.reroute(fork.id)
        assert heard(await whole(agent, fork.id)) == ["A trip to Rome", None]
        assert heard(await whole(agent, moved.to_run_loop_id)) == ["By train"]
