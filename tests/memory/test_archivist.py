"""The archivist: nothing that ended is left out of memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from service.domain.errors import StorageError
from service.domain.history.events import RunLoopImported
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.archive.archivist import Archivist
from service.memory.journal.change_feed import Change
from service.memory.journal.imported_loops import Import, Written
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.long_term import LongTermMemory
from tests.support.memory.remembering import WordEmbedder, anchors, remembering, run_loop

pytestmark = pytest.mark.anyio

APPLES = run_loop("apples", ("red apples", "sweet"))
PEARS = run_loop("pears", ("green pears", "sour"))


@asynccontextmanager
async def kept(
    folder: Path, of: type[SqliteJournal] = SqliteJournal
) -> AsyncIterator[SqliteJournal]:
    """A journal, open."""
    journal = of(folder / "journal.sqlite3")
    journal.open(lambda change: None)
    yield journal
    await journal.aclose()


async def as_kept(journal: SqliteJournal, run_loop_id: str) -> RunLoop:
    return (await journal.replay(run_loop_id)).run_loop()


async def ended(journal: SqliteJournal, *loops: RunLoop) -> Written:
    """Run loops that have ended, or have grown since."""
    imports: list[Import] = []
    for loop in loops:
        body = RunLoopImported(run_loop=loop, source="elsewhere")
        existing = await journal.imports.existing([loop.id])
        before = await journal.replay(loop.id) if existing else None
        imports.append(Import(loop.id, body, body.model_dump_json(), before))
    return await journal.imports.append(imports, owner="me")


@asynccontextmanager
async def working(memory: LongTermMemory, journal: SqliteJournal) -> AsyncIterator[Archivist]:
    archivist = Archivist(memory, journal, first_pause=0.01)
    archivist.open(rebuild=not await archivist.is_in_step())
    async with anyio.create_task_group() as tasks:
        await tasks.start(archivist.run)
        yield archivist
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_loop_that_has_ended_is_archived_and_embedded(tmp_path: Path) -> None:
    async with (
        kept(tmp_path) as journal,
        remembering(tmp_path, WordEmbedder()) as memory,
        working(memory, journal) as archivist,
    ):
        await ended(journal, APPLES)
        assert await archivist.drain() is None
        assert anchors(await memory.search("apples", owner="me"))[0] == "apples:0.0"
        stats = await memory.stats()
        assert (stats.segments, stats.embedded) == (2, 2)


async def test_a_loop_is_archived_as_it_is_when_its_turn_comes(tmp_path: Path) -> None:
    grown = run_loop("apples", ("red apples", "sweet"), ("and plums?", "sweet too"))
    async with (
        kept(tmp_path) as journal,
        remembering(tmp_path, None) as memory,
        working(memory, journal) as archivist,
    ):
        async with archivist.held():
            await ended(journal, APPLES)
            await ended(journal, grown)
        assert await archivist.drain() is None
        assert await memory.run_loop("apples", owner="me") == await as_kept(journal, "apples")
        assert len((await as_kept(journal, "apples")).iterations) == 2


@pytest.mark.slow
async def test_what_was_never_read_from_the_change_feed_is_found_by_comparing(
    tmp_path: Path,
) -> None:
    resting = run_loop("pears", ("green pears", ""), status="idle")
    async with remembering(tmp_path, WordEmbedder(fail_after=0), APPLES, resting):
        pass
    async with kept(tmp_path) as journal:
        await ended(journal, APPLES, PEARS)
    async with (
        kept(tmp_path) as journal,
        remembering(tmp_path, WordEmbedder()) as memory,
        working(memory, journal) as archivist,
    ):
        assert await archivist.drain() is None
        assert await memory.run_loop("pears", owner="me") == await as_kept(journal, "pears")
        stats = await memory.stats()
        assert (stats.run_loops, stats.segments, stats.embedded) == (2, 4, 4)


async def test_failures_are_told_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, failures = WordEmbedder(fail_after=0), 2
    async with (
        kept(tmp_path) as journal,
        remembering(tmp_path, embedder) as memory,
        working(memory, journal) as archivist,
    ):
        assert await archivist.drain() is None
        read = journal.changes.read

        def failing(*, after: int, limit: int) -> list[Change]:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise StorageError("the journal is out for lunch")
            return read(after=after, limit=limit)

        monkeypatch.setattr(journal.changes, "read", failing)
        await ended(journal, APPLES)
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
        kept(tmp_path) as journal,
        remembering(tmp_path, WordEmbedder(fail_after=0)) as memory,
        working(memory, journal) as archivist,
    ):
        await ended(journal, APPLES)
        problem = await archivist.drain()
        assert problem is not None
        assert problem.kind == "embedding"
        assert (await memory.stats()).pending == 2


class OddJournal(SqliteJournal):
    """Of one loop it gives a goal that is no valid Unicode."""

    async def replay(self, run_loop_id: str, *, owner: str | None = None) -> RunLoopState:
        state = await super().replay(run_loop_id, owner=owner)
        return replace(state, goal="\ud83d") if run_loop_id == "odd" else state


@pytest.mark.parametrize("together", [True, False])
async def test_a_loop_that_can_never_be_archived_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, together: bool
) -> None:
    async with (
        kept(tmp_path, OddJournal) as journal,
        remembering(tmp_path, None) as memory,
        working(memory, journal) as archivist,
    ):
        names = ("apples", "odd", "pears")
        with archivist.expecting(("me", each) for each in names if together):
            written = await ended(journal, APPLES, run_loop("odd", ("words", "")), PEARS)
            if together:
                states = [await journal.replay(each) for each in names]
                assert await archivist.archive(states, read_at=written.change) is None
        assert await archivist.drain() is None
        for loop in (APPLES, PEARS):
            assert await memory.run_loop(loop.id, owner="me") == await as_kept(journal, loop.id)
        assert memory.pending.all() == []
    assert len(caplog.records) == 1
    assert "Unicode" in caplog.text


async def test_a_loop_that_cannot_be_archived_now_holds_up_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kept(tmp_path) as journal:
        async with remembering(tmp_path, None) as memory, working(memory, journal) as archivist:
            archive, broken = memory.archive, True

            async def failing(loop: RunLoop) -> int:
                if broken and loop.id == "pears":
                    raise StorageError("the disk has a bad spot")
                return await archive(loop)

            monkeypatch.setattr(memory, "archive", failing)
            await ended(journal, PEARS, APPLES)
            with anyio.fail_after(20):
                while await memory.run_loop("apples", owner="me") is None:
                    await anyio.sleep(0.01)
            problem = await archivist.drain()
            assert problem is not None
            assert "bad spot" in problem.in_words()
            place = memory.pending.checkpoint()
            assert place is not None
            assert place.number == journal.changes.last
            assert [each.run_loop_id for each in memory.pending.all()] == ["pears"]
        async with remembering(tmp_path, None) as memory, working(memory, journal) as archivist:
            assert await archivist.drain() is None
            assert await memory.run_loop("pears", owner="me") == await as_kept(journal, "pears")
            assert memory.pending.all() == []


async def test_only_what_has_changed_since_is_read_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    own = SqliteJournal.replay

    async def watched(
        journal: SqliteJournal, run_loop_id: str, *, owner: str | None = None
    ) -> RunLoopState:
        read.append(run_loop_id)
        return await own(journal, run_loop_id, owner=owner)

    async with kept(tmp_path) as journal, remembering(tmp_path, None) as memory:
        async with working(memory, journal) as archivist:
            await ended(journal, APPLES)
            assert await archivist.drain() is None
        await ended(journal, PEARS)
    monkeypatch.setattr(SqliteJournal, "replay", watched)
    async with (
        kept(tmp_path) as journal,
        remembering(tmp_path, None) as memory,
        working(memory, journal) as archivist,
    ):
        assert await archivist.drain() is None
        assert await memory.run_loop("pears", owner="me") == await as_kept(journal, "pears")
    assert set(read) == {"pears"}


async def test_draining_a_stopped_archivist_does_not_hang(tmp_path: Path) -> None:
    async with kept(tmp_path) as journal, remembering(tmp_path, None) as memory:
        async with working(memory, journal) as archivist:
            assert await archivist.drain() is None
        await ended(journal, APPLES)
        problem = await archivist.drain()
        assert problem is not None
        assert problem.kind == "stopped"
