"""The change feed: what is told of each change, and what a place in it is worth after a crash."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from service.domain.errors import StorageError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import RunLoopCompleted, RunLoopIdle, RunLoopStarted
from service.domain.history.own_part import closed_part
from service.memory.journal.change_feed import Change, Checkpoint
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.memory import Memory
from tests.support.histories import received
from tests.support.memory.exchanging import at_work, bring_in, loop, turn
from tests.support.memory.journal_file import rows
from tests.support.memory.killed_reading import said
from tests.support.memory.secrets import archived, forget, record_exchange, working_memory

pytestmark = pytest.mark.anyio


def heard(memory: Memory, after: int = 0) -> list[tuple[str, str]]:
    """Kind and run loop of each change."""
    changes = memory.journal.changes.read(after=after, limit=1000)
    assert [each.number for each in changes] == list(range(after + 1, after + len(changes) + 1))
    return [(each.kind, each.run_loop_id) for each in changes]


async def test_each_commit_is_a_change_with_the_events_that_it_wrote(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        commit = await memory.journal.append(
            "a", RunLoopStarted(goal="hi"), received("hi"), owner="me"
        )
        await memory.journal.append("a", RunLoopIdle())
        first, second = memory.journal.changes.read(after=0, limit=10)
        assert (first.first_seq, first.last_seq, first.owner) == (1, 2, "me")
        assert (second.first_seq, second.last_seq, second.kind) == (3, 3, "appended")
        assert (commit.number, memory.journal.changes.last) == (1, 2)
        assert memory.journal.changes.read(after=1, limit=10) == [second]


@pytest.mark.slow
async def test_imports_and_what_is_forgotten_are_changes_of_their_own_kinds(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await bring_in(memory, loop("a", turn("One?")), loop("b", turn("Two?")))
        assert heard(memory) == [("imported", "a"), ("imported", "b")]
        await record_exchange(memory, "secret", "Where is it?", "Under the lighthouse.")
        before = memory.journal.changes.last
        assert {kind for kind, _ in heard(memory, after=2)} == {"appended"}
        await archived(memory)
        await forget(memory, ForgetRequest(run_loop_ids=("secret",)))
        assert heard(memory, after=before) == [("removed", "secret")]
        assert memory.journal.lost_words_at == before + 1


async def test_what_could_not_be_committed_is_no_change(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.sqlite3")
    told_of: list[Change] = []
    journal.open(told_of.append)
    await journal.append("a", RunLoopStarted(goal="hi"), received("hi"), owner="me")
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db, db:
        db.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON events"
            " BEGIN SELECT raise(ABORT, 'no room'); END"
        )
    with pytest.raises(StorageError):
        await journal.append("a", RunLoopIdle())
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db, db:
        db.execute("DROP TRIGGER refuse")
    await journal.append("a", RunLoopIdle())
    assert [each.number for each in told_of] == [1, 2]
    place = journal.changes.checkpoint(2)
    await journal.aclose()
    again = SqliteJournal(tmp_path / "journal.sqlite3")
    again.open(told_of.append)
    assert again.changes.matches(place)
    assert again.changes.last == 2
    await again.aclose()


async def test_a_subscriber_is_woken_for_what_it_wants_and_can_be_waited_for(
    tmp_path: Path,
) -> None:
    async with Memory(tmp_path, None) as memory, anyio.create_task_group() as group:
        feed = memory.journal.changes
        seen: list[int] = []
        wait_over = anyio.Event()

        with feed.subscribe("reader", lambda change: change.run_loop_id == "b") as reader:
            await memory.journal.append("a", RunLoopStarted(goal="x"), received("x"), owner="me")
            assert feed.lags()["reader"] == 0
            await feed.wait_until("reader", feed.last)

            commit = await memory.journal.append(
                "b", RunLoopStarted(goal="x"), received("x"), owner="me"
            )
            await memory.journal.append("a", RunLoopIdle())
            assert feed.lags()["reader"] == 2, "it has yet to look at both"

            async def waiting() -> None:
                await feed.wait_until("reader", commit.number)
                wait_over.set()

            group.start_soon(waiting)
            await anyio.wait_all_tasks_blocked()
            assert not wait_over.is_set()
            seen.append(await reader.changed())
            reader.done(feed.last)
            with anyio.fail_after(10):
                await wait_over.wait()
            assert (seen, feed.lags()["reader"]) == ([commit.number], 0)
        await feed.wait_until("reader", feed.last)  # it is gone: nobody waits for it
        assert "reader" not in feed.lags()


# --- a place, and another journal


async def test_a_place_is_of_one_journal_and_of_its_very_changes(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await said(memory.journal, "a")
        place = memory.journal.changes.checkpoint(2)
        assert memory.journal.changes.matches(place)
        assert not memory.journal.changes.matches(place._replace(journal_id="another"))
        assert not memory.journal.changes.matches(place._replace(number=1))
        assert not memory.journal.changes.matches(Checkpoint(place.journal_id, 99, place.hash))
    async with Memory(tmp_path / "another", None) as memory:
        await said(memory.journal, "a")
        assert memory.journal.changes.last >= 2
        other = memory.journal.changes.checkpoint(2)
        assert (other.journal_id, other.hash) != (place.journal_id, place.hash)


async def test_changes_that_long_term_memory_has_passed_are_not_kept_for_good(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path) as memory:
        await said(memory.journal, "a")
        assert await memory.archivist.drain() is None
        last = memory.journal.changes.last
        assert await memory.journal.trim_changes(before=memory.archivist.place) == last - 1
        assert await memory.journal.trim_changes(before=memory.archivist.place) == 0
    async with at_work(tmp_path) as memory:
        assert await memory.archivist.is_in_step()
        await said(memory.journal, "b")
        assert memory.journal.changes.last > last
        assert await memory.archivist.drain() is None


def pulled(folder: Path, kept: Path) -> None:
    """The power fails: of the journal's newest commits none has reached the disk."""
    for file in folder.glob("journal.sqlite3*"):
        file.unlink()
    shutil.copy(kept, folder / "journal.sqlite3")


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_place_ahead_of_a_journal_that_lost_its_tail_has_memory_rebuilt(
    tmp_path: Path, goes_on: bool
) -> None:
    folder, kept = tmp_path / "house", tmp_path / "kept"
    async with at_work(folder) as memory:
        await said(memory.journal, "a", words="the heron")
        assert await memory.archivist.drain() is None
    shutil.copy(folder / "journal.sqlite3", kept)
    async with at_work(folder) as memory:
        await said(memory.journal, "a", words="the walrus")
        assert await memory.archivist.drain() is None
        ahead = memory.long_term.pending.checkpoint()
    pulled(folder, kept)
    if goes_on:  # as many changes under the same numbers, which nobody reads meanwhile
        journal = SqliteJournal(folder / "journal.sqlite3")
        journal.open(lambda change: None)
        await said(journal, "a", words="the stork")
        assert ahead is not None
        assert journal.changes.last >= ahead.number
        assert not journal.changes.matches(ahead)
        await journal.aclose()
    async with at_work(folder) as memory:
        assert await memory.archivist.drain() is None
        assert await memory.archivist.is_in_step()
        archived_loop = await memory.long_term.run_loop("a", owner="me")
        assert archived_loop == closed_part(await memory.journal.replay("a"))
        assert not (await memory.long_term.search("walrus", owner="me")).hits


# --- an older data folder


async def test_a_journal_without_changes_is_taken_over(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await said(memory.journal, "talk", words="the heron")
        await bring_in(memory, loop("file", turn("One?", "It")))
        assert await memory.archivist.drain() is None
    # It grew in a file, and the daemon of an earlier version died before it was archived.
    async with Memory(tmp_path, None) as memory:
        memory.append_imports = memory.journal.imports.append  # type: ignore[method-assign]
        await bring_in(memory, loop("file", turn("One?", "It is walruses")))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
        db.executescript(
            "DROP TABLE changes; DROP TABLE journal_id; PRAGMA user_version = 1;"
            "CREATE TABLE grown_imports (run_loop_id TEXT PRIMARY KEY) WITHOUT ROWID;"
            "INSERT INTO grown_imports VALUES ('file')"
        )
    with closing(sqlite3.connect(tmp_path / "memory.sqlite3")) as db:
        db.executescript("DROP TABLE checkpoint; DROP TABLE pending")
    async with at_work(tmp_path) as memory:
        assert await memory.archivist.drain() is None
        assert (await memory.long_term.search("walruses", owner="me")).hits
        assert heard(memory)[0] == ("imported", "file")
        tables = rows(tmp_path / "journal.sqlite3", "SELECT name FROM sqlite_master")
        assert ("grown_imports",) not in tables
        state = memory.short_term.state("talk")
        assert state is not None
        assert await memory.long_term.run_loop("talk", owner="me") == closed_part(state)
        await memory.journal.append("talk", RunLoopCompleted())
        assert await memory.archivist.drain() is None
        archived_loop = await memory.long_term.run_loop("talk", owner="me")
        assert archived_loop is not None
        assert archived_loop.status == "completed"


# --- kill -9


def killed(folder: Path, rng: random.Random) -> None:
    """Let a process talk for a while, and kill it."""
    command = [sys.executable, "-m", "tests.support.memory.killed_reading", str(folder)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        for _ in range(rng.randrange(2, 25)):
            assert process.stdout.readline()
        process.kill()


@pytest.mark.slow
async def test_nothing_is_missed_however_often_the_process_is_killed(tmp_path: Path) -> None:
    rng = random.Random(7)
    for _ in range(6):
        await anyio.to_thread.run_sync(killed, tmp_path, rng)
    async with at_work(tmp_path) as memory:
        assert await memory.archivist.is_in_step(), "a kill loses nothing that was committed"
        assert await memory.archivist.drain() is None
        outlines = memory.journal.run_loops.outlines()
        assert len(outlines) > 5
        running = {each.key for each in outlines if each.status == "running"}
        assert {each.key for each in memory.long_term.pending.all()} <= running
        for each in (each for each in outlines if each.key not in running):
            archived_loop = await memory.long_term.run_loop(each.id, owner="me")
            assert archived_loop == closed_part(await memory.journal.replay(each.id))
