"""Chroma folders that are really damaged: set aside, built anew, nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from service.domain.errors import IndexDamagedError, StorageError
from service.domain.run_loops import RunLoop
from service.memory.stores import long_term_memory
from service.memory.vectors.chroma.chroma_index import ChromaIndex
from service.memory.vectors.chroma.chroma_places import EmbeddedPlace
from tests.support.memory.indexing import DistinctEmbedder, folders, index_of, nearest, rows
from tests.support.memory.remembering import WordEmbedder, remembering, run_loop

pytestmark = pytest.mark.anyio

SEGMENTS = 1200
"""More than Chroma keeps in its log: so many that it has written its graph to files."""


def loops() -> list[RunLoop]:
    turns = [(f"question {i}", f"answer {i}") for i in range(SEGMENTS // 2)]
    return [run_loop("r", *turns)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")

    async def fill() -> None:
        async with remembering(folder, DistinctEmbedder(), *loops()):
            pass

    anyio.run(fill)
    return folder


def overwrite(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite_the_middle(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 3)
        file.write(os.urandom(size // 3))


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("chroma.sqlite3", overwrite),
        ("chroma.sqlite3", cut),
        ("chroma.sqlite3", overwrite_the_middle),
        ("chroma.sqlite3", empty),
        ("chroma.sqlite3", Path.unlink),
        ("data_level0.bin", cut),
        ("data_level0.bin", overwrite),
        ("data_level0.bin", Path.unlink),
        ("header.bin", overwrite),
        ("header.bin", cut),
        ("link_lists.bin", Path.unlink),
        ("link_lists.bin", overwrite),
        ("index_metadata.pickle", overwrite),
        ("index_metadata.pickle", Path.unlink),
        ("*-*-*", shutil.rmtree),
    ],
)
async def test_a_damaged_folder_is_set_aside_and_built_anew(
    sound: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = tmp_path / "home"
    shutil.copytree(sound, folder)
    (damaged,) = (folder / "chroma" / "1").rglob(name)
    damage(damaged)
    embedder = DistinctEmbedder()
    async with remembering(folder, embedder) as memory:
        assert embedder.passages == [], "the vectors are in the ledger"
        index = await index_of(memory)
        assert (index.generation, index.indexed) == (2, SEGMENTS)
        assert nearest(memory, folder, "answer 7") == ["answer 7"]
        new, aside = folders(folder)[-1], folders(folder)[0]
        if name != "chroma.sqlite3" or damage is not Path.unlink:
            new, aside = "2", index.damaged[0]
            assert re.fullmatch(r"1\.damaged-\d{8}T\d{6}", aside)
            assert sorted([new, aside]) == folders(folder)
        await memory.index.scrub()
        assert await memory.index.scrubbed()
        assert folders(folder) == ["3"], "what was set aside holds vectors too"


@pytest.mark.slow
async def test_search_goes_by_words_until_the_new_index_is_there(
    sound: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "home"
    shutil.copytree(sound, folder)
    overwrite(folder / "chroma" / "1" / "chroma.sqlite3")
    memory = long_term_memory(folder, DistinctEmbedder())
    await memory.start()
    assert await memory.warm_up() is None
    dense = memory.index.dense
    assert dense is not None
    assert "built anew" in (dense.why_not() or "")
    progress = (await index_of(memory)).progress
    assert progress is not None
    assert (progress.doing, progress.done, progress.total) == ("rebuilding", 0, SEGMENTS)
    await memory.embed_pending()
    assert dense.why_not() is None
    await memory.aclose()


async def test_a_start_that_was_killed_while_opening_a_sound_index_costs_nothing(
    sound: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "home"
    shutil.copytree(sound, folder)
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as db, db:
        db.execute("UPDATE generations SET closed_as = ''")  # as while it is open
    async with remembering(folder, DistinctEmbedder()) as memory:
        assert (await index_of(memory)).generation == 1
    ((closed_as,),) = rows(folder, "SELECT closed_as FROM generations")
    assert closed_as == EmbeddedPlace(folder / "chroma").fingerprint(1)


@pytest.mark.slow
@pytest.mark.parametrize("in_use", ["search", "add", "delete"])
async def test_damage_that_shows_in_use_is_mended_while_words_are_searched(
    tmp_path: Path, in_use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [run_loop("a", ("apples", "pears"), status="idle"), run_loop("b", ("plums", "figs"))]
    async with remembering(tmp_path, WordEmbedder(), *first) as memory:
        dense = memory.index.dense
        assert dense is not None
        calls = 0
        true = getattr(ChromaIndex, in_use)

        def damaged(self: ChromaIndex, *args: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise IndexDamagedError("the disk has a hole")
            return true(self, *args, **named)

        monkeypatch.setattr(ChromaIndex, in_use, damaged)
        if in_use == "search":
            with pytest.raises(IndexDamagedError, match="hole"):
                nearest(memory, tmp_path, "apples")
            assert "damaged" in (dense.why_not() or "")
        else:
            await memory.archive(run_loop("a", ("apples", "cherries")))
        await memory.embed_pending()
        texts = nearest(memory, tmp_path, "figs", limit=9)
        assert texts[0] == "figs"
        assert len(texts) == 4
        assert len((await index_of(memory)).damaged) == 1
        assert (await memory.stats()).pending == 0


async def test_a_disk_that_refuses_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with remembering(tmp_path, WordEmbedder(), run_loop("a", ("apples", "pears"))):
        pass

    class Full:
        def __init__(self, *_: object) -> None:
            with EmbeddedPlace(tmp_path / "chroma").errors("opened"):
                raise RuntimeError("error returned from database: (code: 13) disk is full")

    monkeypatch.setattr("service.memory.vectors.chroma.chroma_places.ChromaIndex", Full)
    async with remembering(tmp_path, WordEmbedder()) as memory:
        problem = memory.index.problem
        assert problem is not None
        assert "disk is full" in problem.detail
        assert "Free some space" in problem.advice
    assert folders(tmp_path) == ["1"], "nothing was set aside"


async def test_an_index_that_is_damaged_each_time_is_not_rebuilt_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise IndexDamagedError("the disk has a hole")

    monkeypatch.setattr(ChromaIndex, "add", damaged)
    async with remembering(tmp_path, WordEmbedder(), run_loop("a", ("apples", "pears"))) as memory:
        problem = memory.index.problem
        assert problem is not None
        assert "hole" in problem.detail
        assert len((await index_of(memory)).damaged) <= 4


def test_an_error_of_the_disk_is_told_apart_from_damage(tmp_path: Path) -> None:
    place = EmbeddedPlace(tmp_path)
    with pytest.raises(StorageError) as refused, place.errors("written"):
        raise OSError(28, "No space left on device")
    assert not isinstance(refused.value, IndexDamagedError)
    with pytest.raises(IndexDamagedError), place.errors("read"):
        raise RuntimeError("database disk image is malformed")
