"""Building the index of another embedder beside the old one, and what happens on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.domain.errors import ConflictError, EmbeddingError
from service.domain.run_loops import RunLoop
from service.memory.protocol import Vectors
from tests.support.memory.indexing import (
    OTHER_IDENTITY,
    assert_whole,
    folders,
    index_of,
    nearest,
    other_embedder,
    rows,
)
from tests.support.memory.remembering import WordEmbedder, remembering, run_loop

LOOPS = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(40)]


@pytest.mark.anyio
async def test_another_embedder_is_not_used_before_a_reindex_and_says_so(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    other = other_embedder()
    async with remembering(tmp_path, other, run_loop("new", ("late", "later"))) as memory:
        assert other.passages == [], "nothing is mixed, and nothing embedded in vain"
        index = await index_of(memory)
        assert (index.built_by, index.configured) == (WordEmbedder.identity, OTHER_IDENTITY)
        dense = memory.index.dense
        assert dense is not None
        for words in (index.notice, dense.why_not()):
            assert words is not None
            assert "words dimension=1024" in words
            assert "other-words v2" in words
            assert "`rondo memory reindex`" in words
        with pytest.raises(ConflictError):
            dense.nearest(dense.embed_queries(["x"]).vectors, owner="me", limit=1)
    first = WordEmbedder()
    async with remembering(tmp_path, first) as memory:
        assert sorted(first.passages) == ["late", "later"], "the first one comes back"
        assert (await index_of(memory)).notice is None
    assert_whole(tmp_path, segments=82)


@pytest.mark.anyio
async def test_an_empty_index_takes_whichever_embedder_comes(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder()):
        pass
    async with remembering(tmp_path, other_embedder(), *LOOPS) as memory:
        assert (await index_of(memory)).notice is None
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
    assert_whole(tmp_path, segments=80)


@pytest.mark.anyio
async def test_reindex_builds_the_new_index_and_drops_the_old_one(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    other = other_embedder()
    async with remembering(tmp_path, other) as memory:
        assert await memory.index.reindex(force=False) is None
        assert "already" in (await memory.index.reindex(force=True) or "")
        progress = (await index_of(memory)).progress
        assert progress is not None
        assert (progress.doing, progress.done, progress.total) == ("reindexing", 0, 80)
        await memory.embed_pending()
        assert len(other.passages) == 80
        index = await index_of(memory)
        assert (index.built_by, index.notice, index.progress) == (OTHER_IDENTITY, None, None)
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
        assert "nothing to do" in (await memory.index.reindex(force=False) or "")
        assert rows(tmp_path, "SELECT identity FROM embedders") == [(OTHER_IDENTITY,)]
    assert_whole(tmp_path, segments=80)


@pytest.mark.anyio
async def test_reindex_by_force_embeds_nothing_and_searches_go_on(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    async with remembering(tmp_path, embedder, *LOOPS) as memory:
        assert await memory.index.reindex(force=True) is None
        queue = memory.index.queue
        while queue.step():
            assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
        assert len(embedder.passages) == 80
        assert folders(tmp_path) == ["2"]
    assert_whole(tmp_path, segments=80)


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_is_archived_during_a_reindex_is_not_lost(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    async with remembering(tmp_path, other_embedder()) as memory:
        await memory.index.reindex(force=False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.embed_pending)
            for number in range(20):
                loop = run_loop(f"late{number}", (f"late {number}", "yes"))
                tasks.start_soon(memory.archive, loop)
        await memory.embed_pending()
        assert nearest(memory, tmp_path, "late 19") == ["late 19"]
    assert_whole(tmp_path, segments=120)


@pytest.mark.anyio
async def test_an_embedder_that_fails_on_the_way_leaves_the_old_index_as_it_was(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    failing = other_embedder()
    failing.fail_after = 40
    async with remembering(tmp_path, failing) as memory:
        await memory.index.reindex(force=False)
        problem = (await memory.embed_pending()).problem
        assert problem is not None
        assert "the model has left" in problem.in_words()
    first = WordEmbedder()
    async with remembering(tmp_path, first) as memory:
        assert first.passages == []
        assert nearest(memory, tmp_path, "answer 7") == ["answer 7"]
    assert_whole(tmp_path, segments=80)


@pytest.mark.anyio
async def test_reindex_without_an_embedder_is_refused_in_words(tmp_path: Path) -> None:
    async with remembering(tmp_path, None) as memory:
        with pytest.raises(ConflictError, match="no embedder"):
            await memory.index.reindex(force=False)


@pytest.mark.anyio
async def test_a_text_that_the_new_embedder_refuses_does_not_hold_up_the_swap(
    tmp_path: Path,
) -> None:
    class Picky(WordEmbedder):
        identity = OTHER_IDENTITY

        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if "answer 7" in texts:
                raise EmbeddingError("this text is not taken")
            return super().embed_passages(texts)

    async with remembering(tmp_path, WordEmbedder(), *LOOPS):
        pass
    async with remembering(tmp_path, Picky()) as memory:
        await memory.index.reindex(force=False)
        await memory.embed_pending()
        index = await index_of(memory)
        assert (index.built_by, index.indexed) == (OTHER_IDENTITY, 79)
        assert memory.index.queue.count_pending("me") == 1


_REINDEXING = """
import sys, time
from pathlib import Path
import anyio
from tests.support.memory.indexing import other_embedder

from service.memory.long_term import LongTermMemory
from service.memory.stores import long_term_memory

async def main():
    embedder = other_embedder()
    embed = embedder.embed_passages
    def slowly(texts):
        time.sleep(0.05)
        print(len(texts), flush=True)
        return embed(texts)
    embedder.embed_passages = slowly
    memory = long_term_memory(Path(sys.argv[1]), embedder)
    await memory.start()
    print("notice", await memory.index.reindex(force=False), flush=True)
    await memory.embed_pending()
    print("done", flush=True)

anyio.run(main)
"""


@pytest.mark.slow
def test_killed_again_and_again_a_reindex_ends_with_everything_once(tmp_path: Path) -> None:
    loops = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(200)]
    anyio.run(_remember, tmp_path, loops)
    embedded = 0
    for kill_after in (1, 6, 9, 4, None):
        with subprocess.Popen(
            [sys.executable, "-c", _REINDEXING, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        ) as process:
            assert process.stdout is not None
            lines = 0
            for line in process.stdout:
                if line.strip().isdecimal():
                    lines += 1
                    embedded += int(line)
                if lines == kill_after:
                    time.sleep(0.02 * kill_after)  # not always at the same place
                    process.send_signal(signal.SIGKILL)
                    break
            process.wait()
        assert (process.returncode == 0) == (kill_after is None)
    assert embedded < 400 + 5 * 32, "what was embedded before a kill is not embedded again"
    anyio.run(_nothing_is_left_to_do, tmp_path)
    assert_whole(tmp_path, segments=400, killed=True)


async def _remember(folder: Path, loops: list[RunLoop]) -> None:
    async with remembering(folder, WordEmbedder(), *loops):
        pass


async def _nothing_is_left_to_do(folder: Path) -> None:
    other = other_embedder()
    async with remembering(folder, other) as memory:
        assert other.passages == []
        assert nearest(memory, folder, "answer 77") == ["answer 77"]
