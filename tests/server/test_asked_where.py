"""Over HTTP: the router asks where a message belongs, and the answer lets it go on there."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.agent.agent_options import AgentOptions
from service.domain.history.human_input import InputRequired
from service.routing.routing_options import RouterOptions
from tests.support.server.http_daemon import running

pytestmark = pytest.mark.anyio

OPTIONS = AgentOptions(router=RouterOptions(ask_below=1, use_llm=False))
TRIP, VAGUE = "规划去里斯本的旅行", "那要多少钱？"
KEY = {"Idempotency-Key": "the vague one"}


@pytest.mark.slow
async def test_the_answer_moves_the_message_and_the_same_request_then_gives_what_became_of_it(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, options=OPTIONS) as house:
        trip = await house.send(TRIP)
        body = {"message": VAGUE}
        asked = (await house.client.post("/v1/send", json=body, headers=KEY)).json()
        assert asked["status"] == "waiting_for_human_input"
        assert asked["response"] is None
        assert asked["route"]["method"] == "asked"
        request = asked["input_required"]
        assert (request["about"], request["kind"]) == ("route", "select")
        assert request["options"] == [TRIP, "一件新的事"]
        assert request["run_loop_ids"] == [trip["run_loop_id"]]
        path = f"/v1/run-loops/{asked['run_loop_id']}"
        answered = await house.client.post(f"{path}/input", json={"choices": [TRIP]})
        assert answered.status_code == 200, answered.text
        assert answered.json()["id"] == trip["run_loop_id"]
        again = (await house.client.post("/v1/send", json=body, headers=KEY)).json()
        assert again["run_loop_id"] == trip["run_loop_id"]
        assert again["response"] == f"Answer to {VAGUE}"
        assert again["route"]["method"] == "person"
        left = (await house.client.get(path)).json()
        assert left["status"] == "cancelled"


async def test_something_new_goes_on_where_it_is(tmp_path: Path) -> None:
    async with running(tmp_path, options=OPTIONS) as house:
        await house.send(TRIP)
        frames = await house.frames("POST", "/v1/send", json={"message": VAGUE}, headers=KEY)
        assert frames[-1].event == "input.required"
        loop = frames[-1].data["run_loop_id"]
        answer = {"choices": [frames[-1].data["data"]["options"][-1]]}
        answered = await house.client.post(f"/v1/run-loops/{loop}/input", json=answer)
        assert answered.json()["id"] == loop
        again = (await house.client.post("/v1/send", json={"message": VAGUE}, headers=KEY)).json()
        assert (again["run_loop_id"], again["response"]) == (loop, f"Answer to {VAGUE}")


async def test_another_question_does_not_say_what_it_is_about(tmp_path: Path) -> None:
    """What older clients read stays as it was."""
    async with running(tmp_path, options=OPTIONS) as house:
        await house.send(TRIP)
        asked = await house.send(VAGUE)
        assert {"about", "run_loop_ids"} <= asked["input_required"].keys()
    plain = InputRequired(request_id="r", kind="prompt", prompt="Where?").model_dump()
    assert not {"about", "run_loop_ids"} & plain.keys()


async def test_nobody_is_asked_by_default(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.send(TRIP)
        assert (await house.send(VAGUE))["status"] == "idle"
