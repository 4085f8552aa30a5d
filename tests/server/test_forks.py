"""Looking at a run loop as it was, and going another way from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import MessageReceived, RunLoopStarted
from tests.support.server.http_daemon import Frame, House, running

pytestmark = pytest.mark.anyio

BODIES: tuple[dict[str, Any], ...] = ({}, {"json": {}}, {"json": {"at": None}})


async def history(house: House, loop: str) -> list[Frame]:
    """All events of a loop, which is completed for it."""
    await house.client.post(f"/v1/run-loops/{loop}/complete")
    return await house.frames("GET", f"/v1/run-loops/{loop}/events")


@pytest.mark.slow
async def test_a_run_loop_is_shown_as_it_was_after_each_of_its_events(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        loop = (await house.send("One"))["run_loop_id"]
        await house.send("Two", run_loop_id=loop)
        shown: list[tuple[str, str, list[Any], int]] = []
        for frame in await history(house, loop):
            response = await house.client.get(f"/v1/run-loops/{loop}", params={"at": frame.id})
            was = response.json()
            assert was["last_seq"] == int(str(frame.id))
            said = [i["response"] for i in was["iterations"]]
            shown.append((frame.event, was["status"], said, len(was["routes"])))
    assert shown[0] == ("run_loop.started", "running", [], 0)
    assert ("message.completed", "running", ["Answer to One"], 1) in shown
    assert ("message.received", "running", ["Answer to One", None], 1) in shown
    assert shown[-1] == ("run_loop.completed", "completed", ["Answer to One", "Answer to Two"], 2)


async def test_a_fork_shares_the_history_up_to_an_event_and_goes_on_by_itself(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        loop = (await house.send("One"))["run_loop_id"]
        path = f"/v1/run-loops/{loop}"
        resting = (await house.client.get(path)).json()["last_seq"]
        await house.send("Two", run_loop_id=loop)
        before = (await house.client.get(path)).json()

        response = await house.client.post(f"{path}/fork", json={"at": resting})
        assert response.status_code == 201
        fork = response.json()
        assert fork["id"] != loop
        assert fork["status"] == "idle"
        assert fork["forked_from"] == {"run_loop_id": loop, "seq": resting}
        other = await house.send("Another way", run_loop_id=fork["id"])
        assert other["run_loop_id"] == fork["id"]

        whole = (await house.client.get(f"/v1/run-loops/{fork['id']}")).json()
        assert whole["forked_from"] == fork["forked_from"]
        assert [i["user_message"] for i in whole["iterations"]] == ["One", "Another way"]
        assert (await house.client.get(path)).json() == before
        assert before["forked_from"] is None


async def test_a_place_that_the_history_has_not_reached_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        loop = (await house.send("Hello"))["run_loop_id"]
        response = await house.client.post(f"/v1/run-loops/{loop}/fork", json={"at": 999_999})
        assert response.status_code == 422
        assert "its newest is" in response.json()["detail"]


async def test_without_a_place_all_of_it_is_forked_but_for_its_end(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        loop = (await house.send("One"))["run_loop_id"]
        await house.client.post(f"/v1/run-loops/{loop}/complete")
        for body in BODIES:
            response = await house.client.post(f"/v1/run-loops/{loop}/fork", **body)
            assert response.status_code == 201, response.text
            assert response.json()["status"] == "idle"
            assert len(response.json()["iterations"]) == 1


async def test_what_a_fork_does_comes_after_the_last_event_that_was_copied(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        loop = (await house.send("One"))["run_loop_id"]
        path = f"/v1/run-loops/{loop}"
        asked = next(f for f in await history(house, loop) if f.event == "route.decided")
        response = await house.client.post(f"{path}/fork", json={"at": int(str(asked.id))})
        fork = response.json()
        assert fork["status"] == "running"
        events: list[str] = []
        place = {"Last-Event-ID": str(fork["last_seq"])}
        with anyio.fail_after(10):
            fork_path = f"/v1/run-loops/{fork['id']}/events"
            async with house.stream("GET", fork_path, headers=place) as frames:
                async for frame in frames:
                    if frame.id is not None:
                        events.append(frame.event)
                    if frame.event == "run_loop.idle":
                        break
    assert events == ["iteration.started", "message.completed", "usage", "run_loop.idle"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "body", [{"at": 0}, {"at": -1}, {"at": "5"}, {"at": True}, {"at": 2**63}, {"seq": 3}, [], 7]
)
async def test_a_place_that_is_none_is_refused(tmp_path: Path, body: Any) -> None:
    async with running(tmp_path) as house:
        loop = (await house.send("One"))["run_loop_id"]
        response = await house.client.post(f"/v1/run-loops/{loop}/fork", json=body)
        assert response.status_code == 422
        assert len((await house.client.get("/v1/run-loops")).json()["run_loops"]) == 1


async def test_a_place_before_the_loop_began_is_refused_with_advice(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.send("Another matter")
        path = f"/v1/run-loops/{(await house.send('One'))['run_loop_id']}"
        for response in (
            await house.client.post(f"{path}/fork", json={"at": 1}),
            await house.client.get(path, params={"at": 1}),
        ):
            assert response.status_code == 422
            assert response.json()["advice"]
        for at in ("0", "-1", "x", str(2**63)):
            assert (await house.client.get(path, params={"at": at})).status_code == 422


async def test_the_loops_of_others_can_neither_be_forked_nor_seen_as_they_were(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        await house.send("Hello")
        await house.agent.memory.journal.append(
            "theirs",
            RunLoopStarted(goal="secret"),
            MessageReceived(message_id="m", message=Message.user("secret")),
            owner="somebody else",
        )
        for method, path in (
            ("POST", "/v1/run-loops/theirs/fork"),
            ("POST", "/v1/run-loops/theirs/resume"),
            ("GET", "/v1/run-loops/theirs?at=1"),
        ):
            response = await house.client.request(method, path)
            assert response.status_code == 404, path
            assert "secret" not in response.text


async def test_an_id_with_a_slash_in_it_can_be_forked_and_resumed(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.send("Hello")
        await house.agent.memory.journal.append(
            "a/fork",
            RunLoopStarted(goal="odd"),
            MessageReceived(message_id="m", message=Message.user("Hello")),
            owner="me",
        )
        path = "/v1/run-loops/a%2Ffork"
        assert (await house.client.post(f"{path}/cancel")).json()["status"] == "cancelled"
        assert (await house.client.post(f"{path}/resume")).json()["id"] == "a/fork"
        fork = await house.client.post(f"{path}/fork")
        assert fork.json()["forked_from"]["run_loop_id"] == "a/fork"
