"""The vector index, on the real Chroma; and vectors as the ledger keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.domain.errors import ConflictError, IndexDamagedError
from service.memory.archive.ledger import Ledger
from service.memory.index.chroma import EmbeddedPlace
from service.memory.index.embedding_states import PendingSegment, as_matrix
from service.memory.index.vectors import ChromaIndex
from service.memory.protocol import IndexEntry, Vectors
from tests.memory.remembering import WordEmbedder, run_loop

EMBEDDER = WordEmbedder()
TEXTS = ("apples are red", "pears are green", "plums are blue")


def entries(*texts: str, owner: str = "me", first: int = 1) -> list[IndexEntry]:
    vectors = EMBEDDER.embed_passages(texts).astype("<f2")
    return [IndexEntry(first + i, owner, row.tobytes()) for i, row in enumerate(vectors)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ChromaIndex]:
    index = ChromaIndex(EmbeddedPlace(tmp_path), 1)
    index.add(entries(*TEXTS))
    index.add(entries("red", owner="ann|b", first=7))
    yield index
    index.close()


def found(index: ChromaIndex, query: str, owner: str = "me") -> list[int]:
    vector = EMBEDDER.embed_queries([query])
    return [each.number for each in index.search(vector, owner=owner, limit=10)]


def test_the_nearest_comes_first_and_scores_are_cosines(index: ChromaIndex) -> None:
    vector = EMBEDDER.embed_queries(["green pears are"])
    best = index.search(vector, owner="me", limit=1)[0]
    assert best.number == 2
    assert best.cosine == pytest.approx(1.0, abs=1e-3)
    assert index.search(vector[0], owner="me", limit=1) == [best]
    assert found(index, "red apples")[0] == 1


def test_owners_do_not_see_each_other(index: ChromaIndex) -> None:
    assert found(index, "red", owner="ann|b") == [7]
    assert found(index, "red", owner="ann") == []
    index.delete([1, 7], owner="me")
    assert index.numbers() == {2, 3, 7}


def test_writing_again_doubles_nothing_and_deleting_what_is_gone_is_fine(
    index: ChromaIndex,
) -> None:
    index.add(entries(*TEXTS))
    assert index.count() == 4
    index.delete([1, 999], owner="me")
    index.delete([2], owner="nobody")
    assert index.count() == 3
    index.delete_anywhere([3, 7])
    assert index.numbers() == {2}


def test_nothing_but_numbers_is_stored_with_a_vector(index: ChromaIndex, tmp_path: Path) -> None:
    index.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"chroma" in stored.lower()
    assert b"apples" not in stored
    assert b"ann|b" not in stored


def test_it_tells_how_many_vectors_it_still_finds(index: ChromaIndex) -> None:
    assert index.finds(entries(*TEXTS)) == 3
    assert index.finds(entries("something else entirely", owner="nobody")) == 0
    index.delete([1], owner="me")
    assert index.finds(entries(*TEXTS)) == 2


def test_a_closed_index_says_so_instead_of_failing_somehow(tmp_path: Path) -> None:
    index = ChromaIndex(EmbeddedPlace(tmp_path), 1)
    index.add(entries(*TEXTS))
    index.close()
    with pytest.raises(ConflictError, match="replaced"):
        found(index, "red")


def test_a_damaged_folder_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "chroma.sqlite3").write_bytes(b"garbage" * 1000)
    with pytest.raises(IndexDamagedError, match="cannot be opened") as caught:
        ChromaIndex(EmbeddedPlace(tmp_path), 1)
    assert "built anew" in caught.value.advice


def pending(ledger: Ledger, embedder: int) -> list[PendingSegment]:
    return ledger.embedding.pending(embedder, beyond=0, limit=100)


def test_the_ledger_gives_vectors_back_in_any_order_and_tells_which_it_lacks(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path / "memory.sqlite3")
    ledger.open()
    ledger.archive(run_loop("r", ("apples are red", "pears"), ("plums", "figs")))
    states = ledger.embedding
    embedder = states.embedder("words")
    waiting = pending(ledger, embedder)
    vectors = EMBEDDER.embed_passages([piece.text for piece in waiting])
    states.store(embedder, waiting[:3], vectors[:3])
    numbers = [piece.number for piece in waiting]
    asked = [numbers[2], 10**9, numbers[3], numbers[0], numbers[2]]
    matrix, known = states.vectors_of(embedder, asked, 1024)
    assert known.tolist() == [True, False, False, True, True]
    assert np.allclose(matrix[[0, 3, 4]], vectors[[2, 0, 2]], atol=1e-3)
    assert np.allclose(np.linalg.norm(matrix[known], axis=1), 1, atol=1e-6)
    assert not matrix[~known].any()
    assert states.vectors_of(embedder, [], 1024).matrix.shape == (0, 1024)
    other = states.embedder("other words")
    assert not states.vectors_of(other, numbers, 1024).known.any()
    assert [piece.number for piece in pending(ledger, other)] == numbers
    ledger.close()


def test_the_mean_vector_follows_what_comes_and_goes(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "memory.sqlite3")
    ledger.open()
    ledger.archive(run_loop("r", ("apples are red", "pears"), ("plums", "figs"), status="idle"))
    ledger.archive(run_loop("hers", ("her", "own"), owner="ann"))
    states = ledger.embedding
    embedder = states.embedder("words")
    assert states.mean_vector(embedder, "me") is None
    waiting = pending(ledger, embedder)
    states.store(embedder, waiting, EMBEDDER.embed_passages([piece.text for piece in waiting]))
    states.store(embedder, waiting, EMBEDDER.embed_passages([piece.text for piece in waiting]))

    def mean_of(owner: str) -> Vectors:
        rows = ledger.embedding._file.select(
            "SELECT v.vector FROM vectors v JOIN segments s ON v.id = (? << 40) + s.id"
            " WHERE s.owner = ?",
            (embedder, owner),
        )
        mean: Vectors = as_matrix([row[0] for row in rows]).mean(axis=0)
        return mean

    def known_mean(owner: str) -> Vectors:
        found = states.mean_vector(embedder, owner)
        assert found is not None
        return found

    assert np.allclose(known_mean("me"), mean_of("me"), atol=1e-3)
    assert np.allclose(known_mean("ann"), mean_of("ann"), atol=1e-3)
    ledger.archive(run_loop("r", ("apples are red", "cherries"), ("plums", "figs")))
    assert states.count_vectors(embedder) == 5
    assert np.allclose(known_mean("me"), mean_of("me"), atol=1e-3)
    ledger.close()
