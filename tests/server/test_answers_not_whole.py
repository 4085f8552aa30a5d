"""An answer that is not whole, from a real endpoint to a real client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from service.agent.agent_options import AgentOptions
from service.llm.anthropic.anthropic_messages import AnthropicModel
from service.llm.openai.openai_compatible import OpenAIModel
from service.llm.protocol import LLM
from service.loop.brain import Limits
from tests.support.llm.anthropic_endpoint import (
    block,
    end,
    start,
    stream_of,
    text,
    without_abilities,
)
from tests.support.llm.endpoint import Call, Handler, chunk, endpoint
from tests.support.server.http_daemon import House, running

pytestmark = pytest.mark.anyio

Part = tuple[str, str]
"""Words, and how the endpoint says that it ended."""


def openai_endpoint(*parts: Part) -> Handler:
    left = list(enumerate(parts))

    async def handler(call: Call) -> None:
        number, (words, reason) = left.pop(0)
        await call.begin()
        for piece in (words[:3], words[3:]):
            await call.event({**chunk({"content": piece}), "id": f"chatcmpl-{number}"})
        await call.event(chunk(finish=reason))

    return handler


def anthropic_endpoint(*parts: Part) -> Handler:
    left = list(enumerate(parts))

    async def handler(call: Call) -> None:
        number, (words, reason) = left.pop(0)
        begin = start()
        begin["message"]["id"] = f"chatcmpl-{number}"
        await call.begin()
        events = [begin, *block(0, "text", *text(words), text=""), *end(reason)]
        await call.send(stream_of(events).encode())

    return without_abilities(handler)


def options(**limits: int) -> AgentOptions:
    return AgentOptions(auto_classify=False, max_retries=0, limits=Limits(**limits))


async def _whole(house: House, run_loop_id: str) -> dict[str, Any]:
    details: dict[str, Any] = (await house.client.get(f"/v1/run-loops/{run_loop_id}")).json()
    return details


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_cut_answer_comes_whole_over_either_wire(tmp_path: Path, wire: str) -> None:
    cut, done = ("length", "stop") if wire == "openai" else ("max_tokens", "end_turn")
    parts: Sequence[Part] = (("一、二、", cut), ("三、四", cut), ("。", done))
    serve = openai_endpoint if wire == "openai" else anthropic_endpoint
    async with endpoint(serve(*parts)) as served:
        llm: LLM = (
            OpenAIModel(model="m", base_url=served.base_url)
            if wire == "openai"
            else AnthropicModel(model="m", base_url=served.base_url)
        )
        async with running(tmp_path, llm=llm, options=options()) as house:
            sent = await house.send("从一数到四。")
            whole = await _whole(house, sent["run_loop_id"])
    assert (sent["response"], sent["finish_reason"]) == ("一、二、三、四。", None)
    assert sent["iterations"] == whole["iterations"]
    iterations = [
        (each["response"], each.get("finish_reason"), each["response_id"])
        for each in whole["iterations"]
    ]
    assert iterations == [
        ("一、二、", "length", "chatcmpl-0"),
        ("三、四", "length", "chatcmpl-1"),
        ("。", None, "chatcmpl-2"),
    ]
    asked = [call for call in served.calls if not call.path.startswith("/v1/models")]
    assert [each["role"] for each in asked[-1].body["messages"]][-4:] == [
        "assistant",
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_an_answer_that_stays_cut_is_marked_wherever_it_is_told(
    tmp_path: Path, reason: str
) -> None:
    async with endpoint(openai_endpoint(("Half a", reason))) as served:
        llm = OpenAIModel(model="m", base_url=served.base_url)
        async with running(tmp_path, llm=llm, options=options(max_continuations=0)) as house:
            frames = await house.frames("POST", "/v1/send", json={"message": "Tell all."})
            loop_id = frames[-1].data["run_loop_id"]
            whole = await _whole(house, loop_id)
    (completed,) = [each.data["data"] for each in frames if each.event == "message.completed"]
    assert (completed["finish_reason"], completed["response_id"]) == (reason, "chatcmpl-0")
    assert completed["cut"] is False
    assert frames[-1].event == "run_loop.idle"
    assert [each["finish_reason"] for each in whole["iterations"]] == [reason]


@pytest.mark.slow
async def test_what_was_cut_is_exported_and_comes_back_in(tmp_path: Path) -> None:
    parts = (("One, ", "length"), ("two.", "stop"))
    async with endpoint(openai_endpoint(*parts)) as served:
        llm = OpenAIModel(model="m", base_url=served.base_url)
        async with running(tmp_path / "a", llm=llm, options=options()) as house:
            loop_id = (await house.send("Count."))["run_loop_id"]
            await house.client.post(f"/v1/run-loops/{loop_id}/complete")
            line = (await house.client.get("/v1/memory/export")).content
            before = await _whole(house, loop_id)
    async with running(tmp_path / "b") as house:
        response = await house.client.post(
            "/v1/memory/import", content=line, headers={"Content-Type": "application/x-ndjson"}
        )
        assert response.json()["imported"] == 1
        after = await _whole(house, loop_id)
        assert (await house.client.get("/v1/memory/export")).content == line
    assert after["iterations"] == before["iterations"]
    assert [each["response"] for each in after["iterations"]] == ["One, ", "two."]
