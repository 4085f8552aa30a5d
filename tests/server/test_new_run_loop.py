"""A sender who says over HTTP that a message is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.agent.agent_options import AgentOptions
from service.routing.routing_options import RouterOptions
from tests.support.server.http_daemon import running

pytestmark = pytest.mark.anyio

ROUTING = AgentOptions(max_retries=0, router=RouterOptions(use_llm=False))


async def test_a_message_said_to_be_new_opens_a_run_loop_beside_the_one_it_resembles(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, options=ROUTING) as house:
        first = await house.send("Please find a hotel in Bonn for Friday")
        near = await house.send("And does the hotel in Bonn have breakfast?")
        assert near["run_loop_id"] == first["run_loop_id"]
        new = await house.send("And does the hotel in Bonn have breakfast?", run_loop_id="new")
        assert new["run_loop_id"] != first["run_loop_id"]
        assert (new["route"]["decision"], new["route"]["method"]) == ("new", "explicit")
        assert new["response"] == "Answer to And does the hotel in Bonn have breakfast?"


async def test_the_same_new_message_with_the_same_key_opens_one_run_loop(tmp_path: Path) -> None:
    async with running(tmp_path, options=ROUTING) as house:
        body, key = {"message": "说点新的", "run_loop_id": "new"}, {"Idempotency-Key": "k"}
        first, again = [
            (await house.client.post("/v1/send", json=body, headers=key)).json() for _ in range(2)
        ]
        assert first["run_loop_id"] == again["run_loop_id"]
        other = await house.client.post("/v1/send", json={"message": "说点新的"}, headers=key)
        assert other.status_code == 409


async def test_the_word_for_a_new_one_is_no_run_loop_that_could_be_asked_for(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, options=ROUTING) as house:
        await house.send("Hello")
        assert (await house.client.get("/v1/run-loops/new")).status_code == 404
        for id_ in ("New", " new", "", "NEW"):
            sent = await house.client.post("/v1/send", json={"message": "x", "run_loop_id": id_})
            assert sent.status_code == 404, id_
