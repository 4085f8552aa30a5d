"""What is done of a loop that is still open is found, and archiving it over again costs nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from service.domain.anchors import AnchorRef, Segment
from service.domain.conversation.messages import Message, ToolCall
from service.domain.errors import StorageError
from service.domain.history.events import (
    IterationStarted,
    MessageCompleted,
    RunLoopCompleted,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.history.human_input import InputRequired
from service.domain.run_loops import Iteration, RunLoop
from service.memory.ledger.segmenter import segments_of
from service.memory.ledger.sqlite import sqlite_ledger as ledger
from service.memory.ledger.sqlite.loop_rows import Written, written
from service.memory.ledger.sqlite.sqlite_ledger import (
    SqliteLedger,
    count_run_loops,
)
from service.memory.memory import Memory
from service.memory.protocol import SearchFilters
from tests.support.histories import received
from tests.support.memory.remembering import anchors, run_loop

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[Memory]:
    async with Memory(folder, None) as memory, anyio.create_task_group() as group:
        await group.start(memory.archivist.run)
        yield memory
        group.cancel_scope.cancel()


async def say(memory: Memory, run_loop_id: str, words: str, answer: str) -> None:
    """A person says something, and the loop answers and rests."""
    state = memory.short_term.state(run_loop_id)
    index = state.iteration_count if state else 0
    await memory.journal.append(
        run_loop_id,
        *([] if state else [RunLoopStarted(goal=words)]),
        received(words, f"m{index}"),
        IterationStarted(index=index),
        MessageCompleted(message=Message.assistant(answer)),
        RunLoopIdle(),
        owner="me",
    )


async def anchors_of_hits(
    memory: Memory, query: str, filters: SearchFilters | None = None
) -> list[str]:
    return anchors(await memory.long_term.search(query, owner="me", filters=filters))


async def test_a_loop_that_rests_is_found_and_found_again_when_it_has_grown(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path) as memory:
        await say(memory, "r", "Where does the heron nest?", "By the old mill.")
        assert await memory.archivist.drain() is None
        assert (await anchors_of_hits(memory, "heron"))[0] == "r:0.0"
        await say(memory, "r", "And the stork?", "On the church.")
        assert await memory.archivist.drain() is None
        assert (await anchors_of_hits(memory, "stork"))[0] == "r:1.0"
        archived_loop = await memory.long_term.run_loop("r", owner="me")
        assert archived_loop is not None
        assert archived_loop.status == "idle"


async def test_a_loop_does_not_find_itself_where_it_asks_not_to(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await say(memory, "asking", "The heron nests here.", "So it does.")
        await say(memory, "other", "A heron was seen.", "Where?")
        await memory.archivist.drain()
        elsewhere = SearchFilters(without_run_loop_id="asking")
        hits = await anchors_of_hits(memory, "heron", elsewhere)
        assert {AnchorRef.parse(hit).run_loop_id for hit in hits} == {"other"}


@pytest.mark.slow
async def test_a_loop_that_rests_is_archived_without_being_asked_for(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await say(memory, "r", "Where does the heron nest?", "By the old mill.")
        with anyio.fail_after(20):
            while await memory.long_term.run_loop("r", owner="me") is None:
                await anyio.sleep(0.02)


async def test_a_loop_that_waits_for_a_person_is_found_as_far_as_it_is_done(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path) as memory:
        await say(memory, "r", "Where does the heron nest?", "By the old mill.")
        call = ToolCall(id="c", name="shoo", arguments='{"bird": "heron"}')
        await memory.journal.append(
            "r",
            received("Chase it away.", "m1"),
            IterationStarted(index=1),
            MessageCompleted(message=Message.assistant("", (call,))),
            InputRequired(request_id="q", kind="approve", prompt="May I?", tool_calls=(call,)),
        )
        await memory.archivist.drain()
        archived_loop = await memory.long_term.run_loop("r", owner="me")
        assert archived_loop is not None
        assert [each.response for each in archived_loop.iterations] == ["By the old mill."]
        newest = await memory.long_term.expand(AnchorRef("r", 0, 0), owner="me", after=9)
        assert newest.after[-1].content == 'shoo {"bird": "heron"}', "the rest can be read already"


async def test_what_a_crash_kept_from_being_archived_is_found_after_the_next_start(
    tmp_path: Path,
) -> None:
    async with Memory(tmp_path, None) as memory:  # nobody is at work
        await say(memory, "r", "Where does the heron nest?", "By the old mill.")
    async with at_work(tmp_path) as memory:
        assert await memory.archivist.drain() is None
        assert (await anchors_of_hits(memory, "heron"))[0] == "r:0.0"


async def test_a_rest_that_comes_late_does_not_undo_the_end(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await say(memory, "r", "Where does the heron nest?", "By the old mill.")
        await memory.journal.append("r", RunLoopCompleted())
        await memory.archivist.drain()
        await anyio.lowlevel.checkpoint()
        archived_loop = await memory.long_term.run_loop("r", owner="me")
        assert archived_loop is not None
        assert archived_loop.status == "completed"


async def test_a_ledger_of_the_first_schema_is_emptied_only_where_the_journal_can_fill_it(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path) as memory:
        await say(memory, "r", "Where does the heron nest?", "By the old mill.")
        await memory.archivist.drain()

    def of_the_first_schema() -> None:
        with closing(sqlite3.connect(tmp_path / "memory.sqlite3")) as db:
            db.execute("PRAGMA user_version = 1")

    of_the_first_schema()
    async with at_work(tmp_path) as memory:
        await memory.archivist.drain()
        assert (await anchors_of_hits(memory, "heron"))[0] == "r:0.0"
    of_the_first_schema()
    journal = tmp_path / "journal.sqlite3"
    kept = journal.rename(tmp_path / "kept")
    with pytest.raises(StorageError, match="missing or empty"):
        await Memory(tmp_path, None).__aenter__()
    assert count_run_loops(tmp_path / "memory.sqlite3") == 1
    journal.unlink()
    kept.rename(journal)
    async with at_work(tmp_path) as memory:
        assert await memory.archivist.drain() is None


# --- what it costs


class Counted:
    """Counts the iterations that are turned into JSON, and those that are cut."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written = 0
        self.cut = 0
        monkeypatch.setattr(ledger, "written", self._written)

    def _written(self, run_loop_id: str, iteration: Iteration) -> Written:
        self.written += 1
        return written(run_loop_id, iteration)

    def cutting(self, loop: RunLoop, index: int) -> list[Segment]:
        self.cut += 1
        return segments_of(loop, index)


@pytest.mark.slow
def test_the_thousandth_rest_costs_no_more_than_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SqliteLedger(tmp_path / "memory.sqlite3")
    ledger.open()
    counted = Counted(monkeypatch)
    whole = run_loop("r", *((f"question {n}", f"answer {n}") for n in range(1000)), status="idle")
    for count in range(1, 1001):
        part = whole.model_copy(update={"iterations": whole.iterations[:count]})
        assert ledger.archive(part, cut=counted.cutting) == 2
        assert (counted.written, counted.cut) == (count, count)
    assert ledger.archive(whole, cut=counted.cutting) == 0
    assert counted.written == 1000
    assert ledger.run_loop("r", owner="me") == whole
    ledger.close()


def test_after_a_start_a_loop_that_grew_is_compared_once_and_only_what_is_new_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = run_loop("r", *((f"question {n}", f"answer {n}") for n in range(10)), status="idle")
    for count in (9, 10):
        ledger = SqliteLedger(tmp_path / "memory.sqlite3")
        ledger.open()
        counted = Counted(monkeypatch)
        part = grown.model_copy(update={"iterations": grown.iterations[:count]})
        ledger.archive(part, cut=counted.cutting)
        ledger.close()
    assert (counted.written, counted.cut) == (10, 1)


def test_what_was_taken_out_by_somebody_else_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    ledger = SqliteLedger(path)
    ledger.open()
    loop = run_loop("r", ("apples", "pears"), ("plums", "figs"), status="idle")
    ledger.archive(loop)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM segments WHERE iteration = 0")
        db.execute("DELETE FROM iterations WHERE iteration = 0")
        db.execute("UPDATE run_loops SET digest = ''")
    assert ledger.archive(loop) == 2
    assert ledger.run_loop("r", owner="me") == loop
    ledger.close()
