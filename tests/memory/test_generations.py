"""Generations of the index: how one takes another's place, and what is left behind: nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import from_thread

from service.memory.ledger.sqlite.embedding_rows import SqliteEmbeddings
from service.memory.ledger.sqlite.generation_rows import SqliteIndexContents
from service.memory.memory_tuning import EMBEDDING_BATCH
from service.memory.stores import long_term_memory
from service.memory.vectors.chroma.chroma_index import ChromaIndex
from service.memory.vectors.chroma.chroma_places import EmbeddedPlace
from service.memory.vectors.embedding_queue import EmbeddingQueue
from service.memory.vectors.protocol import IndexEntry, stored_vectors
from tests.support.memory.indexing import (
    DistinctEmbedder,
    assert_whole,
    folders,
    index_of,
    nearest,
    rows,
)
from tests.support.memory.remembering import WordEmbedder, remembering, run_loop

pytestmark = pytest.mark.anyio

LOOPS = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(20)]


async def test_vectors_reach_the_ledger_and_the_index(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS) as memory:
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
        index = await index_of(memory)
        assert (index.generation, index.indexed, index.progress) == (1, 40, None)
        assert index.built_by == index.configured == WordEmbedder.identity
    assert_whole(tmp_path, segments=40)


async def test_a_lost_index_is_built_from_the_ledger_without_embedding_anything(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    shutil.rmtree(tmp_path / "chroma")
    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder) as memory:
        assert embedder.passages == []
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
    assert_whole(tmp_path, segments=40)


class CrashError(BaseException):
    """The process ends here."""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before the vectors", "before the index", "before the marks"])
async def test_a_crash_between_two_steps_loses_nothing_and_doubles_nothing(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = long_term_memory(tmp_path, WordEmbedder())
    await memory.start()
    for loop in LOOPS:
        await memory.archive(loop)

    def crash(*_: object, **__: object) -> None:
        raise CrashError

    with monkeypatch.context() as broken:
        if where == "before the vectors":
            broken.setattr(SqliteEmbeddings, "store", crash)
        elif where == "before the index":
            broken.setattr(ChromaIndex, "add", crash)
        else:
            broken.setattr(SqliteIndexContents, "mark_indexed", crash)
        with pytest.raises(CrashError):
            await memory.embed_pending()
    await memory.aclose()
    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder) as memory:
        assert len(embedder.passages) == (40 if where == "before the vectors" else 0)
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
    assert_whole(tmp_path, segments=40)


async def test_a_segment_that_goes_while_it_is_embedded_leaves_no_vector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = long_term_memory(tmp_path, WordEmbedder())
    await memory.start()
    await memory.archive(run_loop("r", ("apples", "pears"), status="idle"))
    await memory.warm_up()
    store = SqliteEmbeddings.store

    def replaced_meanwhile(*args: Any) -> None:
        monkeypatch.setattr(SqliteEmbeddings, "store", store)
        from_thread.run(memory.archive, run_loop("r", ("apples", "cherries")))
        store(*args)

    monkeypatch.setattr(SqliteEmbeddings, "store", replaced_meanwhile)
    await memory.embed_pending()
    assert sorted(nearest(memory, tmp_path, "pears", limit=9)) == ["apples", "cherries"]
    await memory.aclose()
    assert_whole(tmp_path, segments=2)


async def test_a_segment_that_goes_while_it_is_indexed_is_dropped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = long_term_memory(tmp_path, WordEmbedder())
    await memory.start()
    await memory.archive(run_loop("r", ("apples", "pears"), status="idle"))
    add = ChromaIndex.add

    def replaced_meanwhile(self: ChromaIndex, entries: object) -> None:
        monkeypatch.setattr(ChromaIndex, "add", add)
        from_thread.run(memory.archive, run_loop("r", ("apples", "cherries")))
        add(self, entries)  # type: ignore[arg-type]

    monkeypatch.setattr(ChromaIndex, "add", replaced_meanwhile)
    await memory.embed_pending()
    assert sorted(nearest(memory, tmp_path, "pears", limit=9)) == ["apples", "cherries"]
    await memory.aclose()
    assert_whole(tmp_path, segments=2)


async def test_vectors_that_the_ledger_knows_nothing_of_are_dropped_at_the_start(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    with_more = EmbeddedPlace(tmp_path / "chroma").open(1)
    (extra,) = stored_vectors(WordEmbedder().embed_passages(["stray"]))
    with_more.add([IndexEntry(10**6, "me", extra)])
    with_more.delete([5], owner="me")
    with_more.delete([6], owner="me")
    with_more.close()
    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder) as memory:
        assert "stray" not in nearest(memory, tmp_path, "stray", limit=100)
        assert embedder.passages == []
    assert_whole(tmp_path, segments=40)


async def test_files_that_no_generation_owns_are_deleted(tmp_path: Path) -> None:
    old = tmp_path / "chroma"
    (old / "77").mkdir(parents=True)
    (old / "77" / "chroma.sqlite3").write_text("left by a crash")
    (old / "chroma.sqlite3").write_text("of an older layout")
    (old / "0b5cc1d2-segment").mkdir()
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        assert folders(tmp_path) == ["1"]
    assert_whole(tmp_path, segments=40)


async def test_a_scrub_leaves_no_trace_of_vectors_that_are_gone(tmp_path: Path) -> None:
    loops = [*LOOPS, run_loop("secret", ("swordfish", "the password"), status="idle")]
    async with remembering(tmp_path, DistinctEmbedder(), *loops) as memory:
        numbers = rows(tmp_path, "SELECT id FROM segments WHERE run_loop_id = 'secret'")
        assert memory.index.dense is not None
        vectors = memory.index.dense.vectors_of([number for (number,) in numbers]).matrix
        signs = [row.tobytes()[:64] for row in vectors]

        def traces() -> int:
            files = [path for path in (tmp_path / "chroma").rglob("*") if path.is_file()]
            stored = b"".join(path.read_bytes() for path in files)
            return sum(sign in stored for sign in signs)

        assert traces() == 2
        await memory.archive(run_loop("secret"))
        await memory.embed_pending()
        assert traces() == 2, "Chroma itself overwrites nothing"
        await memory.index.scrub()
        assert (await index_of(memory)).scrub_pending
        assert await memory.index.scrubbed()
        assert traces() == 0
        assert not (await index_of(memory)).scrub_pending
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
    assert_whole(tmp_path, segments=40)


async def test_a_scrub_that_was_asked_for_before_a_crash_is_done_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS) as memory:
        await memory.index.scrub()
    async with remembering(tmp_path, WordEmbedder()) as memory:
        assert not (await index_of(memory)).scrub_pending
        assert folders(tmp_path) == ["2"]
    assert_whole(tmp_path, segments=40)


@pytest.mark.slow
@pytest.mark.parametrize("embedder", [None, "another"])
async def test_a_scrub_needs_no_embedder(tmp_path: Path, embedder: str | None) -> None:
    other = WordEmbedder() if embedder else None
    if other is not None:
        other.identity = "another dimension=1024"
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    async with remembering(tmp_path, other) as memory:
        await memory.index.scrub()
        assert await memory.index.scrubbed()
        assert folders(tmp_path) == []
        assert other is None or "reindex" in ((await index_of(memory)).notice or "")
    back = WordEmbedder()
    async with remembering(tmp_path, back) as memory:
        assert back.passages == []
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
    assert_whole(tmp_path, segments=40)


@pytest.mark.slow
async def test_searches_go_on_while_the_index_is_built_anew(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS) as memory:
        done = False

        async def scrub() -> None:
            nonlocal done
            for _ in range(3):
                await memory.index.scrub()
                await memory.archive(run_loop("late", *[("late", "later")] * (1 + _)))
                await memory.index.scrubbed()
            done = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scrub)
            while not done:
                texts = await anyio.to_thread.run_sync(nearest, memory, tmp_path, "answer 7")
                assert texts == ["answer 7"]
                await anyio.lowlevel.checkpoint()
    assert_whole(tmp_path, segments=46)


async def test_one_step_takes_one_small_batch(tmp_path: Path) -> None:
    loops = [run_loop(f"s{i}", (f"question {i}", f"answer {i}")) for i in range(30)]
    memory = long_term_memory(tmp_path, embedder := WordEmbedder())
    await memory.start()
    for loop in loops:
        await memory.archive(loop)
    queue: EmbeddingQueue = memory.index.queue
    queue.load()
    assert queue.step()
    assert len(embedder.passages) == EMBEDDING_BATCH, "shutting down waits for one step"
    progress = queue.progress()
    assert progress is not None
    assert (progress.doing, progress.total) == ("embedding", 60)
    await memory.embed_pending()
    assert queue.progress() is None
    await memory.aclose()
