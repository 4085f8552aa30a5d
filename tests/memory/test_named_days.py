"""Searching for what was said on a day that the question names."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from service.memory.protocol import SearchFilters
from service.memory.search.candidates import SearchScope
from service.memory.search.time.calendar_spans import TimeRange
from service.memory.stores import long_term_memory
from tests.support.memory.remembering import NOON, WordEmbedder, remembering, run_loop

pytestmark = pytest.mark.anyio

ASKED = "What did we hear of the boat on 2 March 2024?"
THAT_DAY = NOON.replace(year=2024, month=3, day=2)


@pytest.mark.slow
@pytest.mark.parametrize("embedder", [None, WordEmbedder()])
async def test_what_was_said_on_it_is_found_among_much_that_is_nearer(
    tmp_path: Path, embedder: WordEmbedder | None
) -> None:
    words = "the boat needs paint"
    often = [
        run_loop(f"r{index}", (f"we hear of the boat {index}", "boat"), at=NOON)
        for index in range(60)
    ]
    async with remembering(tmp_path, embedder, *often) as memory:
        await memory.archive(run_loop("then", (words, "tea"), at=THAT_DAY))
        await memory.embed_pending()
        dated = await memory.search(ASKED, owner="me", limit=10)
        assert "then" in {hit.anchor.run_loop_id for hit in dated.hits}
        assert len(dated.hits) == 10  # all else is still found
        undated = await memory.search("What did we hear of the boat?", owner="me", limit=10)
        assert "then" not in {hit.anchor.run_loop_id for hit in undated.hits}


async def test_a_filter_counts_for_it_too(tmp_path: Path) -> None:
    memory = long_term_memory(tmp_path, WordEmbedder(), clock=lambda: NOON)
    await memory.start()
    await memory.archive(run_loop("then", ("the boat is red", "yes"), at=THAT_DAY))
    await memory.archive(run_loop("later", ("the boat is green", "yes"), at=NOON))
    await memory.embed_pending()
    for since, expected in ((NOON, {"later"}), (THAT_DAY, {"then", "later"})):
        filters = SearchFilters(since=since)
        result = await memory.search(ASKED, owner="me", filters=filters)
        assert {hit.anchor.run_loop_id for hit in result.hits} == expected
    await memory.aclose()


def test_stretches_of_time_share_the_candidates_and_keep_to_the_filters() -> None:
    day = timedelta(days=1)
    times = [TimeRange(NOON + n * day, NOON + (n + 2) * day) for n in (-9, 0, 5)]
    filters = SearchFilters(since=NOON + day, until=NOON + 9 * day, run_loop_id="r")
    within = SearchScope("me", filters, 10, times).within_times
    assert [(each.filters.since, each.filters.until) for each in within] == [
        (NOON + day, NOON + 2 * day),
        (NOON + 5 * day, NOON + 7 * day),
    ]
    assert {each.filters.run_loop_id for each in within} == {"r"}
    assert {each.count for each in within} == {4}
