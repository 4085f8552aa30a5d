"""The archivist: nothing that ended is left out of memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from service.domain.errors import StorageError
from service.domain.run_loops import RunLoop
from service.memory.archive.archivist import Archivist
from service.memory.history.run_loop_table import millis_of
from service.memory.long_term import LongTermMemory
from service.memory.outline import Outline
from tests.support.memory.remembering import WordEmbedder, anchors, remembering, run_loop

pytestmark = pytest.mark.anyio

APPLES = run_loop("apples", ("red apples", "sweet"))
PEARS = run_loop("pears", ("green pears", "sour"))


class Finished:
    """Finished loops, as the journal would give them. Fails as often as told."""

    def __init__(self, *loops: RunLoop, failures: int = 0) -> None:
        self.loops = {loop.id: loop for loop in loops}
        self.loaded: list[str] = []
        self.failures = failures

    async def finished_run_loops(self) -> Iterable[Outline]:
        if self.failures:
            self.failures -= 1
            raise StorageError("the journal is out for lunch")
        gone = run_loop("gone meanwhile")
        return [outline_of(loop) for loop in (*self.loops.values(), gone)]

    async def load(self, run_loop_id: str) -> RunLoop | None:
        self.loaded.append(run_loop_id)
        return self.loops.get(run_loop_id)


def outline_of(loop: RunLoop) -> Outline:
    """As the journal would tell it."""
    ended_at = millis_of(loop.completed_at) if loop.completed_at else None
    return Outline(loop.owner, loop.id, loop.status, len(loop.iterations), ended_at)


@asynccontextmanager
async def working(memory: LongTermMemory, source: Finished) -> AsyncIterator[Archivist]:
    archivist = Archivist(memory, source, first_pause=0.01)
    async with anyio.create_task_group() as tasks:
        await tasks.start(archivist.run)
        yield archivist
        tasks.cancel_scope.cancel()


async def test_a_submitted_loop_is_archived_and_embedded(tmp_path: Path) -> None:
    async with (
        remembering(tmp_path, WordEmbedder()) as memory,
        working(memory, Finished()) as archivist,
    ):
        archivist.submit(APPLES)
        assert await archivist.drain() is None
        assert anchors(await memory.search("apples", owner="me"))[0] == "apples:0.0"
        stats = await memory.stats()
        assert (stats.segments, stats.embedded) == (2, 2)


async def test_the_last_state_of_a_loop_counts(tmp_path: Path) -> None:
    grown = run_loop("apples", ("red apples", "sweet"), ("and plums?", "sweet too"))
    async with remembering(tmp_path, None) as memory, working(memory, Finished()) as archivist:
        archivist.submit(APPLES)
        archivist.submit(grown)
        assert await archivist.drain() is None
        assert await memory.run_loop("apples", owner="me") == grown


async def test_what_a_crash_left_undone_is_done_at_the_start(tmp_path: Path) -> None:
    resting = run_loop("pears", ("green pears", ""), status="idle")
    async with remembering(tmp_path, WordEmbedder(fail_after=0), APPLES, resting):
        pass
    source = Finished(APPLES, PEARS)
    async with (
        remembering(tmp_path, WordEmbedder()) as memory,
        working(memory, source) as archivist,
    ):
        assert await archivist.drain() is None
        assert source.loaded == ["pears", "gone meanwhile"], "only what memory lacks is read"
        assert await memory.run_loop("pears", owner="me") == PEARS
        stats = await memory.stats()
        assert (stats.run_loops, stats.segments, stats.embedded) == (2, 4, 4)


async def test_failures_are_told_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = WordEmbedder(fail_after=0)
    async with (
        remembering(tmp_path, embedder) as memory,
        working(memory, Finished(APPLES, failures=2)) as archivist,
    ):
        with anyio.fail_after(20):
            while "lags behind: Texts could not be embedded" not in caplog.text:
                await anyio.sleep(0.01)
        embedder.fail_after = None
        while await archivist.drain() is not None:
            await anyio.sleep(0.01)
        assert (await memory.stats()).embedded == 2
    assert caplog.text.count("the journal is out for lunch") == 2


async def test_draining_tells_why_vectors_are_missing(tmp_path: Path) -> None:
    async with (
        remembering(tmp_path, WordEmbedder(fail_after=0)) as memory,
        working(memory, Finished()) as archivist,
    ):
        archivist.submit(APPLES)
        problem = await archivist.drain()
        assert problem is not None
        assert problem.kind == "embedding"
        assert (await memory.stats()).pending == 2


async def test_a_loop_that_can_never_be_archived_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        remembering(tmp_path, None) as memory,
        working(memory, Finished()) as archivist,
    ):
        archivist.submit(run_loop("broken", ("\ud83d", "")))
        archivist.submit(APPLES)
        assert await archivist.drain() is None
        assert await memory.run_loop("apples", owner="me") == APPLES
    assert len(caplog.records) == 1
    assert "Unicode" in caplog.text


async def test_of_many_at_once_one_that_can_never_be_archived_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = run_loop("broken", ("\ud83d", ""))
    async with (
        remembering(tmp_path, None) as memory,
        working(memory, Finished()) as archivist,
    ):
        assert await archivist.archive_many([APPLES, broken, PEARS]) is None
        for loop in (APPLES, PEARS):
            assert await memory.run_loop(loop.id, owner="me") == loop
    assert len(caplog.records) == 1
    assert "Unicode" in caplog.text


async def test_draining_a_stopped_archivist_does_not_hang(tmp_path: Path) -> None:
    async with remembering(tmp_path, None) as memory:
        async with working(memory, Finished()) as archivist:
            assert await archivist.drain() is None
        archivist.submit(APPLES)
        problem = await archivist.drain()
        assert problem is not None
        assert problem.kind == "stopped"
