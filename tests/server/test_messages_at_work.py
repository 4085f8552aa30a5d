"""Messages to a run loop that is at work: each sender gets the answer to its own message."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent_options import AgentOptions
from tests.support.server.gates import Launch, Listener, Work
from tests.support.server.http_daemon import Frame, House, PatientLLM, running

pytestmark = pytest.mark.anyio


class Sending:
    """A message whose sender waits for the answer, in the background."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}

    async def send(self, house: House, message: str, **more: Any) -> None:
        self.answer = await house.send(message, **more)


async def received(house: House, run_loop_id: str, messages: int) -> None:
    """Wait until so many messages have come in."""
    with anyio.fail_after(10):
        while True:
            events = await house.agent.memory.journal.read(run_loop_id=run_loop_id)
            if [event.type for event in events].count("message.received") == messages:
                return
            await anyio.sleep(0.01)


async def two_senders(
    house: House, work: Work, second: str, mode: str, *, release: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send a second message while a tool runs for the first; the answers of both."""
    first, other = Sending(), Sending()
    async with anyio.create_task_group() as group:
        group.start_soon(first.send, house, "Work on dinner")
        await work.begun.wait()
        loop = await house.loop_at_work()

        async def send_other() -> None:
            await other.send(house, second, run_loop_id=loop, mode=mode)

        group.start_soon(send_other)
        await received(house, loop, 2)
        if release:
            work.may_end.set()
    return first.answer, other.answer


async def test_a_steering_message_is_seen_at_the_next_step_and_answered_with_the_first(
    tmp_path: Path,
) -> None:
    work = Work()
    async with running(tmp_path, llm=Listener(), tools=[work]) as house:
        first, second = await two_senders(house, work, "Vegetarian!", "steer", release=True)
    assert first["response"] == second["response"] == "You said Work on dinner + Vegetarian!"
    assert first["status"] == second["status"] == "idle"
    assert [i["user_message"] for i in first["iterations"]] == ["Work on dinner", "Vegetarian!"]
    assert [i["user_message"] for i in second["iterations"]] == ["Vegetarian!"]
    assert first["interrupted_by"] is None


@pytest.mark.slow
async def test_a_follow_up_is_answered_after_the_first_and_each_gets_its_own_answer(
    tmp_path: Path,
) -> None:
    work = Work()
    async with running(tmp_path, llm=Listener(), tools=[work]) as house:
        first, second = await two_senders(house, work, "Wash up.", "followup", release=True)
    assert first["response"] == "You said Work on dinner"
    assert first["status"] == "running"
    assert second["response"] == "You said Wash up."
    assert second["status"] == "idle"
    assert [i["user_message"] for i in second["iterations"]] == ["Wash up."]


@pytest.mark.slow
async def test_an_interrupting_message_is_taken_once_the_work_has_really_stopped(
    tmp_path: Path,
) -> None:
    work = Work()
    async with running(tmp_path, llm=Listener(), tools=[work]) as house:
        first, second = await two_senders(house, work, "Pizza!", "interrupt", release=False)
        assert work.cleaned_up
        loop = await house.agent.run_loop(first["run_loop_id"])
    assert first["response"] == second["response"] == "You said Work on dinner + Pizza!"
    assert first["interrupted_by"] == second["message_id"]
    assert second["interrupted_by"] is None
    assert [i["user_message"] for i in second["iterations"]] == ["Pizza!"]
    result = loop.iterations[0].tool_results[0]
    assert result.is_error
    assert "unknown" in result.content


async def test_an_interrupt_in_mid_answer_keeps_the_words_that_had_streamed(
    tmp_path: Path,
) -> None:
    llm = Listener()
    async with running(tmp_path, llm=llm) as house:
        llm.hold()
        llm.slow = True
        frames: list[Frame] = []
        async with house.stream("POST", "/v1/send", json={"message": "Paris?"}) as stream:
            async for frame in stream:
                frames.append(frame)
                if llm.slow and [f.event for f in frames].count("message.delta") == 2:
                    llm.slow = False
                    loop = frame.data["run_loop_id"]
                    second = await house.send("Rome?", run_loop_id=loop, mode="interrupt")
        whole = (await house.client.get(f"/v1/run-loops/{loop}")).json()
    assert second["response"] == "You said Paris? + Rome?"
    assert [i["response"] for i in whole["iterations"]] == ["You said", second["response"]]
    cut, answer = (f.data["data"] for f in frames if f.event == "message.completed")
    assert (cut["cut"], answer["cut"]) == (True, False)


async def interrupted_in_mid_answer(
    house: House, words: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the sender of a message is told, and who interrupted its answer after two words."""
    first = Sending()
    async with anyio.create_task_group() as group, house.stream("GET", "/v1/events") as frames:
        group.start_soon(first.send, house, "Paris?")
        deltas = 0
        async for frame in frames:
            deltas += frame.event == "message.delta"
            if deltas == 2:
                break
        if isinstance(house.llm, Listener):
            house.llm.slow = False
        loop = frame.data["run_loop_id"]
        second = await house.send(words, run_loop_id=loop, mode="interrupt")
    return first.answer, second


async def test_the_sender_of_an_answer_that_was_interrupted_gets_the_one_that_came_instead(
    tmp_path: Path,
) -> None:
    llm = Listener()
    async with running(tmp_path, llm=llm) as house:
        llm.hold()
        llm.slow = True
        first, second = await interrupted_in_mid_answer(house, "Rome?")
    assert first["response"] == second["response"] == "You said Paris? + Rome?"
    assert first["interrupted_by"] == second["message_id"]
    assert [i["response"] for i in first["iterations"]] == ["You said", second["response"]]


async def test_words_that_were_cut_off_are_no_answer(tmp_path: Path) -> None:
    llm = PatientLLM("text/4: Paris is\npause: 30", "call: launch")
    async with running(tmp_path, llm=llm, tools=[Launch()]) as house:
        first, second = await interrupted_in_mid_answer(house, "Launch it")
    assert first["status"] == second["status"] == "waiting_for_human_input"
    assert first["response"] is None
    assert first["interrupted_by"] == second["message_id"]


@pytest.mark.slow
async def test_the_answers_before_and_after_are_streamed_but_are_not_the_senders_own(
    tmp_path: Path,
) -> None:
    work = Work()
    async with running(tmp_path, llm=Listener(), tools=[work]) as house:
        answers: dict[str, Any] = {}

        async def send(message: str, mode: str) -> None:
            answers[message] = await house.send(message, run_loop_id=loop, mode=mode)

        async with anyio.create_task_group() as group:
            group.start_soon(Sending().send, house, "Work on dinner")
            await work.begun.wait()
            loop = await house.loop_at_work()
            group.start_soon(send, "Two", "followup")
            await received(house, loop, 2)
            body = {"message": "Three", "run_loop_id": loop, "mode": "followup"}
            async with house.stream("POST", "/v1/send", json=body) as stream:
                assert (await anext(stream)).event == "message.accepted"
                await received(house, loop, 3)
                group.start_soon(send, "Four", "followup")
                await received(house, loop, 4)
                work.may_end.set()
                frames = [frame async for frame in stream]
    assert answers["Two"]["response"] == "You said Two"
    assert answers["Four"]["response"] == "You said Four"
    said = [
        frame.data["data"]["message"]["content"][0]["text"]
        for frame in frames
        if frame.event == "message.completed"
    ]
    assert said == ["You said Work on dinner", "You said Two", "You said Three", "You said Four"]
    assert frames[-1].event == "run_loop.idle"


async def test_a_message_that_comes_while_the_last_words_stream_gets_an_answer_of_its_own(
    tmp_path: Path,
) -> None:
    llm = Listener()
    async with running(tmp_path, llm=llm) as house:
        llm.hold()
        llm.slow = True
        first, second = Sending(), Sending()
        async with anyio.create_task_group() as group:
            group.start_soon(first.send, house, "One")
            loop = await house.loop_at_work()

            async def send_second() -> None:
                await second.send(house, "Two", run_loop_id=loop)

            async with house.stream("GET", f"/v1/run-loops/{loop}/events") as stream:
                async for frame in stream:
                    if frame.event == "iteration.started":
                        break
            group.start_soon(send_second)
            await received(house, loop, 2)
            llm.release()
    assert first.answer["response"] == "You said One"
    assert second.answer["response"] == "You said Two"


@pytest.mark.slow
async def test_a_follow_up_to_a_loop_that_comes_to_ask_a_person_has_no_answer_yet(
    tmp_path: Path,
) -> None:
    work = Work()
    llm = PatientLLM("call: work", "text: I will launch.\ncall: launch")
    async with running(tmp_path, llm=llm, tools=[work, Launch()]) as house:
        first, second = await two_senders(house, work, "And report", "followup", release=True)
        assert first["status"] == second["status"] == "waiting_for_human_input"
        assert first["input_required"] == second["input_required"]
        assert first["response"] == "I will launch."
        assert second["response"] is None
        assert second["iterations"] == []

        third = await house.send("Hurry", run_loop_id=first["run_loop_id"])
        assert third["input_required"] is None
        assert third["response"] == "Answer to Hurry"
        path = f"/v1/run-loops/{first['run_loop_id']}"
        while (await house.client.get(path)).json()["status"] != "idle":
            await anyio.sleep(0.01)
        whole = (await house.client.get(path)).json()
    heard = [iteration["user_message"] for iteration in whole["iterations"]]
    assert heard == ["Work on dinner", None, "Hurry", "And report"]


async def test_the_same_key_with_another_mode_is_another_request(tmp_path: Path) -> None:
    headers = {"Idempotency-Key": "k"}
    async with running(tmp_path) as house:
        for mode, status in (("steer", 200), (None, 200), ("followup", 409), ("interrupt", 409)):
            body = {"message": "Hello"} | ({"mode": mode} if mode else {})
            response = await house.client.post("/v1/send", json=body, headers=headers)
            assert response.status_code == status, mode
        wrong = await house.client.post("/v1/send", json={"message": "Hello", "mode": "shout"})
        assert wrong.status_code == 422
        assert "steer" in wrong.json()["detail"]


async def test_a_follow_up_asked_for_again_gets_the_same_answer(tmp_path: Path) -> None:
    work, headers = Work(), {"Idempotency-Key": "k"}
    async with running(tmp_path, llm=Listener(), tools=[work]) as house:
        async with anyio.create_task_group() as group:
            group.start_soon(Sending().send, house, "Work on dinner")
            await work.begun.wait()
            loop = await house.loop_at_work()
            body = {"message": "Wash up.", "run_loop_id": loop, "mode": "followup"}

            async def ask() -> None:
                answers.append(
                    (await house.client.post("/v1/send", json=body, headers=headers)).json()
                )

            answers: list[dict[str, Any]] = []
            group.start_soon(ask)
            await received(house, loop, 2)
            group.start_soon(ask)
            work.may_end.set()
        await ask()
    assert len(answers) == 3
    assert answers[0]["response"] == "You said Wash up."
    assert answers[0] == answers[1] == answers[2]


MODES: tuple[Callable[[int], str], ...] = (
    lambda number: "steer",
    lambda number: "followup",
    lambda number: ("steer", "followup")[number % 2],
    lambda number: ("steer", "followup", "interrupt")[number % 3],
)


@pytest.mark.slow
@pytest.mark.parametrize("mode_of", MODES, ids=["steer", "followup", "both", "all"])
async def test_of_many_who_send_at_once_each_gets_the_answer_to_its_own_message(
    tmp_path: Path, mode_of: Callable[[int], str]
) -> None:
    """None of them is told that the loop rests before it has heard the message."""
    options = AgentOptions(auto_classify=False, max_retries=0, recall_tokens=0)
    async with running(tmp_path, llm=Listener(), options=options) as house:
        loop = (await house.send("Begin"))["run_loop_id"]
        chance = random.Random(7)
        answered: list[str] = []

        async def send(number: int) -> None:
            for turn in range(8):
                message = f"<{number}.{turn}>"
                await anyio.sleep(chance.uniform(0, 0.03))  # as often as not as it comes to rest
                answer = await house.send(message, run_loop_id=loop, mode=mode_of(number))
                assert answer["response"] is not None
                assert message in answer["response"]
                answered.append(message)

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(send, number)
        assert len(set(answered)) == 48
        assert (await house.agent.run_loop(loop)).status == "idle"
