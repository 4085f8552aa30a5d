"""The vector index, on the real Chroma."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.errors import StorageError
from service.memory.protocol import SearchFilters
from service.memory.segmenter import segment
from service.memory.vectors import ChromaIndex
from tests.memory.remembering import NOON, WordEmbedder, run_loop, tool_turn

EMBEDDER = WordEmbedder()
LOOPS = (
    run_loop("odd: id/1 [x]", ("apples are red", "pears are green")),
    run_loop("tools", tool_turn("red?", "look", "{}", "red apples", "yes"), owner="ann|b"),
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaIndex]:
    index = ChromaIndex(tmp_path_factory.mktemp("chroma"), identity="words")
    for loop in LOOPS:
        pieces = segment(loop)
        index.upsert(pieces, EMBEDDER.embed_passages([piece.content for piece in pieces]))
    yield index
    index.close()


def found(index: ChromaIndex, query: str, owner: str = "me", **filters: object) -> list[AnchorRef]:
    vector = EMBEDDER.embed_queries([query])
    narrowed = SearchFilters(**filters)  # type: ignore[arg-type]
    return [
        candidate.ref for candidate in index.search(vector, owner=owner, filters=narrowed, limit=10)
    ]


def test_the_nearest_comes_first_and_ids_survive_any_characters(index: ChromaIndex) -> None:
    assert found(index, "red apples") == [
        AnchorRef("odd: id/1 [x]", 0, 0),
        AnchorRef("odd: id/1 [x]", 0, 1),
    ]


def test_scores_are_cosines(index: ChromaIndex) -> None:
    vector = EMBEDDER.embed_queries(["apples are red"])
    best = index.search(vector, owner="me", filters=SearchFilters(), limit=1)[0]
    assert best.score == pytest.approx(1.0, abs=1e-5)


def test_owners_do_not_see_each_other(index: ChromaIndex) -> None:
    assert {ref.run_loop_id for ref in found(index, "red", owner="ann|b")} == {"tools"}
    assert found(index, "red", owner="ann") == []


def test_filters_are_exact(index: ChromaIndex) -> None:
    results = found(index, "red", "ann|b", types=frozenset({"tool_result"}))
    assert results == [AnchorRef("tools", 0, 2)]
    assert found(index, "red", run_loop_id="tools") == []
    assert len(found(index, "red", since=NOON)) == 2
    assert found(index, "red", since=NOON + timedelta(microseconds=1)) == []
    assert found(index, "red", until=NOON) == []
    assert len(found(index, "red", until=NOON + timedelta(microseconds=1))) == 2


def test_writing_again_replaces_and_deleting_removes(tmp_path: Path) -> None:
    index = ChromaIndex(tmp_path, identity="words")
    pieces = segment(run_loop("r", ("one", "two"), ("three", "four")))
    vectors = EMBEDDER.embed_passages([piece.content for piece in pieces])
    index.upsert(pieces, vectors)
    index.upsert(pieces, vectors)
    assert index.count() == 4
    index.delete([AnchorRef("r", 0, 0), AnchorRef("no such", 0, 0)], owner="me")
    assert index.count() == 3
    index.delete_run_loop("r", owner="somebody else")
    assert index.count() == 3
    index.delete_run_loop("r", owner="me")
    assert index.count() == 0
    index.close()


def test_vectors_of_two_embedders_never_mix(tmp_path: Path) -> None:
    pieces = segment(run_loop("r", ("one", "two")))
    first = ChromaIndex(tmp_path, identity="first")
    first.upsert(pieces, EMBEDDER.embed_passages([piece.content for piece in pieces]))
    first.close()
    second = ChromaIndex(tmp_path, identity="second")
    assert second.count() == 0
    second.close()
    again = ChromaIndex(tmp_path, identity="first")
    assert again.count() == 2
    again.close()


def test_a_damaged_folder_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_bytes(b"garbage" * 1000)
    with pytest.raises(StorageError, match="cannot be opened") as caught:
        ChromaIndex(tmp_path, identity="words")
    assert str(tmp_path) in caught.value.advice
