"""Cancelling, which is said only when the work has stopped, and taking up what was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.support.server.gates import Listener, Work
from tests.support.server.http_daemon import House, PatientLLM, running

pytestmark = pytest.mark.anyio


async def cancelled_in_mid_answer(house: House, llm: Listener) -> str:
    """A loop that was cancelled after two words of its answer."""
    llm.hold()
    llm.slow = True
    deltas = 0
    async with house.stream("POST", "/v1/send", json={"message": "Paris?"}) as frames:
        async for frame in frames:
            deltas += frame.event == "message.delta"
            if frame.event == "message.delta" and deltas == 2:
                loop: str = frame.data["run_loop_id"]
                response = await house.client.post(f"/v1/run-loops/{loop}/cancel")
                assert response.json()["status"] == "cancelled"
    assert frame.event == "run_loop.cancelled"
    llm.release()
    return loop


async def until_idle(house: House, loop: str) -> dict[str, Any]:
    with anyio.fail_after(10):
        while True:
            whole: dict[str, Any] = (await house.client.get(f"/v1/run-loops/{loop}")).json()
            if whole["status"] == "idle":
                return whole
            await anyio.sleep(0.01)


@pytest.mark.slow
async def test_a_loop_is_cancelled_in_the_middle_of_an_answer_and_keeps_its_words(
    tmp_path: Path,
) -> None:
    llm = Listener()
    async with running(tmp_path, llm=llm) as house:
        loop = await cancelled_in_mid_answer(house, llm)
        whole = (await house.client.get(f"/v1/run-loops/{loop}")).json()
    assert [i["response"] for i in whole["iterations"]] == ["You said"]
    assert whole["completed_at"] is not None


async def test_a_loop_is_said_to_be_cancelled_only_when_its_tool_has_stopped(
    tmp_path: Path,
) -> None:
    work = Work()
    async with running(tmp_path, llm=Listener(), tools=[work]) as house:
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                response = await house.client.post("/v1/send", json={"message": "Work"})
                assert response.status_code == 409
                assert work.cleaned_up
                outcome.update(response.json())

            outcome: dict[str, Any] = {}
            group.start_soon(ask)
            await work.begun.wait()
            loop = await house.loop_at_work()
            path = f"/v1/run-loops/{loop}"
            response = await house.client.post(f"{path}/cancel")
            assert response.json()["status"] == "cancelled"
            assert work.cleaned_up
        assert "Resume it" in outcome["advice"]
        result = response.json()["iterations"][0]["tool_results"][0]
        assert "unknown" in result["content"]


@pytest.mark.slow
async def test_a_cancelled_loop_goes_on_with_a_message_that_names_it(tmp_path: Path) -> None:
    llm = Listener()
    async with running(tmp_path, llm=llm) as house:
        loop = await cancelled_in_mid_answer(house, llm)
        body = {"message": "And Rome?", "run_loop_id": loop}
        frames = await house.frames("POST", "/v1/send", json=body)
        assert frames[1].event == "run_loop.resumed"
        assert {frame.data["run_loop_id"] for frame in frames[1:]} == {loop}
        whole = (await house.client.get(f"/v1/run-loops/{loop}")).json()
    assert whole["status"] == "idle"
    assert whole["completed_at"] is None
    assert whole["iterations"][-1]["response"] == "You said Paris? + And Rome?"


async def test_a_loop_that_failed_goes_on_and_one_that_is_completed_gets_a_successor(
    tmp_path: Path,
) -> None:
    llm = PatientLLM("error: connection no route to host")
    async with running(tmp_path, llm=llm) as house:
        failed = await house.client.post("/v1/send", json={"message": "Hello"})
        assert failed.status_code == 502
        loop = failed.json()["run_loop_id"]
        again = await house.send("Once more", run_loop_id=loop)
        assert again["run_loop_id"] == loop
        assert again["response"] == "Answer to Once more"
        await house.client.post(f"/v1/run-loops/{loop}/complete")
        later = await house.send("And later", run_loop_id=loop)
        assert later["run_loop_id"] != loop
        assert later["route"]["predecessor_id"] == loop


async def test_resuming_answers_what_was_not_answered(tmp_path: Path) -> None:
    llm = PatientLLM("error: connection no route to host")
    async with running(tmp_path, llm=llm) as house:
        failed = await house.client.post("/v1/send", json={"message": "Hello"})
        path = f"/v1/run-loops/{failed.json()['run_loop_id']}"
        assert (await house.client.get(path)).json()["problem"] is not None
        resumed = await house.client.post(f"{path}/resume")
        assert resumed.status_code == 200
        assert resumed.json()["status"] == "running"
        whole = await until_idle(house, failed.json()["run_loop_id"])
    assert whole["problem"] is None
    assert whole["iterations"][-1]["response"] == "Answer to Hello"


async def test_only_what_was_cancelled_or_has_failed_can_be_resumed(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        loop = (await house.send("Hello"))["run_loop_id"]

        async def refused(status: str) -> None:
            response = await house.client.post(f"/v1/run-loops/{loop}/resume")
            assert response.status_code == 409
            assert status in response.json()["detail"]
            assert response.json()["advice"]

        await refused("idle")
        await house.client.post(f"/v1/run-loops/{loop}/complete")
        await refused("completed")
        assert (await house.client.post("/v1/run-loops/nothing/resume")).status_code == 404


@pytest.mark.slow
async def test_of_two_who_resume_at_once_one_is_told_that_it_goes_on_already(
    tmp_path: Path,
) -> None:
    llm = Listener()
    async with running(tmp_path, llm=llm) as house:
        loop = await cancelled_in_mid_answer(house, llm)
        answers: list[httpx2.Response] = []

        async def resume() -> None:
            answers.append(await house.client.post(f"/v1/run-loops/{loop}/resume"))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(resume)
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]


async def test_the_stream_of_a_loop_that_was_taken_up_again_goes_past_its_first_end(
    tmp_path: Path,
) -> None:
    llm = Listener()
    async with running(tmp_path, llm=llm) as house:
        loop = await cancelled_in_mid_answer(house, llm)
        path = f"/v1/run-loops/{loop}/events"
        first = await house.frames("GET", path)
        assert first[-1].event == "run_loop.cancelled"
        seen = {"Last-Event-ID": str(first[-1].id)}
        assert (await house.client.get(path, headers=seen)).status_code == 204

        await house.send("And Rome?", run_loop_id=loop)
        await house.client.post(f"/v1/run-loops/{loop}/complete")
        rest = await house.frames("GET", path, headers=seen)
        assert rest[0].event == "run_loop.resumed"
        assert rest[-1].event == "run_loop.completed"
        assert await house.frames("GET", path) == [*first, *rest]
