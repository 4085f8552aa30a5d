"""Event streams: resumed without gap or repeat, and closed as soon as nobody reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import (
    BODY,
    CompactionFinished,
    CompactionStarted,
    EventBody,
    IterationStarted,
    MessageCompleted,
    RunLoopCancelled,
    RunLoopInterrupted,
    RunLoopResumed,
    RunLoopStarted,
)
from tests.support.server.http_daemon import Frame, House, running

pytestmark = pytest.mark.anyio


def ids(frames: list[Frame]) -> list[int]:
    return [int(frame.id) for frame in frames if frame.id is not None]


async def finished_loop(house: House, message: str = "Hello") -> str:
    run_loop_id: str = (await house.send(message))["run_loop_id"]
    done = await house.client.post(f"/v1/run-loops/{run_loop_id}/complete")
    assert done.json()["status"] == "completed"
    return run_loop_id


async def test_the_stream_of_a_finished_loop_replays_it_and_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        run_loop_id = await finished_loop(house)
        frames = await house.frames("GET", f"/v1/run-loops/{run_loop_id}/events")
        assert frames[0].event == "run_loop.started"
        assert frames[-1].event == "run_loop.completed"
        assert ids(frames) == sorted(set(ids(frames)))


async def test_a_page_refresh_that_cuts_the_stream_resumes_without_gap_or_repeat(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        path = f"/v1/run-loops/{await finished_loop(house)}/events"
        whole = await house.frames("GET", path)
        for cut in range(len(whole) - 1):
            last = str(whole[cut].id)
            by_header = await house.frames("GET", path, headers={"Last-Event-ID": last})
            by_query = await house.frames("GET", path, params={"after": last})
            assert by_header == by_query == whole[cut + 1 :]


async def test_the_header_of_a_browser_that_reconnects_comes_before_its_old_address(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        path = f"/v1/run-loops/{await finished_loop(house)}/events"
        whole = await house.frames("GET", path)
        headers = {"Last-Event-ID": str(whole[2].id)}
        assert await house.frames("GET", f"{path}?after=0", headers=headers) == whole[3:]


async def test_a_client_that_has_seen_the_end_is_told_not_to_come_again(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        path = f"/v1/run-loops/{await finished_loop(house)}/events"
        last = str((await house.frames("GET", path))[-1].id)
        response = await house.client.get(path, headers={"Last-Event-ID": last})
        assert response.status_code == 204


@pytest.mark.slow
@pytest.mark.parametrize("place", ["x", "-1", "1.5", "٣", "9" * 30, "999999"])
async def test_a_place_that_is_none_is_refused(tmp_path: Path, place: str) -> None:
    async with running(tmp_path) as house:
        headers = {b"Last-Event-ID": place.encode()}
        response = await house.client.get("/v1/events", headers=headers)
        assert response.status_code == 422
        assert response.headers["content-type"] == "application/problem+json"


async def test_two_clients_see_the_same_events_of_all_loops_from_now_on(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.send("Before")
        seen: list[list[Frame]] = [[], []]

        async def watch(number: int) -> None:
            async with house.stream("GET", "/v1/events") as frames:
                ready[number].set()
                async for frame in frames:
                    seen[number].append(frame)
                    if [f.event for f in seen[number]].count("run_loop.idle") == 2:
                        return

        ready = [anyio.Event(), anyio.Event()]
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(2):
                    group.start_soon(watch, number)
                for event in ready:
                    await event.wait()
                await house.send("One")
                await house.send("Two")
        assert ids(seen[0]) == ids(seen[1])
        goals = [f.data["data"]["goal"] for f in seen[0] if f.event == "run_loop.started"]
        assert goals == ["One", "Two"]


async def test_a_client_that_disconnects_is_forgotten_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        run_loop_id = (await house.send("Hello"))["run_loop_id"]
        for path in ("/v1/events", f"/v1/run-loops/{run_loop_id}/events"):
            async with house.stream("GET", path):
                await house.until(listeners=1)
            await house.until(listeners=0)


@pytest.mark.slow
async def test_a_silent_stream_has_heartbeats(tmp_path: Path) -> None:
    async with (
        running(tmp_path, heartbeat_seconds=0.05) as house,
        house.client.stream("GET", "/v1/events") as response,
    ):
        lines = response.aiter_lines()
        with anyio.fail_after(10):
            assert [await anext(lines) for _ in range(4)] == [": heartbeat", ""] * 2


async def test_the_daemon_ends_open_streams_when_it_stops(tmp_path: Path) -> None:
    async with running(tmp_path) as house, house.stream("GET", "/v1/events") as frames:
        await house.until(listeners=1)
        house.server.stop()
        with anyio.fail_after(10):
            assert [frame async for frame in frames] == []


async def test_a_loop_that_is_not_there_has_no_stream(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        response = await house.client.get("/v1/run-loops/nothing/events")
        assert response.status_code == 404


async def test_what_happens_in_the_middle_of_work_has_the_fields_that_the_page_tells(
    tmp_path: Path,
) -> None:
    events: list[tuple[EventBody, dict[str, Any]]] = [
        (IterationStarted(index=0, message_ids=("m",)), {"message_ids": ["m"], "nudge": None}),
        (CompactionStarted(tokens=900, limit=800), {"tokens": 900, "limit": 800}),
        (
            CompactionFinished(messages=0, method="extract", tokens_before=900, tokens_after=400),
            {"messages": 0, "replacement": [], "method": "extract", "tokens_after": 400},
        ),
        (RunLoopInterrupted(message_id="n"), {"message_id": "n"}),
        (IterationStarted(index=1, message_ids=(), nudge="Again."), {"nudge": "Again."}),
        (MessageCompleted(message=Message.assistant("Half an"), cut=True), {"cut": True}),
        (RunLoopCancelled(), {}),
        (RunLoopResumed(), {}),
        (RunLoopCancelled(), {}),
    ]
    async with running(tmp_path) as house:
        await house.send("Hello")
        journal = house.agent.memory.journal
        await journal.append("one", RunLoopStarted(goal="One"), owner="me")
        for body, _ in events:
            await journal.append("one", body)
        frames = await house.frames("GET", "/v1/run-loops/one/events")
    for (body, fields), frame in zip(events, frames[1:], strict=True):
        data = frame.data["data"]
        assert frame.event == body.type
        assert {name: data[name] for name in fields} == fields
        assert BODY.validate_python({"type": frame.event, **data}) == body
