"""The list of run loops, one of them whole, and ending one."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import MessageReceived, RunLoopStarted
from tests.support.server.http_daemon import running

pytestmark = pytest.mark.anyio


async def test_the_list_is_newest_first_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        for number in range(5):
            await house.send(f"Matter {number}")
        goals: list[str] = []
        before: str | None = None
        pages = 0
        while pages == 0 or before is not None:
            params = {"limit": "2"} | ({"before": before} if before else {})
            page = (await house.client.get("/v1/run-loops", params=params)).json()
            goals += [loop["goal"] for loop in page["run_loops"]]
            before = page["next_before"]
            pages += 1
        assert goals == [f"Matter {number}" for number in reversed(range(5))]
        assert pages == 3


async def test_the_list_can_be_narrowed_by_status_and_time(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        first = await house.send("First")
        await house.client.post(f"/v1/run-loops/{first['run_loop_id']}/complete")
        await house.send("Second")

        async def goals(query: str) -> list[str]:
            response = await house.client.get(f"/v1/run-loops?{query}")
            assert response.status_code == 200, response.text
            return [loop["goal"] for loop in response.json()["run_loops"]]

        assert await goals("status=active") == ["Second"]
        assert await goals("status=completed") == ["First"]
        assert await goals("status=idle&status=completed") == ["Second", "First"]
        assert await goals("since=2020-01-01T00:00:00Z") == ["Second", "First"]
        assert await goals("since=2020-01-01T00:00:00") == ["Second", "First"]
        assert await goals("until=2020-01-01T00:00:00%2B08:00") == []
        wrong = await house.client.get("/v1/run-loops?status=busy")
        assert wrong.status_code == 422
        assert "status" in wrong.json()["detail"]
        assert (await house.client.get("/v1/run-loops?before=nothing")).status_code == 404


async def test_one_run_loop_tells_why_each_message_came_to_it(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        first = await house.send("One")
        second = await house.send("Two", run_loop_id=first["run_loop_id"])
        whole = (await house.client.get(f"/v1/run-loops/{first['run_loop_id']}")).json()
        assert [turn["user_message"] for turn in whole["iterations"]] == ["One", "Two"]
        routes = {item["message_id"]: item["route"]["decision"] for item in whole["routes"]}
        assert routes == {first["message_id"]: "new", second["message_id"]: "join"}
        assert whole["input_required"] is None


async def test_cancelling_stops_the_work_and_tells_those_who_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        house.llm.hold()
        async with house.stream("POST", "/v1/send", json={"message": "Hello"}) as frames:
            async for frame in frames:
                if frame.event == "iteration.started":
                    path = f"/v1/run-loops/{frame.data['run_loop_id']}"
                    cancelled = await house.client.post(f"{path}/cancel")
                    assert cancelled.json()["status"] == "cancelled"
        assert frame.event == "run_loop.cancelled"
        again = await house.client.post(f"{path}/cancel")
        assert again.status_code == 409
        assert again.json()["advice"]


async def test_a_client_that_waits_for_a_cancelled_loop_is_told_so(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        house.llm.hold()
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                response = await house.client.post("/v1/send", json={"message": "Hello"})
                assert response.status_code == 409
                assert "cancelled" in response.json()["title"]

            group.start_soon(ask)
            loop_id = await house.loop_at_work()
            await house.client.post(f"/v1/run-loops/{loop_id}/cancel")


async def test_a_loop_that_is_at_work_cannot_be_declared_done(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        house.llm.hold()
        async with house.stream("POST", "/v1/send", json={"message": "Hello"}) as frames:
            async for frame in frames:
                if frame.event == "iteration.started":
                    path = f"/v1/run-loops/{frame.data['run_loop_id']}"
                    response = await house.client.post(f"{path}/complete")
                    assert response.status_code == 409
                    house.llm.release()


async def test_the_run_loop_of_another_owner_is_not_found(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.send("Mine")
        await house.agent.memory.journal.append(
            "theirs",
            RunLoopStarted(goal="secret"),
            MessageReceived(message_id="m", message=Message.user("secret")),
            owner="somebody else",
        )
        for method, path in (
            ("GET", "/v1/run-loops/theirs"),
            ("GET", "/v1/run-loops/theirs/events"),
            ("GET", "/v1/run-loops?before=theirs"),
            ("POST", "/v1/run-loops/theirs/cancel"),
            ("POST", "/v1/run-loops/theirs/complete"),
        ):
            response = await house.client.request(method, path)
            assert response.status_code == 404, path
            assert "secret" not in response.text
        body = {"message": "Hello", "run_loop_id": "theirs"}
        assert (await house.client.post("/v1/send", json=body)).status_code == 404
        answer = await house.client.post("/v1/run-loops/theirs/input", json={"approved": True})
        assert answer.status_code == 404
        listed = (await house.client.get("/v1/run-loops")).json()["run_loops"]
        assert [loop["goal"] for loop in listed] == ["Mine"]


async def test_an_id_with_a_slash_in_it_has_its_own_address(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.send("Hello")
        await house.agent.memory.journal.append("a/b c", RunLoopStarted(goal="odd"), owner="me")
        response = await house.client.get("/v1/run-loops/a%2Fb%20c")
        assert response.json()["goal"] == "odd"
        done = await house.client.post("/v1/run-loops/a%2Fb%20c/cancel")
        assert done.json()["status"] == "cancelled"
