"""Sending: acknowledged only when safe, answered once, and never cancelled by going away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent_options import AgentOptions
from service.routing.routing_options import RouterOptions
from tests.support.server.gates import Launch
from tests.support.server.http_daemon import PatientLLM, running

pytestmark = pytest.mark.anyio

KEY = {"Idempotency-Key": "key-1"}


def wanting_to_launch() -> PatientLLM:
    return PatientLLM("call: launch")


async def test_a_message_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        response = await house.client.post("/v1/send", json={"message": "Hello"})
        answer = response.json()
        assert answer["status"] == "idle"
        assert answer["response"] == "Answer to Hello"
        assert answer["route"]["decision"] == "new"
        assert [turn["user_message"] for turn in answer["iterations"]] == ["Hello"]
        assert response.headers["rondo-message-id"] == answer["message_id"]
        assert response.headers["rondo-run-loop-id"] == answer["run_loop_id"]


@pytest.mark.slow
async def test_a_follow_up_joins_its_run_loop_and_gets_its_own_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        first = await house.send("One")
        second = await house.send("Two", run_loop_id=first["run_loop_id"], mode="steer")
        assert second["run_loop_id"] == first["run_loop_id"]
        assert second["response"] == "Answer to Two"
        assert [turn["user_message"] for turn in second["iterations"]] == ["Two"]
        assert second["route"]["method"] == "explicit"


async def test_chinese_and_emoji_go_through_whole(tmp_path: Path) -> None:
    words = "你好,世界 👩‍🚀\u2028𠮷\x85\0"
    async with running(tmp_path) as house:
        frames = await house.frames("POST", "/v1/send", json={"message": words})
        data = {frame.event: frame.data["data"] for frame in frames[1:]}
        said = {
            event: data[event]["message"]["content"][0]["text"]
            for event in ("message.received", "message.completed")
        }
        assert said == {"message.received": words, "message.completed": f"Answer to {words}"}


async def test_an_answer_is_streamed_in_its_pieces(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        house.llm.hold()
        async with house.stream("POST", "/v1/send", json={"message": "Hello"}) as frames:
            pieces = []
            async for frame in frames:
                if frame.event == "iteration.started":
                    house.llm.release()
                if frame.event == "message.delta":
                    assert frame.id is None
                    pieces.append(frame.data["data"]["text"])
            assert pieces == ["Answ", "er t", "o He", "llo"]


async def test_a_stream_begins_with_the_receipt_and_ends_when_the_loop_rests(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        frames = await house.frames("POST", "/v1/send", json={"message": "Hello"})
        assert frames[0].event == "message.accepted"
        assert frames[0].id is None
        assert frames[0].data["replayed"] is False
        assert [frame.event for frame in frames[1:3]] == ["run_loop.started", "message.received"]
        assert frames[-1].event == "run_loop.idle"
        for frame in frames[1:]:
            assert frame.data["type"] == frame.event
            seq = frame.data["seq"]
            assert frame.id == (None if seq is None else str(seq))


@pytest.mark.slow
async def test_the_receipt_comes_before_the_route_is_decided(tmp_path: Path) -> None:
    options = AgentOptions(router=RouterOptions(sure_above=1))
    async with running(tmp_path, options=options) as house:
        await house.send("The weather in Bergen")
        house.llm.hold()
        body = {"message": "And tomorrow?"}
        async with house.stream("POST", "/v1/send", json=body) as frames:
            first = await anext(frames)
            assert first.event == "message.accepted"
            waiting = await house.agent.memory.journal.inbox.undelivered()
            assert [entry.message_id for entry in waiting] == [first.data["message_id"]]
        house.llm.release()


async def test_a_client_that_goes_away_cancels_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        house.llm.hold()
        async with house.stream("POST", "/v1/send", json={"message": "Hello"}) as frames:
            async for frame in frames:
                if frame.event == "iteration.started":
                    break
            run_loop_id = frame.data["run_loop_id"]
            await house.until(listeners=1)
        await house.until(listeners=0)
        house.llm.release()
        with anyio.fail_after(10):
            while (await house.agent.run_loop(run_loop_id)).status != "idle":
                await anyio.sleep(0.01)
        run_loop = await house.agent.run_loop(run_loop_id)
        assert run_loop.iterations[0].response == "Answer to Hello"


@pytest.mark.slow
async def test_a_waiting_client_that_goes_away_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        house.llm.hold()
        with anyio.move_on_after(0.5):
            await house.client.post("/v1/send", json={"message": "Hello"})
        await house.until(listeners=0)
        house.llm.release()


async def test_replies_sent_twice_the_same_key_and_body_give_the_same_answer(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        body = {"message": "Hello", "metadata": {"a": 1, "b": 2}}
        same = {"metadata": {"b": 2, "a": 1}, "message": "Hello"}
        first = await house.client.post("/v1/send", json=body, headers=KEY)
        again = await house.client.post("/v1/send", json=same, headers=KEY)
        assert again.json() == first.json()
        assert len(house.llm.requests) == 1


@pytest.mark.slow
async def test_the_same_key_and_body_give_the_same_events(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        body = {"message": "Hello"}
        first = await house.frames("POST", "/v1/send", json=body, headers=KEY)
        again = await house.frames("POST", "/v1/send", json=body, headers=KEY)
        assert again[0].data == {**first[0].data, "replayed": True}
        assert again[1:] == [frame for frame in first[1:] if frame.id is not None]


@pytest.mark.slow
async def test_the_same_key_with_another_body_is_a_conflict(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.client.post("/v1/send", json={"message": "Hello"}, headers=KEY)
        other = await house.client.post("/v1/send", json={"message": "Bye"}, headers=KEY)
        assert other.status_code == 409
        assert "new key" in other.json()["advice"]
        assert len(house.llm.requests) == 1


async def test_a_message_for_an_unknown_run_loop_is_not_accepted(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        response = await house.client.post(
            "/v1/send", json={"message": "Hello", "run_loop_id": "nothing"}
        )
        assert response.status_code == 404


async def test_a_run_loop_that_failed_is_told_with_its_words(tmp_path: Path) -> None:
    llm = PatientLLM("error: connection no route to host")
    async with running(tmp_path, llm=llm) as house:
        response = await house.client.post("/v1/send", json={"message": "Hello"})
        assert response.status_code == 502
        problem: dict[str, Any] = response.json()
        assert "no route to host" in problem["detail"]
        assert problem["advice"]
        run_loop = await house.agent.run_loop(problem["run_loop_id"])
        assert run_loop.status == "failed"


async def test_a_run_loop_that_needs_a_person_says_what_it_asks_and_goes_on_with_the_answer(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, llm=wanting_to_launch(), tools=[Launch()]) as house:
        asked = await house.send("Launch it")
        assert asked["status"] == "waiting_for_human_input"
        assert asked["input_required"]["kind"] == "approve"
        path = f"/v1/run-loops/{asked['run_loop_id']}"
        async with house.stream("GET", f"{path}/events") as frames:
            answer = await house.client.post(f"{path}/input", json={"approved": True})
            assert answer.status_code == 200
            async for frame in frames:
                if frame.event == "run_loop.idle":
                    break
        whole = (await house.client.get(path)).json()
        assert whole["iterations"][0]["tool_results"][0]["content"] == "launched"
        twice = await house.client.post(f"{path}/input", json={"approved": True})
        assert twice.status_code == 409


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        {"approved": "true"},
        {"approved": 1},
        {"approve": True},
        {},
        {"approved": True, "text": "no, do not"},
        {"approved": True, "text": ""},
    ],
)
async def test_an_answer_that_is_not_clearly_a_yes_is_never_one(
    tmp_path: Path, answer: dict[str, Any]
) -> None:
    async with running(tmp_path, llm=wanting_to_launch(), tools=[Launch()]) as house:
        asked = await house.send("Launch it")
        path = f"/v1/run-loops/{asked['run_loop_id']}"
        response = await house.client.post(f"{path}/input", json=answer)
        assert response.status_code == 422
        assert (await house.client.get(path)).json()["input_required"] is not None


@pytest.mark.slow
async def test_a_daemon_that_stops_tells_those_who_wait_that_their_message_is_safe(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        house.llm.hold()
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                response = await house.client.post("/v1/send", json={"message": "Hello"})
                assert response.status_code == 503
                assert "safe" in response.json()["detail"]
                assert response.json()["run_loop_id"]

            group.start_soon(ask)
            await house.loop_at_work()
            house.server.stop()
    async with running(tmp_path) as house:
        loops = (await house.client.get("/v1/run-loops")).json()["run_loops"]
        assert [loop["goal"] for loop in loops] == ["Hello"]


async def test_different_idempotency_keys_at_once_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        keys = [("Idempotency-Key", "one"), ("Idempotency-Key", "two")]
        response = await house.client.post("/v1/send", json={"message": "Hello"}, headers=keys)
        assert response.status_code == 400
        assert (await house.client.get("/v1/run-loops")).json()["run_loops"] == []
        keys[1] = keys[0]
        response = await house.client.post("/v1/send", json={"message": "Hello"}, headers=keys)
        assert response.status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "accept", ["text/event-stream;q=0", "text/event-stream; q=0.0, application/json"]
)
async def test_a_client_that_wants_no_stream_gets_none(tmp_path: Path, accept: str) -> None:
    async with running(tmp_path) as house:
        response = await house.client.post(
            "/v1/send", json={"message": "Hello"}, headers={"Accept": accept}
        )
        assert response.json()["response"] == "Answer to Hello"
