"""What a vector index promises: `VectorIndex` and `IndexPlace`, whatever engine stands behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.domain.errors import ConflictError
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.long_term import LongTermMemory
from service.memory.vectors.chroma.chroma_places import EmbeddedPlace
from service.memory.vectors.index_worker import IndexWorker
from service.memory.vectors.protocol import (
    IndexEntry,
    IndexPlace,
    VectorIndex,
    stored_vectors,
)
from tests.support.memory.exact_index import ExactPlace
from tests.support.memory.remembering import WordEmbedder, run_loop

EMBEDDER = WordEmbedder()


@pytest.fixture(params=["chroma", "in memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> IndexPlace:
    return EmbeddedPlace(tmp_path / "chroma") if request.param == "chroma" else ExactPlace()


@pytest.fixture
def index(place: IndexPlace) -> Iterator[VectorIndex]:
    index = place.open(1)
    yield index
    index.close()


def entries(*texts: str, owner: str = "me", first: int = 1) -> list[IndexEntry]:
    vectors = stored_vectors(EMBEDDER.embed_passages(texts))
    return [IndexEntry(first + i, owner, stored) for i, stored in enumerate(vectors)]


def nearest_numbers(
    index: VectorIndex, query: str, owner: str = "me", limit: int = 10
) -> list[int]:
    vector = EMBEDDER.embed_queries([query])
    return [each.number for each in index.search(vector, owner=owner, limit=limit)[0]]


def test_an_empty_index_finds_nothing(index: VectorIndex) -> None:
    assert nearest_numbers(index, "anything") == []
    assert index.count() == 0
    assert index.numbers() == set()
    index.add([])
    index.delete([], owner="me")
    index.delete([1], owner=None)
    assert index.count() == 0


def test_what_was_added_is_found_at_once_best_first(index: VectorIndex) -> None:
    index.add(entries("red apples", "green pears", "苹果 是 红色 的"))
    assert nearest_numbers(index, "red apples")[0] == 1
    assert nearest_numbers(index, "苹果 是 红色 的")[0] == 3
    assert len(nearest_numbers(index, "red apples", limit=2)) == 2
    ([best, *others],) = index.search(EMBEDDER.embed_queries(["green pears"]), owner="me", limit=9)
    assert best.number == 2
    assert best.cosine == pytest.approx(1, abs=0.01)
    assert all(best.cosine >= each.cosine for each in others)


def test_owners_see_nothing_of_each_other(index: VectorIndex) -> None:
    index.add(entries("red apples", "green pears"))
    index.add(entries("red apples", owner="她|b", first=7))
    assert set(nearest_numbers(index, "red apples")) == {1, 2}
    assert nearest_numbers(index, "red apples", owner="她|b") == [7]
    assert nearest_numbers(index, "red apples", owner="nobody") == []
    index.delete([7], owner="me")
    assert index.numbers() == {1, 2, 7}
    assert index.count() == 3


def test_adding_again_changes_nothing_and_deleting_what_is_gone_is_fine(
    index: VectorIndex,
) -> None:
    index.add(entries("red apples", "green pears"))
    index.add(entries("red apples", "green pears"))
    assert index.count() == 2
    index.delete([1, 999], owner="me")
    index.delete([1], owner="nobody")
    assert index.numbers() == {2}
    assert nearest_numbers(index, "red apples") == [2]
    index.delete([2], owner=None)
    assert index.numbers() == set()


def test_more_vectors_than_go_in_one_batch(index: VectorIndex) -> None:
    count = 6_000
    rows = np.random.default_rng(0).standard_normal((count, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    index.add([IndexEntry(n, "me", each) for n, each in enumerate(stored_vectors(rows), 1)])
    assert index.count() == count
    assert len(index.numbers()) == count
    index.delete(range(1, count), owner="me")
    assert index.numbers() == {count}


def test_a_closed_index_says_so(place: IndexPlace) -> None:
    index = place.open(1)
    index.close()
    with pytest.raises(ConflictError):
        index.add(entries("late"))
    with pytest.raises(ConflictError):
        nearest_numbers(index, "late") or index.count()


def test_it_is_all_there_when_it_is_opened_again(place: IndexPlace) -> None:
    assert not place.exists(3)
    index = place.open(3)
    index.add(entries("red apples", "green pears"))
    index.close()
    assert place.exists(3)
    assert place.identity(3) == place.identity(3)
    again = place.open(3)
    assert again.numbers() == {1, 2}
    assert nearest_numbers(again, "green pears")[0] == 2
    again.close()
    place.remove(3)
    place.remove(3)
    assert not place.exists(3)


def test_what_no_ledger_knows_is_removed(place: IndexPlace) -> None:
    for generation in (1, 2):
        index = place.open(generation)
        index.add(entries("red apples"))
        index.close()
    place.remove_leftovers({2}, damaged=True)
    assert not place.exists(1)
    assert place.exists(2)
    place.set_aside(2)
    assert not place.exists(2), "it is out of the way"


def test_one_reads_while_another_writes(index: VectorIndex) -> None:
    index.add(entries("red apples"))
    seen: list[int] = []
    problems: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                seen.extend(nearest_numbers(index, "red apples", limit=1))
        except BaseException as error:  # told below
            problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        index.add(entries(f"other matter {number}", first=10 + number))
    done.set()
    reader.join()
    assert problems == []
    assert set(seen) <= {1}
    assert index.count() == 31


@pytest.mark.anyio
async def test_long_term_memory_needs_no_more_than_this(tmp_path: Path, place: IndexPlace) -> None:
    ledger = SqliteLedger(tmp_path / "memory.sqlite3")
    index = IndexWorker(ledger.embedding, EMBEDDER, [place])
    memory = LongTermMemory(ledger, index, EMBEDDER)
    await memory.start()
    assert await memory.warm_up() is None
    await memory.archive(run_loop("fruit", ("red apples", "green pears")))
    await memory.archive(run_loop("town", ("a tall tower", "with a clock")))
    assert (await memory.embed_pending()).problem is None
    result = await memory.search("red apples", owner="me")
    assert (result.mode, result.hits[0].content) == ("hybrid", "red apples")
    assert await memory.index.reindex(force=True) is None
    assert (await memory.embed_pending()).problem is None
    await memory.forget("me", ["fruit"], [])
    assert await memory.index.scrubbed()
    stats = await memory.stats()
    assert stats.index is not None
    assert (stats.segments, stats.index.indexed, stats.index.place) == (2, 2, place.name)
    hits = (await memory.search("red apples", owner="me")).hits
    assert "red apples" not in {each.content for each in hits}
    await memory.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize(("sees_from", "is_kept"), [(100, True), (100_000, False)])
async def test_an_index_is_damaged_only_where_looking_further_finds_no_more(
    tmp_path: Path, sees_from: int, is_kept: bool
) -> None:
    place = ExactPlace(sees_from=sees_from)
    for _ in range(2):
        ledger = SqliteLedger(tmp_path / "memory.sqlite3")
        memory = LongTermMemory(ledger, IndexWorker(ledger.embedding, EMBEDDER, [place]), EMBEDDER)
        await memory.start()
        await memory.warm_up()
        turns = [(f"apple{number} pear{number}", f"tower{number}") for number in range(40)]
        await memory.archive(run_loop("fruit", *turns))
        await memory.embed_pending()
        await memory.aclose()
    assert (1 in place.generations) is is_kept
