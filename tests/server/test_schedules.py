"""``/v1/schedules``: added, listed, run, removed; what came due is told to a client, once."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.support.agent.scheduling import due_now
from tests.support.daemon import serving
from tests.support.server.http_daemon import Frame, House, problem_of, running

pytestmark = pytest.mark.anyio


async def added(house: House, **body: Any) -> dict[str, Any]:
    request = {"what": "stretch", "when": "every weekday at 8", "zone": "Europe/Berlin", **body}
    response = await house.client.post("/v1/schedules", json=request)
    assert response.status_code == 201, response.text
    line: dict[str, Any] = response.json()
    return line


async def notices(house: House) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await house.client.get("/v1/schedules/notices")).json()[
        "notices"
    ]
    return listed


@pytest.mark.slow
async def test_a_schedule_is_added_as_understood_listed_paused_and_removed(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        line = await added(house)
        assert line["when"] == "every weekday at 08:00 (Europe/Berlin)"
        assert (line["kind"], line["state"], line["allow"]) == ("reminder", "active", [])
        assert len(line["next"]) == 3
        path = f"/v1/schedules/{line['id']}"
        assert (await house.client.get("/v1/schedules")).json() == {"schedules": [line]}
        paused = (await house.client.post(f"{path}/pause")).json()
        assert paused == {**line, "state": "paused"}
        assert (await house.client.post(f"{path}/resume")).json() == line
        details = (await house.client.get(path)).json()
        assert [each["state"] for each in details["occurrences"]] == ["pending"]
        assert (await house.client.delete(path)).json() == line
        problem_of(await house.client.get(path), 404)
        problem_of(await house.client.post(f"{path}/run"), 404)


@pytest.mark.slow
async def test_the_same_key_adds_one_and_another_schedule_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as house:

        async def post(what: str, **other: str) -> httpx2.Response:
            body = {"what": what, "when": "in 20 minutes", "zone": "Europe/Berlin", **other}
            headers = {"Idempotency-Key": "once"}
            return await house.client.post("/v1/schedules", json=body, headers=headers)

        first, second = await post("stretch"), await post("stretch")
        assert first.json() == second.json()
        assert len((await house.client.get("/v1/schedules")).json()["schedules"]) == 1
        for another in (
            post("sleep"),
            post("stretch", when="in 30 minutes"),
            post("stretch", zone="Asia/Shanghai"),
        ):
            assert "another schedule" in problem_of(await another, 409)["detail"]


@pytest.mark.parametrize(
    ("body", "why", "what_to_do"),
    [
        ({"when": "tomorrow"}, "at what time is not said", "tomorrow at 9"),
        ({"when": "every 0 minutes"}, "cannot recur", "every 5 minutes"),
        ({"when": "每0分钟"}, "cannot recur", "每5分钟"),
        ({"when": "every 10 seconds"}, "by the minute", "every 5 minutes"),
        ({"when": "next friday or so"}, "not understood: 'or so'", "in 20 minutes"),
        ({"zone": "Berlin"}, "no time zone is called 'Berlin'", "Europe/Berlin"),
        ({"what": "   "}, "is not said", "Add it"),
        ({"what": ""}, "is not said", "Add it"),
        ({"kind": "task", "allow": ["lunch"]}, "there is no tool 'lunch'", "rondo tools"),
        ({"allow": ["launch"]}, "a reminder does nothing", "Leave"),
    ],
)
async def test_what_cannot_be_used_is_a_problem_that_says_what_to_do(
    house: House, body: dict[str, Any], why: str, what_to_do: str
) -> None:
    request = {"what": "stretch", "when": "every day at 8", **body}
    problem = problem_of(await house.client.post("/v1/schedules", json=request), 422)
    assert why in problem["detail"]
    assert what_to_do in problem["advice"]
    assert (await house.client.get("/v1/schedules")).json() == {"schedules": []}


@pytest.mark.slow
async def test_what_came_due_is_told_until_a_client_says_that_it_was(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await due_now(await house.daemon.agent(), "call mum")
        with anyio.fail_after(10):
            while not (told := await notices(house)):
                await anyio.sleep(0.02)
        assert [(each["text"], each["status"]) for each in told] == [("Reminder: call mum", "idle")]
        assert await notices(house) == told
        seen = {"run_loop_ids": [told[0]["run_loop_id"]]}
        await house.client.post("/v1/schedules/notices/seen", json=seen)
        assert await notices(house) == []


async def read(house: House, frames: list[Frame], **headers: str) -> None:
    """Take events of all run loops in, until cancelled."""
    async with house.stream("GET", "/v1/events", headers=headers) as stream:
        async for frame in stream:
            frames.append(frame)  # noqa: PERF401  they are to be seen as they come


@pytest.mark.slow
async def test_a_client_that_watches_is_told_from_the_beginning_and_others_are_not(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        await due_now(await house.daemon.agent(), "call mum")
        await house.loop_at_work()
        first, second = list[Frame](), list[Frame]()
        async with anyio.create_task_group() as group:
            group.start_soon(read, house, first)
            with anyio.fail_after(10):
                while await notices(house):
                    await anyio.sleep(0.02)
            group.start_soon(read, house, second)
            await house.until(2)
            await due_now(await house.daemon.agent(), "now", name="another")
            with anyio.fail_after(10):
                while len(second) < 6:
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()
        goals = [each.data["data"]["goal"] for each in first if each.event == "run_loop.started"]
        assert goals == ["call mum", "now"]
        goals = [each.data["data"]["goal"] for each in second if each.event == "run_loop.started"]
        assert goals == ["now"]
        ids = [int(each.id or 0) for each in first]
        assert ids == sorted(ids)
        assert await notices(house) == []


@pytest.mark.slow
def test_a_reminder_that_came_due_while_the_daemon_was_killed_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def told(client: httpx2.Client) -> list[str]:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            listed = client.get("/v1/schedules/notices").json()["notices"]
            if listed:
                return [each["text"] for each in listed]
            time.sleep(0.05)
        return []

    def added_soon(client: httpx2.Client) -> datetime:
        for seconds in (1, 2, 4, 8, 16):  # a busy machine may take longer than that to read it
            due = datetime.now(UTC) + timedelta(seconds=seconds)
            body = {"what": "call mum", "when": due.isoformat(), "zone": "Europe/Berlin"}
            if client.post("/v1/schedules", json=body).status_code == 201:
                return due
        raise AssertionError("it takes nothing")

    with serving(folder) as daemon, daemon.client(folder) as client:
        due = added_soon(client)
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
    while datetime.now(UTC) < due:
        time.sleep(0.05)
    with serving(folder) as daemon, daemon.client(folder) as client:
        assert told(client) == ["Reminder: call mum"]
        assert len(client.get("/v1/run-loops").json()["run_loops"]) == 1
