"""Short-term memory is an observable store; a slow subscriber slows nobody and misses nothing."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from service.domain.history.events import (
    Event,
    IterationStarted,
    MessageDelta,
    RunLoopCompleted,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.run_loops import RunLoop
from service.memory.journal.event_feed import Feed
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.short_term import ShortTermMemory
from tests.support.histories import event_at, received

pytestmark = pytest.mark.anyio


@dataclass
class Store:
    journal: SqliteJournal
    feed: Feed
    memory: ShortTermMemory

    async def begin(self, run_loop_id: str) -> None:
        await self.journal.append(
            run_loop_id, RunLoopStarted(goal="hi"), received("hi"), owner="me"
        )

    async def turn(self, run_loop_id: str, times: int) -> None:
        for index in range(times):
            await self.journal.append(run_loop_id, IterationStarted(index=index))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    journal = SqliteJournal(tmp_path / "journal.sqlite3")
    feed = Feed(journal, mailbox_size=8)
    memory = ShortTermMemory(journal, feed)
    journal.open(memory.update)
    yield Store(journal, feed, memory)
    await journal.aclose()


async def wait_for(done: threading.Event) -> None:
    assert await anyio.to_thread.run_sync(done.wait, 20)


async def test_it_holds_the_loops_that_are_active(store: Store) -> None:
    await store.begin("a")
    await store.begin("b")
    assert [loop.id for loop in store.memory.get_active()] == ["b", "a"]
    await store.journal.append("a", RunLoopIdle(), RunLoopCompleted())
    assert [loop.id for loop in store.memory.get_active()] == ["b"]
    assert store.memory.get("a") is None


async def test_a_subscriber_sees_the_active_loops_at_once_and_as_they_change(
    store: Store,
) -> None:
    seen: list[list[str]] = []
    first, second = threading.Event(), threading.Event()

    def on_next(loops: tuple[RunLoop, ...]) -> None:
        seen.append([loop.id for loop in loops])
        (second if loops else first).set()

    subscription = store.memory.active.subscribe(on_next)
    await wait_for(first)
    await store.begin("a")
    await wait_for(second)
    subscription.dispose()
    assert seen == [[], ["a"]]


async def test_a_subscriber_of_one_loop_is_told_when_it_has_ended(store: Store) -> None:
    await store.begin("a")
    statuses: list[str | None] = []
    ended = threading.Event()

    def on_next(loop: RunLoop | None) -> None:
        statuses.append(loop.status if loop else None)
        if loop is None:
            ended.set()

    completed = threading.Event()
    store.memory.observe("a").subscribe(on_next, on_completed=completed.set)
    await store.journal.append("a", RunLoopIdle(), RunLoopCompleted())
    await wait_for(ended)
    await wait_for(completed)
    assert statuses[-1] is None


async def test_a_slow_subscriber_slows_nobody_and_misses_no_journaled_event(
    store: Store,
) -> None:
    seen: list[int | None] = []
    may_go_on, done = threading.Event(), threading.Event()

    def on_next(event: Event) -> None:
        may_go_on.wait(20)
        seen.append(event.seq)
        if event.seq == 102:
            done.set()

    store.memory.events().subscribe(on_next)
    await store.begin("a")
    await store.turn("a", 100)  # far more than its mailbox holds, while it hangs
    may_go_on.set()
    await wait_for(done)
    assert seen == list(range(1, 103))


async def test_a_subscriber_that_raises_is_told_and_the_others_go_on(store: Store) -> None:
    failed, heard = threading.Event(), threading.Event()

    def broken(event: Event) -> None:
        raise RuntimeError("broken subscriber")

    store.memory.events().subscribe(broken, on_error=lambda error: failed.set())
    store.memory.events().subscribe(lambda event: heard.set())
    await store.begin("a")
    await wait_for(failed)
    await wait_for(heard)


async def test_closing_completes_every_subscription(store: Store) -> None:
    completed = [threading.Event() for _ in range(3)]
    await store.begin("a")
    store.memory.active.subscribe(on_completed=completed[0].set)
    store.memory.observe("a").subscribe(on_completed=completed[1].set)
    store.memory.events().subscribe(on_completed=completed[2].set)
    store.memory.close()
    for event in completed:
        await wait_for(event)


# --- the feed


async def test_a_reader_resumes_without_gap_or_repeat_while_events_go_on(store: Store) -> None:
    await store.begin("a")
    await store.turn("a", 20)
    seen: list[int | None] = []

    async def read() -> None:
        async with aclosing(store.feed.events(run_loop_id="a", after=5)) as events:
            async for event in events:
                seen.append(event.seq)
                await anyio.lowlevel.checkpoint()
                if event.seq == 62:
                    return

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.lowlevel.checkpoint()
        await store.turn("a", 40)
    assert seen == list(range(6, 63))


async def test_a_reader_that_falls_behind_reads_what_it_missed_from_the_journal(
    store: Store,
) -> None:
    await store.begin("a")
    async with aclosing(store.feed.events(after=0)) as events:
        assert (await anext(events)).seq == 1
        await store.turn("a", 50)
        seen = [(await anext(events)).seq for _ in range(51)]
    assert seen == list(range(2, 53))


async def test_deltas_reach_live_readers_between_the_journaled_events(store: Store) -> None:
    await store.begin("a")
    delta = event_at(1, MessageDelta(text="x"), run_loop_id="a").model_copy(update={"seq": None})
    async with aclosing(store.feed.events(run_loop_id="a")) as events:

        async def publish() -> None:
            await anyio.sleep(0.01)
            store.feed.publish((delta,))
            await store.turn("a", 1)

        async with anyio.create_task_group() as group:
            group.start_soon(publish)
            assert await anext(events) == delta
            assert (await anext(events)).seq == 3


async def test_a_reader_of_one_loop_or_owner_gets_nothing_of_others(store: Store) -> None:
    await store.begin("a")
    await store.begin("b")
    async with aclosing(store.feed.events(run_loop_id="b", after=0)) as events:
        assert {(await anext(events)).run_loop_id, (await anext(events)).run_loop_id} == {"b"}
    async with aclosing(store.feed.events(owner="somebody", after=0)) as events:
        with anyio.move_on_after(0.2):
            await anext(events)
            pytest.fail("another owner's event was given out")
    assert not store.feed.readers
