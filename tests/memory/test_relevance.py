"""Where relevance ends: what is about a question, and what is merely the best of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.bench.retrieval.relevance_report import Plan, run
from service.domain.anchors import SearchResult
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.protocol import Embedder
from service.memory.search.query_terms import read_question
from service.memory.search.relevance import RelevanceHit, judge
from service.memory.vectors.unrelated_cosines import OF_THE_BUNDLED, languages_of, measured
from tests.support.memory.remembering import WordEmbedder, remembering, run_loop

OWN = Path(__file__).parents[2] / "data" / "memory" / "relevance"
PADLOCK = run_loop("shed", ("The code of the padlock on the shed is 4711.", "4711, noted."))
CAT = run_loop("cat", ("My cat Momo is allergic to chicken.", "Only salmon for Momo, then."))
GATE = run_loop("门", ("小区门禁的密码是 2580#，快递柜在三号楼后面。", "记住了：门禁 2580#。"))
MANY = [
    run_loop(f"day-{n}", (f"Remind me of errand {n} on street {n % 7}.", f"Errand {n}, noted."))
    for n in range(400)
]


async def ends_at(query: str, folder: Path, embedder: Embedder | None, *, much: bool) -> int:
    response = await result_of(query, folder, embedder, much=much)
    return response.related


async def result_of(
    query: str, folder: Path, embedder: Embedder | None, *, much: bool
) -> SearchResult:
    loops = (PADLOCK, CAT, GATE, *(MANY if much else ()))
    async with remembering(folder, embedder, *loops) as memory:
        return await memory.search(query, owner="me", limit=5)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("much", [False, True], ids=["six segments", "eight hundred"])
@pytest.mark.parametrize("embedder", [None, WordEmbedder()], ids=["words", "another embedder"])
@pytest.mark.parametrize(
    "query",
    ["What is the code of the padlock?", "4711", "Momo", "门禁的密码是多少？", "2580#"],
)
async def test_what_was_said_is_about_it_in_a_small_store_and_a_large_one(
    tmp_path: Path, query: str, embedder: Embedder | None, much: bool
) -> None:
    assert await ends_at(query, tmp_path, embedder, much=much) >= 1


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    "query", ["Which noted painter lived near the harbour?", "记住单词有什么好方法？"]
)
async def test_of_what_nobody_spoke_of_nothing_is_about_it(tmp_path: Path, query: str) -> None:
    response = await result_of(query, tmp_path, None, much=True)
    assert response.hits  # they share a word, and are still there to be looked at
    assert response.related == 0
    assert not any(hit.related for hit in response.hits)


@pytest.mark.anyio
async def test_a_quote_is_about_it_while_it_still_waits_for_its_vector(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *MANY[:50]) as memory:
        await memory.archive(PADLOCK)
        response = await memory.search("code of the padlock", owner="me")
    assert response.mode == "hybrid"
    assert response.hits[0].anchor.run_loop_id == "shed"
    assert response.related >= 1


def test_relevance_falls_along_the_order_and_a_hit_with_all_the_words_is_never_cut_off() -> None:
    question = read_question("padlock code")
    hits = [
        RelevanceHit("Nothing of the kind.", 4, 0.75, 0.0, 0.0),
        RelevanceHit("The padlock has a code.", 5, None, 1.0, 3.0),
        RelevanceHit("Something else.", 2, 0.7, 0.0, 0.0),
    ]
    judged = judge(question, hits, [9.0, 3.0, -90.0], [0.0, 1.0, 0.0], 2_000, OF_THE_BUNDLED)
    assert [each.relevance for each in judged] == sorted(
        (each.relevance for each in judged), reverse=True
    )
    assert judged[1].related
    assert not judged[2].related


def test_an_embedder_that_cannot_be_measured_leaves_it_to_the_words() -> None:
    class Failing(WordEmbedder):
        def __init__(self) -> None:
            super().__init__(fail_after=0)

    assert languages_of(Failing()) is None
    best = [RelevanceHit("A whale.", 2, 0.2, 1.0, 5.0)]
    judged = judge(read_question("whale"), best, [1.0], [1.0], 50, None)
    assert judged[0].related


@pytest.mark.slow
def test_by_words_alone_nine_of_ten_questions_are_told_right() -> None:
    overall = run(Plan(data=[OWN], make_embedder=lambda: None))["overall"]
    assert overall["auroc"] > 0.95
    assert overall["said"]["answer_kept"] > 0.95
    assert overall["far"]["kept"] < 0.1


@pytest.mark.slow
def test_with_the_bundled_model_answers_stay_and_most_strays_go(
    bundled: SentenceTransformerEmbedder,
) -> None:
    plan = Plan(data=[OWN], sets=("everyday-test",), make_embedder=lambda: bundled)
    overall = run(plan)["overall"]
    assert overall["said"]["answer_kept"] > 0.93
    assert overall["far"]["kept"] < 0.25
    assert overall["auroc"] > 0.93


@pytest.mark.slow
def test_what_is_known_of_the_bundled_model_is_what_it_gives(
    bundled: SentenceTransformerEmbedder,
) -> None:
    for shipped, limit in zip(OF_THE_BUNDLED, measured(bundled).unrelated, strict=True):
        assert shipped == pytest.approx(limit, abs=0.003)
    shipped_languages = languages_of(bundled)
    assert shipped_languages is not None
    assert shipped_languages.unrelated is OF_THE_BUNDLED
    assert shipped_languages.shift == pytest.approx(measured(bundled).shift, abs=0.003)
