"""Searching for a day or a month, and nothing else: what was said then, whatever its words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from service.domain.anchors import SearchResult
from service.memory.protocol import Embedder, SearchFilters
from service.memory.stores import long_term_memory
from tests.support.memory.remembering import WordEmbedder, run_loop

pytestmark = pytest.mark.anyio

BERLIN = ZoneInfo("Europe/Berlin")
ASKED_AT = datetime(2024, 5, 20, 9, 30, tzinfo=BERLIN)
THAT_DAY = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)  # a Monday
DAY = timedelta(days=1)

LOOPS = (
    run_loop("boat", ("the hull needs paint", "blue would suit it"), at=THAT_DAY),
    run_loop("bread", ("how long does rye prove?", "a night, in the cold"), at=THAT_DAY - 9 * DAY),
    run_loop("eve", ("the violin is out of tune", "a new string"), at=THAT_DAY - DAY),
    run_loop("after", ("the stove smokes", "sweep the flue"), at=THAT_DAY + DAY),
    run_loop("june", ("the roof leaks in 2023", "may the rain stop"), at=THAT_DAY + 40 * DAY),
    run_loop("year", ("eight hens, may I?", "eight are too many"), at=THAT_DAY + 366 * DAY),
    *(
        run_loop(f"other{each}", (f"tea number {each} in may", "noted"), at=ASKED_AT - each * DAY)
        for each in range(40, 70)
    ),
)


async def search(
    folder: Path, embedder: Embedder | None, query: str, *, filters: SearchFilters | None = None
) -> SearchResult:
    folder.mkdir(exist_ok=True)
    memory = long_term_memory(folder, embedder, clock=lambda: ASKED_AT)
    await memory.start()
    try:
        for loop in LOOPS:
            await memory.archive(loop)
        await memory.embed_pending()
        return await memory.search(query, owner="me", filters=filters or SearchFilters())
    finally:
        await memory.aclose()


def related(result: SearchResult) -> list[str]:
    return [hit.anchor.run_loop_id for hit in result.hits if hit.related]


@pytest.mark.slow
@pytest.mark.parametrize("embedder", [None, WordEmbedder()], ids=["by words", "by both"])
@pytest.mark.parametrize(
    "query",
    [
        "8 May 2023",
        "May 8, 2023",
        "2023-05-08",
        "2023/5/8",
        "8.5.2023",
        "2023年5月8日",
        "Monday, 8 May 2023",
        "2023年5月8日（星期一）",
        "What did we talk about on 8 May last year?",
        "去年5月8日我们说了什么？",
    ],
)
async def test_a_day_finds_what_was_said_on_it(
    tmp_path: Path, embedder: WordEmbedder | None, query: str
) -> None:
    result = await search(tmp_path, embedder, query)
    assert related(result)[:2] == ["boat", "boat"]
    assert [hit.relevance for hit in result.hits[:2]] == [1.0, 1.0]
    assert {"june", "year"}.isdisjoint(related(result)[:2])


@pytest.mark.slow
@pytest.mark.parametrize("embedder", [None, WordEmbedder()], ids=["by words", "by both"])
@pytest.mark.parametrize("query", ["May 2023", "2023-05", "2023年5月", "in May last year"])
async def test_a_month_finds_what_was_said_in_it(
    tmp_path: Path, embedder: WordEmbedder | None, query: str
) -> None:
    result = await search(tmp_path, embedder, query)
    assert set(related(result)[:6]) == {"boat", "eve", "after"}
    assert "bread" not in related(result)[:6]  # 29 April


async def test_by_words_alone_a_month_is_told_in_its_order(tmp_path: Path) -> None:
    result = await search(tmp_path, None, "May 2023")
    assert related(result)[:6] == ["eve", "eve", "boat", "boat", "after", "after"]
    assert result.hits[0].content == "the violin is out of tune"  # and its answer behind it


@pytest.mark.slow
@pytest.mark.parametrize("query", ["May 8", "8 May", "5月8日", "on Wednesday, May 8"])
async def test_a_day_without_a_year_is_the_last_one(tmp_path: Path, query: str) -> None:
    result = await search(tmp_path, None, query)
    assert related(result) == ["year", "year"]


async def test_a_day_on_which_nothing_was_said_finds_nothing_of_it(tmp_path: Path) -> None:
    result = await search(tmp_path, None, "3 March 2021")
    assert related(result) == []


async def test_words_that_name_the_day_are_found_besides(tmp_path: Path) -> None:
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    for loop in (*LOOPS, run_loop("plan", ("dentist on 8 May 2023", "noted"), at=ASKED_AT - DAY)):
        await memory.archive(loop)
    result = await memory.search("8 May 2023", owner="me")
    assert set(related(result)) >= {"plan", "boat"}
    await memory.aclose()


async def test_what_was_said_last_comes_first_for_recently(tmp_path: Path) -> None:
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    for days in range(1, 60):
        await memory.archive(
            run_loop(f"d{days}", ("soup", "bon appetit"), at=ASKED_AT - days * DAY)
        )
    result = await memory.search("What did we talk about recently?", owner="me", fold=False)
    assert [hit.anchor.run_loop_id for hit in result.hits[::2]] == ["d1", "d2", "d3", "d4"]
    await memory.aclose()


async def test_filters_count_for_a_day_too(tmp_path: Path) -> None:
    filters = SearchFilters(types=frozenset({"response"}))
    result = await search(tmp_path, None, "8 May 2023", filters=filters)
    assert [hit.content for hit in result.hits[:1]] == ["blue would suit it"]
    assert {hit.anchor.segment_type for hit in result.hits} == {"response"}
    other = await search(tmp_path / "2", None, "8 May 2023", filters=SearchFilters(since=ASKED_AT))
    assert related(other) == []


async def test_a_topic_of_a_day_is_found_by_words_alone_in_other_words(tmp_path: Path) -> None:
    result = await search(tmp_path, None, "What did we say of the ship on 8 May 2023?")
    assert "boat" in {hit.anchor.run_loop_id for hit in result.hits}


async def test_the_owner_of_a_day_is_the_one_who_asks(tmp_path: Path) -> None:
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    await memory.archive(run_loop("theirs", ("hull", "paint"), owner="them", at=THAT_DAY))
    assert (await memory.search("8 May 2023", owner="me")).hits == ()
    assert len((await memory.search("8 May 2023", owner="them")).hits) == 2
    await memory.aclose()


async def test_of_a_busy_month_its_beginning_is_told_and_a_larger_limit_tells_more(
    tmp_path: Path,
) -> None:
    start = datetime(2023, 5, 1, 6, tzinfo=UTC)
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    turns = [
        run_loop(f"m{n:02}", (f"turn {n}", f"reply {n}"), at=start + n * DAY / 3) for n in range(60)
    ]
    for loop in reversed(turns):  # archived in another order
        await memory.archive(loop)
    for limit in (4, 50):
        result = await memory.search("May 2023", owner="me", limit=limit)
        told = [hit.content for hit in result.hits]
        assert told == [text for n in range(limit // 2) for text in (f"turn {n}", f"reply {n}")]
    assert len((await memory.search("May 2023", owner="me", limit=200)).hits) == 120
    await memory.aclose()


async def test_a_month_that_is_not_over_is_told_from_its_end_on(tmp_path: Path) -> None:
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    for days in range(1, 19):
        await memory.archive(
            run_loop(f"d{days:02}", (f"turn {days}", "x"), at=ASKED_AT - days * DAY)
        )
    result = await memory.search("this month", owner="me", limit=3, fold=True)
    assert result.hits[0].anchor.run_loop_id == "d01"
    await memory.aclose()


async def test_a_day_is_one_of_the_zone_of_the_person(tmp_path: Path) -> None:
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    midnight = datetime(2023, 5, 8, tzinfo=BERLIN).astimezone(UTC)
    minute = timedelta(minutes=1)
    for name, at in (
        ("before", midnight - minute),
        ("first", midnight),
        ("last", midnight + DAY - minute),
        ("behind", midnight + DAY),
    ):
        await memory.archive(run_loop(name, (f"it is {name}", f"so {name}"), at=at))
    hits = (await memory.search("2023-05-08", owner="me")).hits
    assert [hit.anchor.run_loop_id for hit in hits if hit.related] == ["first"] * 2 + ["last"] * 2
    await memory.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["", " on 8 May 2023", " on 2023-05-08", " last year in May"])
async def test_that_a_question_names_a_day_makes_its_answer_no_less_related(
    tmp_path: Path, when: str
) -> None:
    tea = [(f"tea number {n} tastes of garden smoke", f"noted, tea {n}") for n in range(500)]
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    await memory.archive(run_loop("tea", *tea, at=ASKED_AT - DAY))
    boat = ("the boat needs new paint, the hull is rusty", "blue would suit it")
    await memory.archive(run_loop("boat", boat, at=THAT_DAY))
    result = await memory.search(f"What did we hear of the boat{when}?", owner="me")
    assert related(result) == ["boat"]
    await memory.aclose()


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ["Christmas", "What did we do at Christmas?", "圣诞节我们做了什么？"]
)
async def test_of_a_holiday_both_what_speaks_of_it_and_what_was_said_then_are_found(
    tmp_path: Path, query: str
) -> None:
    memory = long_term_memory(tmp_path, None, clock=lambda: ASKED_AT)
    await memory.start()
    christmas = datetime(2023, 12, 25, 15, tzinfo=UTC)
    told = ("Christmas was in Rome, 圣诞节在罗马", "how warm it must have been")
    for loop in (
        *LOOPS,
        run_loop("then", *((f"goose number {n}", "crisp") for n in range(9)), at=christmas),
        run_loop("told", told, at=christmas + 40 * DAY),
    ):
        await memory.archive(loop)
    result = await memory.search(query, owner="me")
    assert related(result)[0] == "told"
    assert "then" in related(result)
    assert {"boat", "june", "year"}.isdisjoint(related(result))
    await memory.aclose()
