"""The vector index, on the real Chroma; and vectors as the ledger keeps them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import ConflictError, IndexDamagedError
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.vectors.chroma.chroma_places import EmbeddedPlace
from service.memory.vectors.embedding_store import PendingSegment
from service.memory.vectors.protocol import (
    IndexEntry,
    VectorIndex,
    as_matrix,
    stored_vectors,
)
from tests.support.memory.remembering import WordEmbedder, run_loop

EMBEDDER = WordEmbedder()
TEXTS = ("apples are red", "pears are green", "plums are blue")


def entries(*texts: str, owner: str = "me", first: int = 1) -> list[IndexEntry]:
    vectors = stored_vectors(EMBEDDER.embed_passages(texts))
    return [IndexEntry(first + i, owner, stored) for i, stored in enumerate(vectors)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[VectorIndex]:
    index = EmbeddedPlace(tmp_path).open(1)
    index.add(entries(*TEXTS))
    index.add(entries("red", owner="ann|b", first=7))
    yield index
    index.close()


def nearest_numbers(index: VectorIndex, query: str, owner: str = "me") -> list[int]:
    vector = EMBEDDER.embed_queries([query])
    return [each.number for each in index.search(vector, owner=owner, limit=10)[0]]


def test_the_nearest_comes_first_and_scores_are_cosines(index: VectorIndex) -> None:
    vector = EMBEDDER.embed_queries(["green pears are"])
    ((best,),) = index.search(vector, owner="me", limit=1)
    assert best.number == 2
    assert best.cosine == pytest.approx(1.0, abs=1e-3)
    others = EMBEDDER.embed_queries(["red apples"])
    both = index.search(np.concatenate([vector, others]), owner="me", limit=1)
    assert both == [[best], *index.search(others, owner="me", limit=1)]
    assert nearest_numbers(index, "red apples")[0] == 1


def test_owners_do_not_see_each_other(index: VectorIndex) -> None:
    assert nearest_numbers(index, "red", owner="ann|b") == [7]
    assert nearest_numbers(index, "red", owner="ann") == []
    index.delete([1, 7], owner="me")
    assert index.numbers() == {2, 3, 7}


def test_writing_again_doubles_nothing_and_deleting_what_is_gone_is_fine(
    index: VectorIndex,
) -> None:
    index.add(entries(*TEXTS))
    assert index.count() == 4
    index.delete([1, 999], owner="me")
    index.delete([2], owner="nobody")
    assert index.count() == 3
    index.delete([3, 7], owner=None)
    assert index.numbers() == {2}


def test_nothing_but_numbers_is_stored_with_a_vector(index: VectorIndex, tmp_path: Path) -> None:
    index.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"chroma" in stored.lower()
    assert b"apples" not in stored
    assert b"ann|b" not in stored


def test_a_closed_index_says_so_instead_of_failing_somehow(tmp_path: Path) -> None:
    index = EmbeddedPlace(tmp_path).open(1)
    index.add(entries(*TEXTS))
    index.close()
    with pytest.raises(ConflictError, match="replaced"):
        nearest_numbers(index, "red")


def test_a_damaged_folder_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "chroma.sqlite3").write_bytes(b"garbage" * 1000)
    with pytest.raises(IndexDamagedError, match="cannot be opened") as caught:
        EmbeddedPlace(tmp_path).open(1)
    assert "built anew" in caught.value.advice


def pending(ledger: SqliteLedger, embedder: int) -> list[PendingSegment]:
    return ledger.embedding.pending(embedder, beyond=0, limit=100)


def test_the_ledger_gives_vectors_back_in_any_order_and_tells_which_it_lacks(
    tmp_path: Path,
) -> None:
    ledger = SqliteLedger(tmp_path / "memory.sqlite3")
    ledger.open()
    ledger.archive(run_loop("r", ("apples are red", "pears"), ("plums", "figs")))
    states = ledger.embedding
    embedder = states.embedder("words")
    waiting = pending(ledger, embedder)
    vectors = EMBEDDER.embed_passages([piece.text for piece in waiting])
    states.store(embedder, waiting[:3], vectors[:3])
    numbers = [piece.number for piece in waiting]
    asked = [numbers[2], 10**9, numbers[3], numbers[0], numbers[2]]
    matrix, is_present = states.vectors_of(embedder, asked, 1024)
    assert is_present.tolist() == [True, False, False, True, True]
    assert np.allclose(matrix[[0, 3, 4]], vectors[[2, 0, 2]], atol=1e-3)
    assert np.allclose(np.linalg.norm(matrix[is_present], axis=1), 1, atol=1e-6)
    assert not matrix[~is_present].any()
    assert states.vectors_of(embedder, [], 1024).matrix.shape == (0, 1024)
    other = states.embedder("other words")
    assert not states.vectors_of(other, numbers, 1024).present.any()
    assert [piece.number for piece in pending(ledger, other)] == numbers
    ledger.close()


def test_vectors_go_with_their_segments_and_storing_them_again_changes_nothing(
    tmp_path: Path,
) -> None:
    ledger = SqliteLedger(tmp_path / "memory.sqlite3")
    ledger.open()
    ledger.archive(run_loop("r", ("apples are red", "pears"), ("plums", "figs"), status="idle"))
    ledger.archive(run_loop("hers", ("her", "own"), owner="ann"))
    states = ledger.embedding
    embedder = states.embedder("words")
    waiting = pending(ledger, embedder)
    vectors = EMBEDDER.embed_passages([piece.text for piece in waiting])
    states.store(embedder, waiting, vectors)
    states.store(embedder, waiting, vectors[::-1])
    assert states.count_vectors(embedder) == 6
    matrix, _ = states.vectors_of(embedder, [piece.number for piece in waiting], 1024)
    assert np.allclose(matrix, vectors, atol=1e-3), "the first ones stay"
    ledger.archive(run_loop("r", ("apples are red", "cherries"), ("plums", "figs")))
    assert states.count_vectors(embedder) == 5
    states.store(embedder, waiting, vectors)
    assert states.count_vectors(embedder) == 5, "what is gone gets none"
    assert [piece.text for piece in pending(ledger, embedder)] == ["cherries"]
    ledger.close()


def test_a_ledger_of_the_second_schema_loses_its_sums_and_keeps_its_vectors(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.sqlite3"
    ledger = SqliteLedger(path)
    ledger.open()
    ledger.archive(run_loop("r", ("apples are red", "pears")))
    embedder = ledger.embedding.embedder("words")
    waiting = pending(ledger, embedder)
    vectors = EMBEDDER.embed_passages([piece.text for piece in waiting])
    ledger.embedding.store(embedder, waiting, vectors)
    ledger.close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE vector_sums (embedder, owner, vectors, total);"
            "INSERT INTO vector_sums VALUES (1, 'me', 2, x'00');"
            "PRAGMA user_version = 2;"
        )
    ledger.open()
    assert ledger.count() == (1, 2)
    assert ledger.embedding.count_vectors(embedder) == 2
    assert pending(ledger, embedder) == []
    ledger.close()
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE name = 'vector_sums'").fetchall()
    assert tables == []


@given(
    st.integers(1, 400), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sets(st.integers(0, 5))
)
def test_vectors_come_back_as_they_were_kept_in_either_form(
    dimension: int, count: int, seed: int, older: set[int]
) -> None:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kept = stored_vectors(vectors)
    assert all(len(each) in (dimension + 1, dimension + 2) for each in kept)
    for place in older & set(range(count)):
        kept[place] = vectors[place].astype("<f2").tobytes()
    matrix = as_matrix(kept)
    assert matrix.shape == vectors.shape
    assert np.linalg.norm(matrix, axis=1) == pytest.approx(np.ones(count), abs=1e-5)
    assert ((matrix * vectors).sum(axis=1) > 0.9998).all()


def test_a_vector_with_one_large_number_keeps_its_place() -> None:
    vectors = np.full((1, 384), 0.01, dtype=np.float32)
    vectors[0, 7] = 1.0
    (row,) = as_matrix(stored_vectors(vectors / np.linalg.norm(vectors)))
    assert float(row @ vectors[0]) / float(np.linalg.norm(vectors)) > 0.999
