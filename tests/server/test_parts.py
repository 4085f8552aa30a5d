"""A message with several requests over HTTP: its sender is told where each of them went."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.agent.agent_options import AgentOptions
from service.routing.routing_options import RouterOptions
from tests.support.server.http_daemon import running

pytestmark = pytest.mark.anyio

OPTIONS = AgentOptions(router=RouterOptions(split_matters=True), auto_classify=False)
TEXT = "1. What is a lemur?\n2. How do I bake bread?\n3. 蒙古国的首都是哪里？"


async def test_the_answer_is_to_the_first_and_names_where_the_others_went(tmp_path: Path) -> None:
    async with running(tmp_path, options=OPTIONS) as house:
        sent = await house.send(TEXT)
        assert sent["response"] == "Answer to 1. What is a lemur?"
        parts = {part["message_id"]: part for part in sent["parts"]}
        assert list(parts) == [f"{sent['message_id']}.{n}" for n in (2, 3)]
        for part in sent["parts"]:
            response = await house.client.get(f"/v1/run-loops/{part['run_loop_id']}")
            assert response.json()["goal"] == part["goal"]
        assert [part["goal"] for part in sent["parts"]] == TEXT.split("\n")[1:]


async def test_a_stream_tells_of_the_others_before_it_ends(tmp_path: Path) -> None:
    async with running(tmp_path, options=OPTIONS) as house:
        frames = await house.frames("POST", "/v1/send", json={"message": TEXT})
        assert [f.event for f in frames[-3:]] == ["message.delivered"] * 2 + ["run_loop.idle"]
        own = frames[-1].data["run_loop_id"]
        parts = [f.data for f in frames[-3:-1]]
        assert [each["data"]["goal"] for each in parts] == TEXT.split("\n")[1:]
        formed = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
        assert all(formed.fullmatch(f.data["at"]) for f in frames[-3:])
        assert own not in {each["run_loop_id"] for each in parts}


async def test_a_part_that_is_asked_about_is_told_as_one_that_waits(tmp_path: Path) -> None:
    asking = AgentOptions(router=RouterOptions(split_matters=True, ask_below=1, use_llm=False))
    async with running(tmp_path, options=asking) as house:
        await house.send("规划去里斯本的旅行")
        sent = await house.send("1. What is a lemur?\n2. How do I bake bread?")
        assert sent["status"] == "waiting_for_human_input"
        assert [part["waits_for_input"] for part in sent["parts"]] == [True]


async def test_a_message_with_one_request_has_no_parts(tmp_path: Path) -> None:
    async with running(tmp_path, options=OPTIONS) as house:
        assert (await house.send("What is a lemur?"))["parts"] == []
        frames = await house.frames("POST", "/v1/send", json={"message": "Hello"})
        assert "message.delivered" not in {frame.event for frame in frames}


async def test_the_same_request_again_tells_the_same(tmp_path: Path) -> None:
    async with running(tmp_path, options=OPTIONS) as house:
        key = {"Idempotency-Key": "k"}
        body = {"message": TEXT}
        first = (await house.client.post("/v1/send", json=body, headers=key)).json()
        again = (await house.client.post("/v1/send", json=body, headers=key)).json()
        assert again["parts"] == first["parts"]
