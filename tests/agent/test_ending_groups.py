"""Work that somebody outside of a task group wants done in it, when the group is about to end."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import TaskGroup

from service.storage.concurrency import in_background, start_unless_ending

pytestmark = pytest.mark.anyio


async def test_a_group_that_is_at_work_takes_it() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        done.append(number)

    async with anyio.create_task_group() as group:
        assert start_unless_ending(group, work, 7, name="work")
    assert done == [7]


async def test_a_group_whose_tasks_have_just_been_cancelled_ends_though_more_work_comes() -> None:
    lock, ended = anyio.Lock(), anyio.Event()

    async def takes_a_lock() -> None:
        async with lock:
            pass

    async def comes_late(group: TaskGroup) -> None:
        await ended.wait()
        assert not start_unless_ending(group, takes_a_lock, name="late")

    async def ends() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            late = in_background(comes_late(group))
            group.start_soon(ends)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        await late


async def test_a_group_that_has_ended_takes_no_more() -> None:
    async with anyio.create_task_group() as group:
        pass
    assert not start_unless_ending(group, anyio.sleep, 0, name="work")
