"""A Chroma folder that goes away while it is in use: noticed, told, and built anew meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from service.domain.errors import StorageError
from service.memory.vectors.chroma.chroma_places import EmbeddedPlace
from tests.support.memory.indexing import DistinctEmbedder, folders, index_of, nearest
from tests.support.memory.remembering import remembering, run_loop

pytestmark = pytest.mark.anyio

LOOP = run_loop("r", ("Where is Bern?", "In Switzerland."), ("北京在哪里？", "在中国。"))


def emptied(chroma: Path) -> None:
    shutil.rmtree(chroma)
    chroma.mkdir()


def emptied_inside(chroma: Path) -> None:
    shutil.rmtree(chroma / "1")
    (chroma / "1").mkdir()


def moved(chroma: Path) -> None:
    chroma.rename(chroma.with_name("elsewhere"))


def exchanged(chroma: Path) -> None:
    """An older copy in its place, such as a backup that was put back."""
    shutil.copytree(chroma, chroma.with_name("copy"))
    shutil.rmtree(chroma)
    chroma.with_name("copy").rename(chroma)


@pytest.mark.slow
@pytest.mark.parametrize("vanish", [shutil.rmtree, emptied, emptied_inside, moved, exchanged])
async def test_an_index_that_vanishes_is_told_and_built_anew_without_a_restart(
    tmp_path: Path, vanish: Callable[[Path], object]
) -> None:
    embedder = DistinctEmbedder()
    async with remembering(tmp_path, embedder, LOOP) as memory:
        assert (await memory.search("Where is Bern?", owner="me")).mode == "hybrid"
        embedded = len(embedder.passages)
        vanish(tmp_path / "chroma")
        response = await memory.search("Where is Bern?", owner="me")
        assert response.mode == "lexical"
        assert response.hits
        assert "is gone" in (response.notice or "")
        assert memory.index.has_work
        await memory.embed_pending()
        assert (await memory.search("Where is Bern?", owner="me")).mode == "hybrid"
        assert nearest(memory, tmp_path, "在中国。") == ["在中国。"]
        assert len(embedder.passages) == embedded, "the vectors are in the ledger"
        assert (await index_of(memory)).generation == 2


async def test_what_is_archived_after_the_index_has_vanished_is_found_by_meaning(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, DistinctEmbedder(), LOOP) as memory:
        shutil.rmtree(tmp_path / "chroma")
        await memory.archive(run_loop("s", ("And Rome?", "In Italy.")))
        await memory.embed_pending()
        assert nearest(memory, tmp_path, "In Italy.") == ["In Italy."]
        assert nearest(memory, tmp_path, "In Switzerland.") == ["In Switzerland."]
        assert "2" in folders(tmp_path)


async def test_a_disk_that_refuses_a_new_index_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with remembering(tmp_path, DistinctEmbedder(), LOOP) as memory:
        (tmp_path / "chroma").rename(tmp_path / "elsewhere")
        (tmp_path / "chroma").write_text("in the way")
        assert (await memory.search("Where is Bern?", owner="me")).mode == "lexical"
        await memory.embed_pending()
        response = await memory.search("Where is Bern?", owner="me")
        assert (response.mode, bool(response.hits)) == ("lexical", True)
        assert str(tmp_path / "chroma") in (response.notice or "")
        (tmp_path / "chroma").unlink()
        assert memory.index.has_work  # a search looks again whether it goes now
        await memory.embed_pending()
        assert (await memory.search("Where is Bern?", owner="me")).mode == "hybrid"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("database or disk is full", "Free some space"),
        ("No space left on device (os error 28)", "Free some space"),
        ("attempt to write a readonly database", "who may write there"),
    ],
)
def test_a_disk_that_is_full_or_read_only_is_told_as_what_it_is(
    tmp_path: Path, words: str, advice: str
) -> None:
    with pytest.raises(StorageError) as raised, EmbeddedPlace(tmp_path).errors("written"):
        raise RuntimeError(words)
    assert words in raised.value.detail
    assert advice in raised.value.advice
