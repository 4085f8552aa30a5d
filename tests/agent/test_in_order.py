"""Whoever comes to the same place gets in one after another, in the order in which they came."""

from __future__ import annotations

import anyio
import pytest

from service.storage.concurrency import KeyedLock

pytestmark = pytest.mark.anyio


async def test_each_place_is_entered_in_the_order_of_arrival_and_no_place_waits_for_another() -> (
    None
):
    order, entered = KeyedLock(), list[str]()
    gate = anyio.Event()

    async def enter(place: str, name: str, *, waits: bool = False) -> None:
        async with order.turn(place):
            entered.append(name)
            if waits:
                await gate.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: enter("a", "first", waits=True))
        for name in ("second", "third"):
            group.start_soon(enter, "a", name)
        group.start_soon(enter, "b", "elsewhere")
        await anyio.wait_all_tasks_blocked()
        assert entered == ["first", "elsewhere"]
        gate.set()
    assert entered == ["first", "elsewhere", "second", "third"]


async def test_one_who_gives_up_waiting_or_fails_within_keeps_nobody_out() -> None:
    order = KeyedLock()

    async def wait_in_vain() -> None:
        async with order.turn("a"):
            pytest.fail("two are within")

    async with order.turn("a"), anyio.create_task_group() as group:
        group.start_soon(wait_in_vain)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    with pytest.raises(ValueError, match="within"):
        async with order.turn("a"):
            raise ValueError("within")
    with anyio.fail_after(5):
        async with order.turn("a"):
            pass
    assert len(order) == 0
