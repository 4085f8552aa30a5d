"""The journal: nothing acknowledged is lost, and what is written is what is folded."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, NotFoundError, StorageError
from service.domain.history.events import (
    IterationStarted,
    MessageCompleted,
    MessageDelta,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopIdle,
    RunLoopResumed,
    RunLoopStarted,
)
from service.domain.history.fold import fold
from service.memory.journal.appends import Append, copies_of
from service.memory.journal.sqlite.sqlite_journal import COMMITS_BETWEEN_LOOKS, SqliteJournal
from service.storage.sqlite_file import SqliteFile
from tests.support.histories import received
from tests.support.memory.opened_journal import Opened, begin_loop

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite3"


async def test_what_is_read_back_folds_to_the_state_that_was_live(path: Path) -> None:
    opened = Opened(path)
    await begin_loop(opened.journal, goal="你好 👋\x00 \n")
    commit = await opened.journal.append("a", IterationStarted(index=0))
    await opened.journal.aclose()

    again = Opened(path)
    assert again.active == [commit.state]
    events = await again.journal.read(run_loop_id="a")
    assert fold(events) == commit.state
    assert [e.seq for e in events] == [1, 2, 3]
    assert events == [e for c in opened.commits for e in c.events]


async def test_sequence_numbers_count_over_all_loops_and_go_on_after_a_restart(
    path: Path,
) -> None:
    opened = Opened(path)
    await begin_loop(opened.journal, "a")
    await begin_loop(opened.journal, "b")
    await opened.journal.aclose()
    again = Opened(path)
    commit = await again.journal.append("a", IterationStarted(index=0))
    assert commit.events[0].seq == 5


async def test_an_ended_loop_takes_nothing_more(path: Path) -> None:
    journal = Opened(path).journal
    await begin_loop(journal)
    await journal.append("a", RunLoopIdle(), RunLoopCompleted())
    with pytest.raises(ConflictError, match="has ended"):
        await journal.append("a", received("too late"))
    assert (await journal.replay("a")).status == "completed"


async def test_an_append_that_assumes_an_older_state_is_refused(path: Path) -> None:
    journal = Opened(path).journal
    first = await begin_loop(journal)
    await journal.append("a", received("and this"))
    with pytest.raises(ConflictError, match="has gone on"):
        await journal.append("a", RunLoopIdle(), if_last_seq=first.state.last_seq)


async def test_what_was_read_before_words_were_forgotten_is_not_written_again(path: Path) -> None:
    journal = Opened(path).journal
    await begin_loop(journal)
    before = journal.lost_words_at
    await journal.rewrite(lambda rewriter: rewriter.remove_loop("another loop", owner="me"))
    copied = [received("words of another loop")]
    with pytest.raises(ConflictError, match="forgotten"):
        await journal.append_together(Append("a", copied, read_at=before))
    [commit] = await journal.append_together(Append("a", copied, read_at=journal.lost_words_at))
    assert len(commit.events) == 1


async def test_many_at_once_are_written_one_after_another_and_heard_in_order(path: Path) -> None:
    opened = Opened(path)
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(begin_loop, opened.journal, f"loop{number}")
    seqs = [event.seq for commit in opened.commits for event in commit.events]
    assert seqs == list(range(1, 61))


@pytest.mark.slow
@pytest.mark.parametrize("natively", [False, True])
async def test_a_writer_cancelled_in_mid_commit_leaves_file_and_state_in_agreement(
    path: Path, monkeypatch: pytest.MonkeyPatch, natively: bool
) -> None:
    opened = Opened(path)
    writing = threading.Event()
    transaction = SqliteFile.transaction

    @contextmanager
    def slowly(file: SqliteFile, *, durable: bool) -> Iterator[sqlite3.Connection]:
        writing.set()
        time.sleep(0.2)
        with transaction(file, durable=durable) as db:
            yield db

    monkeypatch.setattr(SqliteFile, "transaction", slowly)
    if natively:
        task = asyncio.create_task(begin_loop(opened.journal))
        assert await anyio.to_thread.run_sync(writing.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(begin_loop, opened.journal)
            assert await anyio.to_thread.run_sync(writing.wait, 20)
            group.cancel_scope.cancel()
    await begin_loop(opened.journal, "b")  # the journal goes on, behind the first commit
    assert [commit.state.id for commit in opened.commits] == ["a", "b"]
    assert [e.run_loop_id for e in await opened.journal.read()] == ["a", "a", "b", "b"]


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """A disk that takes files up to a size, for all that this process writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_log_that_cannot_be_taken_in_does_not_undo_a_commit(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = Opened(path)
    await begin_loop(opened.journal, goal="x" * 2_000_000)
    await opened.journal.aclose()
    opened = Opened(path, checkpoint_bytes=0, commits_between_looks=1)
    assert path.stat().st_size > 4 * 2**20  # what is taken in would be written behind the limit
    with no_file_longer_than(2**20):  # the log stays shorter
        commit = await opened.journal.append("a", received("more"), durable=True)
        assert fold(await opened.journal.read()) == commit.state
        with anyio.fail_after(20):
            while "cannot be taken in yet" not in caplog.text:
                await anyio.sleep(0.01)
        last = await opened.journal.append("a", received("and more"))
    await opened.journal.aclose()
    again = Opened(path)
    assert again.active == [last.state]
    await again.journal.aclose()


async def test_the_log_is_taken_in_while_others_write_and_starts_anew(path: Path) -> None:
    journal = Opened(path, checkpoint_bytes=200_000).journal
    await begin_loop(journal)
    wal = path.with_name(path.name + "-wal")
    for number in range(1, COMMITS_BETWEEN_LOOKS):  # the first commit began the loop
        await journal.append("a", received(f"{number} " + "x" * 2000))
    assert wal.stat().st_size > 200_000
    assert path.stat().st_size < 100_000
    while_tidying = 0
    with anyio.fail_after(30):
        while wal.stat().st_size > 200_000:  # until the log starts anew
            await journal.append("a", received("meanwhile"))
            while_tidying += 1
            await anyio.sleep(0.01)
    assert while_tidying
    assert path.stat().st_size > 100_000, "the log was never taken in"
    assert len(await journal.read()) == 1 + COMMITS_BETWEEN_LOOKS + while_tidying
    await journal.aclose()


async def test_closing_waits_for_the_log_and_begins_nothing_more(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Opened(path, checkpoint_bytes=0, commits_between_looks=1).journal
    checkpoint, close = SqliteFile.checkpoint, SqliteFile.close
    noted: list[str] = []

    def checkpointing(file: SqliteFile) -> None:
        noted.append("begins")
        checkpoint(file)
        noted.append("ends")

    def closing(file: SqliteFile) -> None:
        noted.append("closed")
        close(file)

    monkeypatch.setattr(SqliteFile, "checkpoint", checkpointing)
    monkeypatch.setattr(SqliteFile, "close", closing)
    await begin_loop(journal, "first")
    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(begin_loop, journal, f"loop{number}")
        await anyio.lowlevel.checkpoint()
        group.start_soon(journal.aclose)
    await anyio.sleep(0.05)  # whatever would still come
    assert noted[-1] == "closed"
    assert noted.count("begins") == noted.count("ends") > 0


async def test_copies_are_the_history_of_a_fork_but_only_its_beginning_is_news(
    path: Path,
) -> None:
    opened = Opened(path)
    journal = opened.journal
    await begin_loop(journal)
    await journal.append("a", RunLoopCancelled())
    await journal.append("a", RunLoopResumed())
    history = await journal.read(run_loop_id="a")
    [commit] = await journal.append_together(
        copies_of("b", history, owner="me", read_at=journal.lost_words_at)
    )
    assert commit.copied
    assert [event.body.type for event in commit.news] == ["run_loop.started"]
    copies = await journal.read(run_loop_id="b")
    assert [event.body for event in copies] == [event.body for event in history]
    assert (await journal.replay("b")).status == "running"
    assert not opened.commits[0].copied
    assert opened.commits[0].news == opened.commits[0].events
    await journal.aclose()


async def test_a_history_that_cannot_be_read_does_not_keep_the_others_from_going_on(
    path: Path,
) -> None:
    journal = Opened(path).journal
    await begin_loop(journal, "broken")
    await begin_loop(journal, "fine")
    await journal.aclose()
    with sqlite3.connect(path) as db:
        db.execute('UPDATE events SET body = \'{"type": "of.the.future"}\' WHERE seq = 2')
    again = Opened(path)
    assert [state.id for state in again.active] == ["fine"]
    with pytest.raises(StorageError, match="cannot be read"):
        await again.journal.replay("broken")


async def test_a_file_of_a_newer_version_is_refused_in_words(path: Path) -> None:
    await Opened(path).journal.aclose()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageError, match="newer version"):
        SqliteJournal(path).open(lambda commit: None)


async def test_transient_events_are_never_journaled(path: Path) -> None:
    journal = Opened(path).journal
    await begin_loop(journal)
    with pytest.raises(ValueError, match="transient"):
        await journal.append("a", MessageDelta(text="x"))


async def test_what_cannot_be_folded_is_not_written(path: Path) -> None:
    journal = Opened(path).journal
    await begin_loop(journal)
    with pytest.raises(ValueError, match="started twice"):
        await journal.append("a", RunLoopStarted(goal="again"))
    assert len(await journal.read()) == 2
    await journal.append("a", IterationStarted(index=0))  # and the journal goes on


async def test_a_full_disk_is_told_in_words_and_loses_nothing(path: Path) -> None:
    opened = Opened(path)
    await begin_loop(opened.journal)

    await anyio.to_thread.run_sync(opened.journal.allow_pages, None)
    big = MessageCompleted(message=Message.assistant("x" * 1_000_000))
    await opened.journal.append("a", IterationStarted(index=0))
    with pytest.raises(StorageError) as error:
        await opened.journal.append("a", big)
    assert "disk is full" in error.value.problem().in_words()
    assert "Free some space" in error.value.problem().in_words()
    assert fold(await opened.journal.read()) == opened.commits[-1].state
    await anyio.to_thread.run_sync(opened.journal.allow_pages, 1_000_000)
    await opened.journal.append("a", big)
    assert fold(await opened.journal.read()) == opened.commits[-1].state


async def test_a_file_that_is_no_database_is_told_in_words(path: Path) -> None:
    path.write_bytes(b"this is not a database, but long enough to look like one" * 50)
    with pytest.raises(StorageError, match="not a database"):
        SqliteJournal(path).open(lambda commit: None)


async def test_run_loops_are_listed_newest_first_by_pages_and_by_owner(path: Path) -> None:
    journal = Opened(path).journal
    for number in range(5):
        await begin_loop(journal, f"loop{number}")
    await journal.append(
        "other", RunLoopStarted(goal="x"), received("x"), owner="somebody", durable=False
    )
    await journal.append("loop1", RunLoopIdle(), RunLoopCompleted())
    first = await journal.run_loops.summaries(owner="me", limit=2)
    rest = await journal.run_loops.summaries(owner="me", limit=9, before_id=first[-1].id)
    assert [s.id for s in (*first, *rest)] == ["loop4", "loop3", "loop2", "loop1", "loop0"]
    done = await journal.run_loops.summaries(owner="me", statuses=frozenset({"completed"}))
    assert [s.id for s in done] == ["loop1"]
    assert done[0].completed_at is not None


async def test_another_owners_loop_is_not_found(path: Path) -> None:
    journal = Opened(path).journal
    await begin_loop(journal)
    with pytest.raises(NotFoundError):
        await journal.replay("a", owner="somebody")
    assert await journal.read(owner="somebody") == []
