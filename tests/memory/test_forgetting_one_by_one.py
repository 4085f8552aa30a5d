"""One thing after the other is forgotten: what is held and archived is what the journal says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.errors import RondoError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.fold import fold
from service.domain.history.own_part import closed_part
from service.domain.run_loops import RunLoopSummary
from service.memory.memory import Memory
from tests.memory.test_older_data_folders import PACKED
from tests.support.memory.recorded_folder import OWNERS, unpack
from tests.support.memory.secrets import archived, working_memory

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def run_loops(memory: Memory, owner: str) -> list[RunLoopSummary]:
    return await memory.journal.run_loops.summaries(owner=owner, limit=100)


def drawn(draw: random.Random, run_loop: RunLoopSummary) -> ForgetRequest:
    wishes = {"with_answers": draw.random() < 0.5, "with_all_that_saw": draw.random() < 0.2}
    if draw.random() < 0.5:
        return ForgetRequest(run_loop_ids=(run_loop.id,), **wishes)
    iteration = draw.randrange(max(run_loop.iteration_count, 1))
    return ForgetRequest(anchors=(AnchorRef(run_loop.id, iteration, 0),), **wishes)


async def forget_if_it_can_be(memory: Memory, request: ForgetRequest, owner: str) -> bool:
    async def nobody(run_loop_id: str) -> None:
        raise AssertionError("nothing was to be stopped")

    try:
        preview = await memory.forgetting.preview(request, owner=owner)
    except RondoError:
        return False  # such as an iteration that is forgotten already
    if preview.confirm is None:
        return False
    await memory.forgetting.forget(request, preview.confirm, owner=owner, stop=nobody)
    await memory.forgetting.finish()
    return True


async def check(memory: Memory) -> None:
    await archived(memory)
    for held in memory.journal.states():
        assert held == fold(memory.journal.read_blocking(run_loop_id=held.id))
    for owner in OWNERS:
        for each in await run_loops(memory, owner):
            done = closed_part(await memory.journal.replay(each.id))
            archived_loop = await memory.long_term.run_loop(each.id, owner=owner)
            if archived_loop is not None and len(archived_loop.iterations) == len(done.iterations):
                assert archived_loop.iterations == done.iterations


@pytest.mark.parametrize("seed", range(3))
async def test_states_and_long_term_memory_are_in_step_with_the_journal(
    tmp_path: Path, seed: int
) -> None:
    unpack(PACKED, tmp_path)
    draw, forgotten = random.Random(seed), 0
    async with working_memory(tmp_path) as memory:
        for _ in range(12):
            owner = draw.choice(OWNERS)
            if there := await run_loops(memory, owner):
                request = drawn(draw, draw.choice(there))
                forgotten += await forget_if_it_can_be(memory, request, owner)
                await check(memory)
    assert forgotten > 3
