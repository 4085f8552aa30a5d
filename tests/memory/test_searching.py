"""Searching: what passes, what is preferred, what is folded, and what goes on beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.anchors import AnchorRef
from service.domain.errors import ConflictError, InvalidInputError, RerankingError
from service.domain.run_loops import Iteration
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.long_term import LongTermMemory
from service.memory.protocol import SearchFilters
from service.memory.search.searching import Search, Searcher
from service.memory.stores import long_term_memory
from tests.support.memory.remembering import (
    NOON,
    WordEmbedder,
    anchors,
    remembering,
    run_loop,
    tool_turn,
)

pytestmark = pytest.mark.anyio

EMBEDDERS = [None, WordEmbedder()]


def sent_with(loop_id: str, words: str, **metadata: Any) -> Iteration:
    return Iteration(user_message=f"{words} {loop_id}", timestamp=NOON, metadata=metadata)


async def loops_of_hits(memory: LongTermMemory, query: str, **filters: Any) -> set[str]:
    result = await memory.search(query, owner="me", limit=100, filters=SearchFilters(**filters))
    return {hit.anchor.run_loop_id for hit in result.hits}


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_metadata_are_compared_as_values_and_all_of_them_count(
    tmp_path: Path, embedder: WordEmbedder | None
) -> None:
    sent: dict[str, dict[str, Any]] = {
        "text": {"project": "lisbon"},
        "both": {"project": "lisbon", "day": 1},
        "one": {"day": 1.0},
        "true": {"day": True},
        "written": {"day": "1"},
        "none": {"day": None},
        "list": {"day": [1, {"b": 2, "a": "x"}]},
        "quoted": {'a "name"': "里斯本", "100%": False},
        "without": {},
    }
    loops = [run_loop(name, sent_with(name, "lamp", **each)) for name, each in sent.items()]
    async with remembering(tmp_path, embedder, *loops) as memory:
        for metadata, expected in (
            ({"project": "lisbon"}, {"text", "both"}),
            ({"project": "lisbon", "day": 1}, {"both"}),
            ({"day": 1}, {"both", "one"}),
            ({"day": True}, {"true"}),
            ({"day": "1"}, {"written"}),
            ({"day": None}, {"none"}),
            ({"day": [1, {"a": "x", "b": 2}]}, {"list"}),
            ({"day": [1]}, set()),
            ({'a "name"': "里斯本"}, {"quoted"}),
            ({"100%": False}, {"quoted"}),
            ({"lisbon": "project"}, set()),
        ):
            assert await loops_of_hits(memory, "lamp", metadata=metadata) == expected, metadata


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_all_but_one_run_loop_can_be_asked_for(
    tmp_path: Path, embedder: WordEmbedder | None
) -> None:
    loops = [run_loop(name, ("lamp oil", f"bought by {name}")) for name in ("a", "b", "c")]
    async with remembering(tmp_path, embedder, *loops) as memory:
        assert await loops_of_hits(memory, "lamp", without_run_loop_id="b") == {"a", "c"}
        assert (
            await loops_of_hits(memory, "lamp", without_run_loop_id="b", run_loop_id="b") == set()
        )


@pytest.mark.slow
async def test_each_way_of_filtering_finds_the_same(tmp_path: Path) -> None:
    words = ["lamp", "oil", "boat", "rope", "tea", "cup", "door"]
    loops = [
        run_loop(
            f"r{index}",
            (f"{words[index % 7]} {words[index % 5]} {index}", f"{words[index % 3]} is {index}"),
            at=NOON + timedelta(days=index),
        )
        for index in range(120)
    ]
    filters = SearchFilters(types=frozenset({"response"}), since=NOON + timedelta(days=60))
    async with remembering(tmp_path, WordEmbedder(), *loops) as memory:
        result = await memory.search("oil is 91", owner="me", limit=5, filters=filters)
        assert result.mode == "hybrid"
        by_comparing_the_few_that_pass = anchors(result)
        ledger = SqliteLedger(tmp_path / "memory.sqlite3")
        ledger.open()

        async def hits(**bounds: Any) -> list[str]:
            searcher = Searcher(ledger, memory.index.dense, waiting=lambda owner: 0, **bounds)
            asked = Search("oil is 91", "me", limit=5, filters=filters)
            response = await anyio.to_thread.run_sync(searcher.search, asked)
            searcher.close()
            assert response.mode == "hybrid"
            return anchors(response)

        by_sifting_what_the_index_offers = await hits(filtered_exactly=10)
        by_comparing_all_that_pass = await hits(filtered_exactly=10, sifted_at_most=1)
        ledger.close()
    assert len(by_comparing_the_few_that_pass) == 5
    assert by_sifting_what_the_index_offers == by_comparing_the_few_that_pass
    assert by_comparing_all_that_pass == by_comparing_the_few_that_pass


async def test_neighbours_that_do_not_pass_the_filters_are_no_hits(tmp_path: Path) -> None:
    loops = [run_loop(f"r{i}", (f"lamp {i}?", f"oil {i}"), (f"rope {i}", "tea")) for i in range(30)]
    async with remembering(tmp_path, WordEmbedder(), *loops) as memory:
        narrowed = SearchFilters(types=frozenset({"user_message"}))
        result = await memory.search("lamp", owner="me", limit=100, filters=narrowed)
        assert {hit.anchor.segment_type for hit in result.hits} == {"user_message"}


async def test_what_has_no_vector_yet_is_not_buried(tmp_path: Path) -> None:
    old = [run_loop(f"old{index}", (f"boats and tea {index}", "fine")) for index in range(30)]
    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder, *old) as memory:
        embedder.fail_after = 0
        await memory.archive(run_loop("new", ("the lighthouse of Alexandria", "tall")))
        assert (await memory.embed_pending()).problem is not None
        result = await memory.search("lighthouse", owner="me")
        assert anchors(result)[0] == "new:0.0"
        assert result.mode == "hybrid"
        assert "2 segments have no vector yet" in (result.notice or "")
        narrowed = await memory.search(
            "lighthouse", owner="me", filters=SearchFilters(run_loop_id="new")
        )
        assert anchors(narrowed)[0] == "new:0.0"


@pytest.mark.slow
@pytest.mark.parametrize("embedder", EMBEDDERS)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Which boat did we see last Tuesday?", "tuesday"),
        ("Which boat did we see in April 2026?", "april"),
        ("去年的 boat", "year"),
        ("Our most recent boat", "today"),
    ],
)
async def test_a_time_that_a_question_names_is_preferred(
    tmp_path: Path, embedder: WordEmbedder | None, query: str, expected: str
) -> None:
    now = datetime(2026, 5, 20, 9, 30, tzinfo=NOON.tzinfo)
    days = {
        "year": datetime(2025, 8, 1, tzinfo=NOON.tzinfo),
        "april": datetime(2026, 4, 10, tzinfo=NOON.tzinfo),
        "tuesday": datetime(2026, 5, 19, 15, tzinfo=NOON.tzinfo),
        "today": now - timedelta(minutes=5),
    }
    memory = long_term_memory(tmp_path, embedder, clock=lambda: now)
    await memory.start()
    for name, at in days.items():
        await memory.archive(run_loop(name, (f"We saw a boat, {name[:2]}.", ""), at=at))
    await memory.embed_pending()
    result = await memory.search(query, owner="me", explain=True)
    await memory.aclose()
    assert result.hits[0].anchor.run_loop_id == expected
    assert (result.hits[0].scores or {})["time"] > 0
    assert len(result.hits) == 4  # none is left out for its time


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_what_is_said_again_is_one_hit_that_names_the_others(
    tmp_path: Path, embedder: WordEmbedder | None
) -> None:
    loops = [
        run_loop("a", ("My flight to Lisbon is on 12 May.", "")),
        run_loop("b", ("my flight to Lisbon is on 12 May", "")),
        run_loop("c", ("My flight to Lisbon is on 13 May.", "")),
    ]
    async with remembering(tmp_path, embedder, *loops) as memory:
        result = await memory.search("flight to Lisbon", owner="me")
        (first,) = [hit for hit in result.hits if hit.duplicates]
        assert len(result.hits) == 2
        assert {first.anchor.run_loop_id, first.duplicates[0].run_loop_id} == {"a", "b"}
        unfolded = await memory.search("flight to Lisbon", owner="me", fold=False)
        assert {*anchors(unfolded)} == {"a:0.0", "b:0.0", "c:0.0"}
        assert not any(hit.duplicates for hit in unfolded.hits)


async def test_many_repetitions_do_not_hide_what_is_said_once(tmp_path: Path) -> None:
    loops = [run_loop(f"r{index}", ("Please water the tall fern.", "")) for index in range(70)]
    once = run_loop("once", ("The fern in the hall needs no light at all, said Ann.", ""))
    async with remembering(tmp_path, WordEmbedder(), once, *loops) as memory:
        result = await memory.search("water the tall fern", owner="me", limit=5)
        assert [hit.anchor.run_loop_id == "once" for hit in result.hits] == [False, True]
        assert len(result.hits[0].duplicates) == 69


async def test_a_call_names_its_result_and_a_result_its_call(tmp_path: Path) -> None:
    loop = run_loop("shop", tool_turn("buy?", "price_of", '{"thing": "lantern"}', "4 €", "done"))
    async with remembering(tmp_path, None, loop) as memory:
        result = await memory.search("lantern", owner="me")
        partners = {hit.anchor.text: [each.text for each in hit.partners] for hit in result.hits}
        assert partners["shop:0.1"] == ["shop:0.2"]
        assert partners.get("shop:0.2", ["shop:0.1"]) == ["shop:0.1"]


@pytest.mark.slow
@pytest.mark.parametrize("embedder", EMBEDDERS)
@pytest.mark.parametrize(
    "query", ["?!…", "。。。", "\0", "\ud83d", "\u200b", "a" * 1_000_000, "灯 " * 500_000]
)
async def test_an_empty_memory_can_be_asked_anything(
    tmp_path: Path, embedder: WordEmbedder | None, query: str
) -> None:
    async with remembering(tmp_path, embedder) as memory:
        result = await memory.search(query, owner="me", explain=True)
        assert result.hits == ()


@pytest.mark.slow
async def test_searches_go_on_at_once_and_while_much_is_archived(tmp_path: Path) -> None:
    async with remembering(
        tmp_path, WordEmbedder(), run_loop("first", ("the red lamp", "is on"))
    ) as memory:
        first_anchors: list[str] = []

        async def ask() -> None:
            for _ in range(15):
                result = await memory.search("red lamp", owner="me", limit=3)
                first_anchors.append(anchors(result)[0])

        async def write() -> None:
            for index in range(60):
                await memory.archive(run_loop(f"r{index}", (f"boat {index}", f"rope {index}")))
            await memory.embed_pending()

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            for _ in range(4):
                group.start_soon(ask)
        assert first_anchors == ["first:0.0"] * 60


async def test_what_is_written_to_the_letter_is_found_first(tmp_path: Path) -> None:
    written = [
        "Write to ann.lee@example.com, please.",
        "Write to ann at example dot com, lee.",
        "See https://example.com/a/report_v2.pdf for it.",
        "Call 0171-555 0123 after five.",
        "Call 555, 0171 or 0123.",
        "我们5月7日出发",
        "7月5日出发",
        "新买的iPhone15手机很贵",
        "iPhone手机很贵",
    ]
    loops = [run_loop(f"r{place}", (text, "")) for place, text in enumerate(written)]
    async with remembering(tmp_path, None, *loops) as memory:
        for query, place in (
            ("ann.lee@example.com", 0),
            ("report_v2.pdf", 2),
            ("https://example.com/a/report_v2.pdf", 2),
            ("(0171) 555-0123", 3),
            ("5月7日", 5),
            ("５月７日", 5),
            ("iPhone15", 7),
            ("iphone 15", 7),
        ):
            assert anchors(await memory.search(query, owner="me"))[0] == f"r{place}:0.0", query


class Reranker:
    """Prefers the longest text; fails when told to."""

    def __init__(self, *, fails: bool = False, most: int = 2) -> None:
        self.fails = fails
        self.most = most
        self.given: list[int] = []

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.given.append(len(texts))
        if self.fails:
            raise RerankingError("it has no time", advice="Ask later.")
        return [len(text) / 1000 for text in texts]


async def _reranking(folder: Path, reranker: Reranker | None) -> LongTermMemory:
    memory = long_term_memory(folder, WordEmbedder(), reranker=reranker)
    await memory.start()
    await memory.archive(run_loop("a", ("lamp lamp lamp", "")))
    await memory.archive(run_loop("b", ("a lamp stands in the very last corner of the hall", "")))
    await memory.archive(run_loop("c", ("tea", "")))
    await memory.embed_pending()
    return memory


async def test_a_reranker_has_the_last_word_only_where_it_is_asked(tmp_path: Path) -> None:
    reranker = Reranker()
    memory = await _reranking(tmp_path, reranker)
    plain = await memory.search("lamp", owner="me")
    assert anchors(plain) == ["a:0.0", "b:0.0", "c:0.0"]
    assert reranker.given == []
    again = await memory.search("lamp", owner="me", rerank=True, explain=True)
    assert anchors(again) == ["b:0.0", "a:0.0", "c:0.0"]
    assert reranker.given == [2]
    assert again.notice is None
    assert "rerank" in (again.hits[0].scores or {})
    relevances = [hit.relevance for hit in again.hits]
    assert relevances == sorted(relevances, reverse=True)
    await memory.aclose()


@pytest.mark.parametrize("reranker", [None, Reranker(fails=True)])
async def test_without_its_reranker_a_search_gives_the_first_order_and_says_so(
    tmp_path: Path, reranker: Reranker | None
) -> None:
    memory = await _reranking(tmp_path, reranker)
    result = await memory.search("lamp", owner="me", rerank=True)
    assert anchors(result) == ["a:0.0", "b:0.0", "c:0.0"]
    assert (result.notice or "").startswith("Not reranked: ")
    await memory.aclose()


async def test_a_hit_that_is_forgotten_meanwhile_is_left_out(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), run_loop("a", ("lamp", "oil"))) as memory:
        assert AnchorRef("a", 0, 0) in {
            hit.anchor.ref for hit in (await memory.search("lamp", owner="me")).hits
        }
        await memory.archive(run_loop("a", ("boat", "oil")))
        result = await memory.search("lamp", owner="me")
        assert all(hit.content != "lamp" for hit in result.hits)


async def test_a_search_after_the_end_is_told_in_words(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), run_loop("a", ("lamp", "oil"))) as memory:
        pass
    with pytest.raises(ConflictError, match="closed"):
        await memory.search("lamp", owner="me")


async def test_a_word_that_was_looked_for_before_it_was_said_is_found_afterwards(
    tmp_path: Path,
) -> None:
    others = [run_loop(f"r{number}", ("Hello.", "Hi.")) for number in range(40)]
    async with remembering(tmp_path, None, *others) as memory:
        assert not (await memory.search("qx7731", owner="me")).hits
        await memory.archive(run_loop("lock", ("The code of my lock is qx7731.", "Noted.")))
        response = await memory.search("qx7731", owner="me")
        assert response.hits[0].anchor.run_loop_id == "lock"


@pytest.mark.parametrize("value", [10**20, -(10**30), 10**400])
async def test_numbers_larger_than_any_column_are_looked_for_all_the_same(
    tmp_path: Path, value: int
) -> None:
    async with remembering(tmp_path, None, run_loop("tea", ("Green tea.", "Fine."))) as memory:
        filters = SearchFilters(metadata={"n": value})
        assert not (await memory.search("tea", owner="me", filters=filters)).hits


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\udfff"]}, {1, 2}])
async def test_filters_that_no_message_could_have_are_refused_in_words(
    tmp_path: Path, value: object
) -> None:
    async with remembering(tmp_path, None, run_loop("tea", ("Green tea.", "Fine."))) as memory:
        filters = SearchFilters(metadata={"n": value})
        with pytest.raises(InvalidInputError, match="filters"):
            await memory.search("tea", owner="me", filters=filters)
