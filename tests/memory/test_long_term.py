"""Long-term memory: what is found, what stands around it, and what survives."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import anyio
import numpy as np
import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import EmbeddingError, InvalidInputError, NotFoundError
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.protocol import SearchFilters, Vectors
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

GARDEN = run_loop(
    "garden",
    ("When do I plant tomatoes?", "After the last frost, in the middle of May."),
    ("And how deep?", "Deep enough to bury two thirds of the stem."),
)
TRIP = run_loop(
    "trip",
    ("我们去北京旅行住哪里？", "住在故宫附近的酒店比较方便。"),
    ("坐什么车去？", "坐高铁，四个半小时。"),
    at=NOON + timedelta(days=1),
)


async def test_words_find_english_and_chinese_without_an_embedder(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, GARDEN, TRIP) as memory:
        result = await memory.search("planting a tomato", owner="me")
        assert anchors(result)[0] == "garden:0.0"
        assert anchors(await memory.search("故宫", owner="me"))[0] == "trip:0.1"
        assert anchors(await memory.search("xylophone", owner="me")) == []


async def test_a_search_without_an_embedder_says_so(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, GARDEN) as memory:
        result = await memory.search("tomatoes", owner="me")
        assert result.mode == "lexical"
        assert result.notice == "Searched by words only: no embedder is configured."


async def test_a_search_before_the_embedder_is_loaded_says_so(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, GARDEN):
        pass
    memory = long_term_memory(tmp_path, WordEmbedder())
    await memory.start()
    result = await memory.search("tomatoes", owner="me")
    assert (result.mode, anchors(result)[0]) == ("lexical", "garden:0.0")
    assert "still being loaded" in (result.notice or "")
    assert await memory.embed_queries(["x"]) is None
    await memory.aclose()


async def test_a_failing_embedder_leaves_search_by_words_with_the_reason(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder, GARDEN) as memory:
        embedder.fail_queries = True
        result = await memory.search("tomatoes", owner="me")
        assert (result.mode, anchors(result)[0]) == ("lexical", "garden:0.0")
        assert "the model has left" in (result.notice or "")
        assert await memory.embed_queries(["x"]) is None


async def test_a_hybrid_search_explains_its_scores(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), GARDEN, TRIP) as memory:
        result = await memory.search("tomatoes", owner="me", explain=True)
        assert (result.mode, result.notice) == ("hybrid", None)
        assert anchors(result)[0] == "garden:0.0"
        assert {"bm25", "lexical", "cosine", "meaning", "words"} <= set(result.hits[0].scores or {})
        relevances = [hit.relevance for hit in result.hits]
        assert relevances == sorted(relevances, reverse=True)
        assert all(0 <= relevance <= 1 for relevance in relevances)
        plain = await memory.search("tomatoes", owner="me")
        assert all(hit.scores is None for hit in plain.hits)


@pytest.mark.parametrize("embedder", [None, WordEmbedder()])
async def test_filters_and_owners_are_exact(tmp_path: Path, embedder: WordEmbedder | None) -> None:
    shed = run_loop("shed", tool_turn("tomatoes?", "look", "{}", "two tomatoes", "two"))
    hers = run_loop("hers", ("tomatoes", "her own tomatoes"), owner="ann")
    async with remembering(tmp_path, embedder, GARDEN, TRIP, shed, hers) as memory:

        async def anchors_of_hits(owner: str = "me", **filters: object) -> set[str]:
            narrowed = SearchFilters(**filters)  # type: ignore[arg-type]
            result = await memory.search("tomatoes", owner=owner, limit=50, filters=narrowed)
            return {hit.anchor.text for hit in result.hits}

        assert await anchors_of_hits(owner="ann") == {"hers:0.0", "hers:0.1"}
        assert await anchors_of_hits(owner="nobody") == set()
        assert await anchors_of_hits(types=frozenset({"tool_result"})) == {"shed:0.2"}
        assert await anchors_of_hits(types=frozenset()) == set()
        assert {text.split(":")[0] for text in await anchors_of_hits(run_loop_id="garden")} == {
            "garden"
        }
        assert await anchors_of_hits(run_loop_id="hers") == set()
        assert "garden:0.0" in await anchors_of_hits(
            since=NOON, until=NOON + timedelta(microseconds=1)
        )
        assert not await anchors_of_hits(until=NOON)
        assert not any(
            "garden" in text for text in await anchors_of_hits(since=NOON + timedelta(hours=1))
        )


@pytest.mark.parametrize("query", ["", "  \n　"])
async def test_an_empty_query_is_refused_in_words(tmp_path: Path, query: str) -> None:
    async with remembering(tmp_path, None) as memory:
        with pytest.raises(InvalidInputError, match="empty"):
            await memory.search(query, owner="me")
        with pytest.raises(InvalidInputError, match="limit"):
            await memory.search("x", owner="me", limit=0)
        with pytest.raises(InvalidInputError, match="max_tokens"):
            await memory.search("x", owner="me", max_tokens=0)


@pytest.mark.slow
@pytest.mark.parametrize("query", ['"', "NEAR(", "\0", "\ud83d", "?!", "tomatoes " * 12_000])
async def test_any_query_can_be_asked(tmp_path: Path, query: str) -> None:
    async with remembering(tmp_path, WordEmbedder(), GARDEN) as memory:
        result = await memory.search(query, owner="me", limit=1)
        assert len(result.hits) == 1


async def test_hits_stay_within_the_tokens_and_whole(tmp_path: Path) -> None:
    loops = [run_loop(f"r{index}", ("apples " * (10 + index), "")) for index in range(20)]
    async with remembering(tmp_path, None, *loops) as memory:
        bounded = await memory.search("apples", owner="me", limit=20, max_tokens=100)
        assert 1 < len(bounded.hits) < 20
        assert sum(estimate_tokens(hit.content) for hit in bounded.hits) <= 100
        assert all(hit.content.startswith("apples") for hit in bounded.hits)
        assert len((await memory.search("apples", owner="me", max_tokens=1)).hits) == 1
        assert len((await memory.search("apples", owner="me", limit=3)).hits) == 3


async def test_expanding_shows_what_stood_around(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, GARDEN, TRIP) as memory:
        context = await memory.expand(AnchorRef("garden", 1, 0), owner="me", before=2, after=5)
        assert context.run_loop.goal == "When do I plant tomatoes?"
        assert context.run_loop.iteration_count == 2
        assert context.focus.content == "And how deep?"
        assert [piece.anchor.text for piece in context.before] == ["garden:0.0", "garden:0.1"]
        assert [piece.anchor.text for piece in context.after] == ["garden:1.1"]
        alone = await memory.expand(AnchorRef("garden", 1, 0), owner="me", before=0, after=0)
        assert (alone.before, alone.after) == ((), ())


async def test_expanding_drops_the_farthest_first(tmp_path: Path) -> None:
    loop = run_loop("r", *[(f"question {index} ....", "and its answer ..") for index in range(5)])
    async with remembering(tmp_path, None, loop) as memory:
        context = await memory.expand(
            AnchorRef("r", 2, 0), owner="me", before=9, after=9, max_tokens=20
        )
        assert [piece.anchor.text for piece in context.before] == ["r:1.1"]
        assert [piece.anchor.text for piece in context.after] == ["r:2.1", "r:3.0"]
        only = await memory.expand(AnchorRef("r", 2, 0), owner="me", max_tokens=1)
        assert (only.before, only.after) == ((), ())


@pytest.mark.parametrize(
    ("ref", "owner"),
    [
        (AnchorRef("garden", 9, 0), "me"),
        (AnchorRef("garden", 0, 9), "me"),
        (AnchorRef("nowhere", 0, 0), "me"),
        (AnchorRef("garden", 0, 0), "ann"),
    ],
)
async def test_an_unknown_anchor_is_told_in_words(
    tmp_path: Path, ref: AnchorRef, owner: str
) -> None:
    async with remembering(tmp_path, None, GARDEN) as memory:
        with pytest.raises(NotFoundError, match=str(ref)) as caught:
            await memory.expand(ref, owner=owner)
        assert "memory search" in caught.value.advice


async def test_a_run_loop_comes_back_whole_for_its_owner_only(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, GARDEN) as memory:
        assert await memory.run_loop("garden", owner="me") == GARDEN
        assert await memory.run_loop("garden", owner="ann") is None
        assert await memory.run_loop("nowhere", owner="me") is None


async def test_embedding_goes_on_where_a_crash_broke_it_off(tmp_path: Path) -> None:
    loops = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(30)]
    async with remembering(tmp_path, WordEmbedder(fail_after=41), *loops) as memory:
        broken = await memory.stats()
        assert (broken.embedded, broken.pending) == (40, 20)
        assert "the model has left" in (broken.problem or "")
        result = await memory.search("question 29", owner="me")
        assert result.hits[0].anchor.run_loop_id == "r29", "it has no vector, but its words"
        assert "20 segments" in (result.notice or "")

    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder) as memory:
        assert len(embedder.passages) == 20, "what was embedded is not embedded again"
        whole = await memory.stats()
        assert (whole.segments, whole.embedded, whole.pending) == (60, 60, 0)
        assert whole.problem is None
        assert (await memory.search("question 29", owner="me")).notice is None
        assert (await memory.embed_pending()).embedded == 0


async def test_one_text_that_is_refused_keeps_no_other_from_its_vector(tmp_path: Path) -> None:
    class Picky(WordEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if any("forbidden" in text for text in texts):
                raise EmbeddingError("this text is not taken")
            return super().embed_passages(texts)

    loops = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(12)]
    bad = run_loop("bad", ("forbidden words", "fine"))
    async with remembering(tmp_path, Picky(), *loops[:6], bad, *loops[6:]) as memory:
        stats = await memory.stats()
        assert (stats.embedded, stats.pending) == (25, 1)
        result = await memory.search("forbidden", owner="me")
        assert result.hits[0].anchor.run_loop_id == "bad", "it has no vector, but its words"
        assert "1 segments" in (result.notice or "")


async def test_a_whole_batch_that_is_refused_keeps_no_other_from_its_vector(tmp_path: Path) -> None:
    class Picky(WordEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if any("forbidden" in text for text in texts):
                raise EmbeddingError("this text is not taken")
            return super().embed_passages(texts)

    bad = [run_loop(f"b{i}", (f"forbidden {i}", f"forbidden {i}")) for i in range(20)]
    good = run_loop("good", ("a question", "an answer"))
    async with remembering(tmp_path, Picky(), *bad, good) as memory:
        stats = await memory.stats()
        assert (stats.embedded, stats.pending) == (2, 40)


async def test_a_batch_that_reached_the_index_unmarked_is_not_doubled(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), GARDEN):
        pass
    ledger = SqliteLedger(tmp_path / "memory.sqlite3")
    ledger.open()
    contents = ledger.embedding.contents
    contents.unmark_indexed(1, sorted(contents.indexed(1)))
    ledger.close()
    async with remembering(tmp_path, WordEmbedder()) as memory:
        hit_anchors = anchors(await memory.search("tomatoes", owner="me", limit=50))
        assert sorted(hit_anchors) == sorted(set(hit_anchors)), "each segment once"
        assert len(hit_anchors) == 4


async def test_a_lost_vector_index_is_filled_again(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), GARDEN):
        pass
    shutil.rmtree(tmp_path / "chroma")
    async with remembering(tmp_path, WordEmbedder()) as memory:
        assert (await memory.stats()).embedded == 4
        result = await memory.search("tomatoes", owner="me", explain=True)
        assert "cosine" in (result.hits[0].scores or {})


async def test_changed_and_vanished_segments_leave_no_vector_behind(tmp_path: Path) -> None:
    before = run_loop("r", ("apples", "pears"), ("plums", "figs"), status="idle")
    async with remembering(tmp_path, WordEmbedder(), before) as memory:
        await memory.archive(run_loop("r", ("apples", "cherries")))
        await memory.embed_pending()
        assert anchors(await memory.search("cherries", owner="me")) == ["r:0.1", "r:0.0"]
        assert (await memory.stats()).embedded == 2


async def test_archiving_the_same_loop_again_embeds_nothing(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder, GARDEN) as memory:
        assert await memory.archive(GARDEN) == 0
        assert (await memory.embed_pending()).embedded == 0
        assert len(embedder.passages) == 4


async def test_an_embedder_that_cannot_be_loaded_is_told_and_raises_nothing(tmp_path: Path) -> None:
    missing = SentenceTransformerEmbedder("./no/such/model")
    async with remembering(tmp_path, missing, GARDEN) as memory:
        problem = await memory.warm_up()
        assert problem is not None
        assert "no/such/model" in problem.detail
        stats = await memory.stats()
        assert (stats.embedder, stats.pending) == (None, 4)
        assert "no/such/model" in (stats.problem or "")
        assert "no/such/model" in ((await memory.search("May", owner="me")).notice or "")


@pytest.mark.slow
async def test_searching_goes_on_while_much_is_embedded(tmp_path: Path) -> None:
    loops = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(100)]
    async with remembering(tmp_path, WordEmbedder(), *loops[:50]) as memory:
        async with anyio.create_task_group() as tasks:
            for loop in loops[50:]:
                tasks.start_soon(memory.archive, loop)
            tasks.start_soon(memory.embed_pending)
            for index in range(40):
                result = await memory.search(f"question {index}", owner="me", limit=1)
                assert result.hits[0].anchor.run_loop_id == f"r{index}"
        await memory.embed_pending()
        assert (await memory.stats()).pending == 0


@pytest.mark.slow
async def test_meaning_is_found_across_words_and_languages(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    others = [
        run_loop("bike", ("The chain of my bicycle came off again.", "Tighten the rear axle.")),
        run_loop("tax", ("我要交税吗？", "每年三月底之前申报。")),
    ]
    async with remembering(tmp_path, bundled, GARDEN, TRIP, *others) as memory:
        for query, expected in (
            ("vegetable growing season", "garden"),
            ("酒店", "trip"),
            ("where do we stay in the capital of China?", "trip"),
            ("自行车的链条掉了", "bike"),
            ("纳税申报", "tax"),
        ):
            result = await memory.search(query, owner="me", limit=2)
            assert result.mode == "hybrid"
            # The bundled model is nearer to its own language: another one's may come second.
            assert expected in [hit.anchor.run_loop_id for hit in result.hits], query
        vectors = await memory.embed_queries(["one", "two"])
        assert vectors is not None
        assert vectors.shape == (2, 384)
        assert vectors.dtype == np.float32
