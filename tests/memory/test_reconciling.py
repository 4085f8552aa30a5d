"""Journal and ledger come into step again, whichever of them lags behind."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from service.domain.errors import Problem, StorageError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import RunLoopFailed, RunLoopImported, RunLoopResumed
from service.domain.history.own_part import closed_part
from service.domain.run_loops import RunLoop
from service.memory.archive.archivist import NoHooks
from service.memory.ledger.protocol import Pending
from service.memory.memory import Memory
from tests.support.memory.exchanging import at_work, bring_in, exported, loop, turn
from tests.support.memory.remembering import run_loop
from tests.support.memory.secrets import (
    Loop,
    archived,
    forget,
    record_exchange,
    traces,
    working_memory,
)

pytestmark = pytest.mark.anyio

FAILED = RunLoopFailed(problem=Problem(kind="llm", title="The model is away"))


async def failed(memory: Memory, loop: Loop, words: str) -> None:
    """A turn that fails in the end."""
    await loop.say(words)
    await loop.answer(f"answer to {words}")
    await memory.journal.append(loop.id, FAILED, owner="me")


async def anchors_holding(memory: Memory, words: str) -> list[str]:
    """What is found of these words and holds them."""
    hits = (await memory.long_term.search(words, owner="me")).hits
    return [hit.anchor.text for hit in hits if words in hit.content]


@pytest.mark.slow
@pytest.mark.parametrize("says_more", [True, False])
async def test_a_loop_that_failed_again_unseen_is_archived_at_the_next_start(
    tmp_path: Path, says_more: bool
) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "r")
        await failed(memory, loop, "apples")
        await archived(memory)
    async with Memory(tmp_path, None) as memory:  # nobody archives here: as if it were killed
        loop.goes_on_in(memory)
        await memory.journal.append("r", RunLoopResumed(), owner="me")
        if says_more:
            await failed(memory, loop, "walruses")
        else:
            await memory.journal.append("r", FAILED, owner="me")
        journaled = closed_part(await memory.journal.replay("r"))
        assert await memory.long_term.run_loop("r", owner="me") != journaled
    async with working_memory(tmp_path) as memory:
        await archived(memory)
        assert await memory.long_term.run_loop("r", owner="me") == journaled
        assert bool(await anchors_holding(memory, "walruses")) is says_more
        finished = memory.journal.run_loops.outlines()
        assert await memory.long_term.outdated(finished) == [], "and they are in step"


@pytest.mark.slow
async def test_growth_that_the_disk_refused_is_archived_while_the_house_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", turn("One?", "It")))
        await memory.archivist.drain()
        archive, failures = memory.long_term.archive, 3

        async def failing(run_loop: RunLoop) -> int:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise StorageError("the disk is full")
            return await archive(run_loop)

        async def failing_many(run_loops: object) -> int:
            raise StorageError("the disk is full")

        monkeypatch.setattr(memory.long_term, "archive", failing)
        monkeypatch.setattr(memory.long_term, "archive_many", failing_many)
        # It grew within its only iteration: neither count nor end tells that.
        await bring_in(memory, loop("a", turn("One?", "It is walruses")))
        assert [each.run_loop_id for each in memory.long_term.pending.all()] == ["a"]
        with anyio.fail_after(20):
            while memory.long_term.pending.all():
                await anyio.sleep(0.02)
        assert await anchors_holding(memory, "walruses")


async def test_what_was_archived_by_its_import_is_not_archived_again(tmp_path: Path) -> None:
    archived: list[str] = []

    class Watched(NoHooks):
        async def after_archiving(self, run_loop: RunLoop) -> None:
            archived.append(run_loop.id)

    async with Memory(tmp_path, None) as memory, anyio.create_task_group() as group:
        group.start_soon(memory.work, Watched())
        await bring_in(memory, loop("a", turn("One?")))
        await bring_in(memory, loop("a", turn("One?"), turn("Two?")))
        assert await memory.archivist.drain() is None
        assert memory.long_term.pending.all() == []
        assert archived == ["a", "a"]
        group.cancel_scope.cancel()


async def test_what_grew_again_since_it_was_archived_stays_pending(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        pending = memory.long_term.pending
        pending.take_in([Pending("me", "a", 1)], None)
        pending.take_in([Pending("me", "a", 2, lost_words=True)], None)
        pending.settle({("me", "a"): 1})
        assert pending.all() == [Pending("me", "a", 2, lost_words=True)]
        pending.settle({("me", "a"): 2})
        assert pending.all() == []


def backup(folder: Path) -> None:
    shutil.copy(folder / "journal.sqlite3", folder / "backup")


def without_a_place(folder: Path) -> None:
    """A ledger as earlier versions wrote them."""
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as db, db:
        db.execute("DELETE FROM checkpoint")


def restored(folder: Path) -> None:
    for name in ("journal.sqlite3", "journal.sqlite3-wal", "journal.sqlite3-shm"):
        (folder / name).unlink(missing_ok=True)
    (folder / "backup").rename(folder / "journal.sqlite3")


@pytest.mark.slow
async def test_what_a_restored_journal_lacks_is_back_and_can_be_forgotten(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "old", "pears", "green")
        await archived(memory)
    backup(tmp_path)
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "newer", "Walrosszahn", "long")
        await record_exchange(memory, "hers", "Narwal", "longer", owner="you")
        resting = Loop(memory, "open")
        await (await resting.say("Seekuh")).answer("round")
        await archived(memory)
        await memory.long_term.archive(closed_part(await memory.journal.replay("open")))
        journaled = await memory.load("newer")
    restored(tmp_path)
    async with working_memory(tmp_path) as memory:
        await archived(memory)
        assert await memory.load("newer") == journaled
        assert (await memory.journal.replay("hers")).owner == "you"
        back = await memory.journal.replay("open")
        assert (back.status, back.iteration_count) == ("completed", 1)
        bodies = [event.body for event in await memory.journal.read(run_loop_id="newer")]
        assert isinstance(bodies[0], RunLoopImported)
        assert (len(bodies), bodies[0].source) == (1, "ledger")
        assert b"Walrosszahn" in await exported(memory)
        last_seq = memory.journal.last_seq
    async with working_memory(tmp_path) as memory:
        assert memory.journal.last_seq == last_seq, "and only once"
        await forget(memory, ForgetRequest(run_loop_ids=("newer",)))
        assert await anchors_holding(memory, "Walrosszahn") == []
    assert traces(tmp_path, "Walrosszahn") == []


async def test_what_a_restored_journal_lacks_of_a_loop_is_back(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "r")
        await failed(memory, loop, "apples")
        await archived(memory)
    backup(tmp_path)
    async with working_memory(tmp_path) as memory:
        loop.goes_on_in(memory)
        await memory.journal.append("r", RunLoopResumed(), owner="me")
        await failed(memory, loop, "walruses")
        await archived(memory)
        journaled = await memory.load("r")
    restored(tmp_path)
    async with working_memory(tmp_path) as memory:
        await archived(memory)
        assert await memory.load("r") == journaled
        assert await memory.long_term.run_loop("r", owner="me") == journaled


@pytest.mark.slow
async def test_what_only_the_ledger_has_and_was_forgotten_does_not_come_back(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "gone", "Walrosszahn", "long")
        await record_exchange(memory, "stays", "pears", "green")
        await archived(memory)
    shutil.copy(tmp_path / "memory.sqlite3", tmp_path / "old ledger")
    async with working_memory(tmp_path) as memory:
        await forget(memory, ForgetRequest(run_loop_ids=("gone",)))
    (tmp_path / "old ledger").rename(tmp_path / "memory.sqlite3")
    async with working_memory(tmp_path) as memory:
        assert await anchors_holding(memory, "Walrosszahn") == []
        assert await memory.load("gone") is None
        assert await memory.load("stays") is not None
        await archived(memory)
    assert traces(tmp_path, "Walrosszahn") == []


async def test_a_loop_whose_id_is_taken_here_keeps_no_other_from_coming_back(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "r", "pears", "green", owner="you")
        await memory.long_term.archive(run_loop("r", ("apples", "red")))
        await memory.long_term.archive(run_loop("s", ("plums", "blue")))
    without_a_place(tmp_path)
    async with working_memory(tmp_path) as memory:
        assert (await memory.journal.replay("r")).owner == "you"
        assert await memory.load("s") is not None


@pytest.mark.slow
async def test_an_old_state_on_its_way_is_read_anew_after_words_have_gone(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await archived(memory)
        old, read_at = await memory.journal.replay("r"), memory.journal.changes.last
        await forget(memory, ForgetRequest(run_loop_ids=("r",)))
        await record_exchange(memory, "s", "plums", "blue")
        await archived(memory)
        assert await memory.archivist.archive([old], read_at=read_at) is None
        assert await memory.long_term.run_loop("r", owner="me") is None


async def test_a_search_says_so_while_memory_is_brought_in_from_the_journal(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        for name in ("one", "two", "three"):
            await record_exchange(memory, name, f"What is {name}?", "A number.")
        await archived(memory)
    for file in tmp_path.glob("memory.sqlite3*"):
        file.unlink()
    held = anyio.Event()

    class Slow(NoHooks):
        async def after_archiving(self, run_loop: RunLoop) -> None:
            await held.wait()

    async with Memory(tmp_path, None) as memory, anyio.create_task_group() as group:
        group.start_soon(memory.work, Slow())
        with anyio.fail_after(20):
            while (await memory.long_term.stats()).run_loops < 1:
                await anyio.sleep(0.01)
        told_now = (await memory.long_term.search("number", owner="me")).notice or ""
        assert "brought in from the journal: 0 of 3 run loops" in told_now
        assert "0 of 3" in ((await memory.long_term.stats()).notice or "")
        held.set()
        await memory.archivist.drain()
        assert (await memory.long_term.stats()).notice is None
        assert "journal" not in ((await memory.long_term.search("two", owner="me")).notice or "")
        group.cancel_scope.cancel()
