"""``kill -9`` at the commit of a move: all of it is there afterwards, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent.agents import running_agent, sent
from tests.support.agent.mortal_moves import WORDS, Moment, move_and_die
from tests.support.agent.moves import answers, heard, whole
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_move_is_there_whole_or_not_at_all(
    tmp_path: Path, moment: Moment, ended: bool
) -> None:
    move_and_die(tmp_path, moment=moment, ended=ended)
    async with running_agent(tmp_path, embedder=WordEmbedder(), auto_classify=False) as agent:
        loops = await agent.memory.journal.run_loops.summaries(owner="me")
        ids = {each.goal: each.id for each in loops}
        assert ids.keys() == {"A trip to Rome", "The bill"}
        trip = await whole(agent, ids["A trip to Rome"])
        bill = await whole(agent, ids["The bill"])
        assert bill.status == ("completed" if ended else "idle")
        moved = moment == "after"
        assert heard(trip) == ["A trip to Rome", *([WORDS] if moved else [])]
        assert heard(bill) == ["The bill", None if moved else WORDS]
        assert answers(trip)[-1] == f"You said: {WORDS if moved else 'A trip to Rome'}"
        # Memory follows, whatever it had archived before.
        await archived(agent.memory)
        results = await agent.memory.long_term.search(
            "train coast", owner="me", limit=20, fold=False
        )
        places = {hit.anchor.run_loop_id for hit in results.hits if "coast" in hit.content}
        assert places == {trip.id if moved else bill.id}
        await sent(agent, "And back?", trip.id)
        assert heard(await whole(agent, trip.id))[-1] == "And back?"
