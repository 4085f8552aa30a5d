"""Moving a message to another run loop, over HTTP, and seeing why each one is where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.server.http_daemon import House, running

pytestmark = pytest.mark.anyio


async def two(house: House) -> tuple[str, str]:
    """A loop about a trip, and one about a bill in which somebody asks for a train."""
    trip = (await house.send("A trip to Rome"))["run_loop_id"]
    bill = (await house.send("The bill of the dentist"))["run_loop_id"]
    await house.send("By train", run_loop_id=bill)
    return trip, bill


async def move(house: House, loop: str, **body: Any) -> Any:
    return await house.client.post(f"/v1/run-loops/{loop}/reroute", json=body)


async def listed(house: House, **params: str) -> Any:
    return (await house.client.get("/v1/run-loops", params=params)).json()["run_loops"]


async def shown(house: House, loop: str) -> Any:
    return (await house.client.get(f"/v1/run-loops/{loop}")).json()


async def test_a_message_is_moved_to_another_run_loop_or_a_new_one(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        trip, bill = await two(house)
        newest = (await shown(house, bill))["routes"][-1]["message_id"]

        response = await move(house, bill, to=trip)

        assert response.status_code == 200
        rerouted = response.json()
        assert set(rerouted) == {"moved", "from", "to", "run_loop"}
        assert (rerouted["moved"], rerouted["from"], rerouted["to"]) == ([newest], bill, trip)
        assert rerouted["run_loop"]["id"] == trip
        assert rerouted["run_loop"]["iterations"][-1]["response"] == "Answer to By train"

        again = (await move(house, trip, message_id=newest, to=None)).json()
        assert again["to"] not in (trip, bill)
        assert again["run_loop"]["goal"] == "By train"
        repeated = await move(house, trip, message_id=newest, to=None)
        assert repeated.json() == again


async def test_the_loop_tells_for_each_message_why_it_is_there(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        trip, bill = await two(house)
        await move(house, bill, to=trip)
        source, target = await shown(house, bill), await shown(house, trip)
        here, gone = target["routes"][-1], source["routes"][-1]
        assert here["route"]["method"] == "person"
        assert here["route"]["moved_from"] == bill
        assert here["iteration"] == len(target["iterations"]) - 1
        assert here["moved_to"] is None
        assert gone["message_id"] == here["message_id"]
        assert gone["moved_to"] == trip
        assert source["iterations"][-1]["moved_to"] == trip
        assert [route["iteration"] for route in source["routes"]] == list(
            range(len(source["iterations"]))
        )
        assert all(line["route"] is None for line in await listed(house))
        lines = await listed(house, why="true")
        by_id = {line["id"]: line for line in lines}
        assert by_id[trip]["route"] == here["route"]
        assert (by_id[bill]["route"], by_id[bill]["moved_to"]) == (None, trip)
        was = await house.client.get(f"/v1/run-loops/{bill}", params={"at": source["last_seq"] - 2})
        assert was.json()["routes"][-1]["moved_to"] is None


@pytest.mark.slow
async def test_what_cannot_be_moved_is_refused_in_words(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        trip, bill = await two(house)
        for loop, body, status in (
            ("no-such-loop", {"to": None}, 404),
            (bill, {"to": "no-such-loop"}, 404),
            (bill, {"to": trip, "message_id": "no-such-message"}, 404),
            (bill, {"to": bill}, 422),
            (bill, {}, 422),
            (bill, {"to": trip, "unknown": 1}, 422),
        ):
            response = await move(house, loop, **body)
            assert response.status_code == status, (body, response.text)
            problem = response.json()
            assert problem["title"]
            assert problem["advice"]
        newest = (await shown(house, bill))["routes"][-1]["message_id"]
        await move(house, bill, to=trip, message_id=newest)
        response = await move(house, bill, to="no-such-loop", message_id=newest)
        assert response.status_code == 404
        third = (await house.client.post(f"/v1/run-loops/{trip}/fork")).json()["id"]
        assert (await move(house, bill, to=third, message_id=newest)).status_code == 409


@pytest.mark.slow
async def test_a_sender_who_waits_gets_the_answer_from_the_new_loop(tmp_path: Path) -> None:
    answers: list[Any] = []

    async with running(tmp_path) as house, anyio.create_task_group() as group:
        trip, bill = await two(house)
        house.llm.hold()

        async def send() -> None:
            answers.append(await house.send("And back?", run_loop_id=bill))

        group.start_soon(send)
        with anyio.fail_after(10):
            while (await shown(house, bill))["status"] != "running":
                await anyio.sleep(0.01)
        await move(house, bill, to=trip)
        house.llm.release()
        with anyio.fail_after(10):
            while not answers:
                await anyio.sleep(0.01)
    [answer] = answers
    assert answer["run_loop_id"] == trip
    assert answer["response"] == "Answer to And back?"
    assert answer["route"]["method"] == "person"
    assert [i["user_message"] for i in answer["iterations"]] == ["And back?"]


async def test_a_list_shortens_a_long_goal_and_one_loop_tells_it_whole(tmp_path: Path) -> None:
    words = "长" * 3000
    async with running(tmp_path) as house:
        loop = (await house.send(words))["run_loop_id"]
        [line] = (await house.client.get("/v1/run-loops")).json()["run_loops"]
        assert line["goal"] == words[:500] + "…"
        assert (await house.client.get(f"/v1/run-loops/{loop}")).json()["goal"] == words


@pytest.mark.slow
async def test_both_streams_of_events_tell_of_the_move(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        trip, bill = await two(house)
        await move(house, bill, to=trip)
        for loop in (trip, bill):
            await house.client.post(f"/v1/run-loops/{loop}/complete")
        left = [frame.event for frame in await house.frames("GET", f"/v1/run-loops/{bill}/events")]
        came = [frame.event for frame in await house.frames("GET", f"/v1/run-loops/{trip}/events")]
        assert "message.moved" in left
        assert came[-6:] == [
            "message.received",
            "route.decided",
            "iteration.started",
            "message.completed",
            "run_loop.idle",
            "run_loop.completed",
        ]
