"""Images over HTTP: through to the model's endpoint, and out of every file when forgotten."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.images import LARGEST_IMAGE, image_part
from service.llm.anthropic.anthropic_messages import AnthropicModel
from service.llm.openai.openai_compatible import OpenAIModel
from tests.support.llm.answering import asked, saying, saying_as_claude
from tests.support.llm.endpoint import Endpoint, endpoint
from tests.support.memory.secrets import traces
from tests.support.server.http_daemon import House, PatientLLM, running

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + os.urandom(600)
URL = image_part(PNG).url
ADDRESS = "https://images.example/lemur.png"


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"message": list(parts)}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(url: str = URL, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "url": url, **more}


@asynccontextmanager
async def seeing(folder: Path, **options: Any) -> AsyncIterator[tuple[House, Endpoint]]:
    """A daemon whose model is at an endpoint that keeps what it is sent."""
    async with endpoint(saying("A lemur.")) as served:
        llm = OpenAIModel(model="m", base_url=served.base_url, **options)
        async with running(folder, llm=llm) as house:
            yield house, served


@pytest.mark.slow
async def test_an_image_reaches_the_model_with_its_words_and_still_does_in_a_follow_up(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as (house, served):
        sent = await house.client.post(
            "/v1/send", json=said(words("这是什么?"), image(id="img-7"), image(ADDRESS))
        )
        answer = sent.json()
        assert answer["response"] == "A lemur."
        assert answer["warnings"] == []
        content = asked(served)[0]["messages"][1]["content"]
        assert content == [
            {"type": "text", "text": "这是什么?"},
            {"type": "image_url", "image_url": {"url": URL}},
            {"type": "image_url", "image_url": {"url": ADDRESS}},
        ]
        await house.send("And its colour?", run_loop_id=answer["run_loop_id"])
        assert asked(served)[1]["messages"][1]["content"] == content

        path = f"/v1/run-loops/{answer['run_loop_id']}"
        loop = (await house.client.get(path)).json()
        assert loop["goal"] == "这是什么? (an image) (an image)"
        assert loop["iterations"][0]["user_message"] == loop["goal"]
        events = await house.agent.memory.journal.read(run_loop_id=answer["run_loop_id"])
        received = next(each.wire() for each in events if each.type == "message.received")
        parts = received["data"]["message"]["content"]
        assert [part.get("id") for part in parts] == [None, "img-7", None]


async def test_the_form_of_openai_is_taken_too(tmp_path: Path) -> None:
    nested = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}
    async with seeing(tmp_path) as (house, served):
        sent = await house.client.post("/v1/send", json=said(nested))
        assert sent.status_code == 200, sent.text
        assert sent.json()["iterations"][0]["user_message"] == "(an image)"
        assert asked(served)[0]["messages"][1]["content"][0]["image_url"] == {"url": URL}


async def test_a_claude_model_gets_images_in_its_own_form(tmp_path: Path) -> None:
    async with endpoint(saying_as_claude("A lemur.")) as served:
        address = served.base_url.removesuffix("/v1")
        llm = AnthropicModel(model="claude-x", base_url=address, api_key="k")
        async with running(tmp_path, llm=llm) as house:
            parts = said(words("What is this?"), image(), image(ADDRESS))
            assert (await house.client.post("/v1/send", json=parts)).json()["response"]
        content = asked(served)[0]["messages"][0]["content"]
    encoded = base64.b64encode(PNG).decode()
    assert [block.get("source") for block in content] == [
        None,
        {"type": "base64", "media_type": "image/png", "data": encoded},
        {"type": "url", "url": ADDRESS},
    ]


async def test_a_model_that_takes_no_images_is_told_of_them_and_so_is_the_person(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, takes_images=False) as (house, served):
        sent = await house.client.post("/v1/send", json=said(words("What is this?"), image()))
        assert [each["kind"] for each in sent.json()["warnings"]] == ["images-not-shown"]
        content = asked(served)[0]["messages"][1]["content"]
        assert content == "What is this?[an image that you cannot see]"
        again = await house.send("Why?", run_loop_id=sent.json()["run_loop_id"])
        assert again["warnings"] == []  # said once, not with every message after it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([image("http://images.example/a.png")], "https:"),
        ([image("https://")], "address"),
        ([image("data:image/png,abc")], "base64"),
        ([image("data:image/png;base64,a*c")], "base64"),
        ([image("data:image/jpeg;base64," + base64.b64encode(PNG).decode())], "image/png"),
        ([image("data:image/svg+xml;base64,PHN2Zy8+")], "PNG, JPEG, GIF or WebP"),
        ([image("data:image/png;base64," + "A" * (LARGEST_IMAGE * 4 // 3 + 400))], "5,000,000"),
        ([image(), words("x"), image("ftp://x/y")], "image 2"),
        ([], "empty"),
        ([words("  ")], "empty"),
        ([{"type": "video", "url": ADDRESS}], "text"),
    ],
)
async def test_what_is_no_image_is_refused_in_words(
    tmp_path: Path, parts: list[dict[str, Any]], why: str
) -> None:
    async with running(tmp_path, max_body_bytes=16_000_000) as house:
        refused = await house.client.post("/v1/send", json={"message": parts})
        assert refused.status_code == 422
        problem = refused.json()
        assert why in problem["detail"]
        assert problem["advice"]
        assert len(problem["detail"]) < 400
        assert house.agent.memory.short_term.states() == []


async def test_the_same_key_with_another_image_is_another_message(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "k"}
    other = image_part(PNG + b"x").url
    async with running(tmp_path) as house:
        first = await house.client.post("/v1/send", json=said(words("Look"), image()), headers=key)
        again = await house.client.post("/v1/send", json=said(words("Look"), image()), headers=key)
        assert again.json()["message_id"] == first.json()["message_id"]
        changed = said(words("Look"), image(other))
        refused = await house.client.post("/v1/send", json=changed, headers=key)
        assert refused.status_code == 409


@pytest.mark.slow
async def test_a_forgotten_image_is_in_no_file_any_more(tmp_path: Path) -> None:
    marks = (URL[300:400], ADDRESS)
    async with running(tmp_path, llm=PatientLLM()) as house:
        parts = said(words("Keep this"), image(), image(ADDRESS))
        kept = (await house.client.post("/v1/send", json=said(words("hi")))).json()
        gone = (await house.client.post("/v1/send", json=parts)).json()
        mixed = (
            await house.client.post("/v1/send", json={**parts, "run_loop_id": kept["run_loop_id"]})
        ).json()
        fork = await house.client.post(f"/v1/run-loops/{gone['run_loop_id']}/fork", json={})
        assert fork.status_code < 300, fork.text
        await house.agent.complete(gone["run_loop_id"])
        assert traces(tmp_path, *marks)
        targets = {
            "run_loop_ids": [gone["run_loop_id"]],
            "anchors": [f"{mixed['run_loop_id']}:1.0"],
        }
        forget = "/v1/memory/forget"
        for request in ({"run_loop_ids": targets["run_loop_ids"]}, {"anchors": targets["anchors"]}):
            preview = (await house.client.post(forget, json=request)).json()
            assert preview.get("confirm"), preview
            done = await house.client.post(forget, json={**request, "confirm": preview["confirm"]})
            assert done.status_code == 200, done.text
        assert traces(tmp_path, *marks) == []


@pytest.mark.slow
async def test_memory_exports_and_searches_hold_a_word_for_an_image_and_not_its_bytes(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        sent = await house.client.post("/v1/send", json=said(words("My padlock"), image()))
        run_loop_id = sent.json()["run_loop_id"]
        await house.agent.complete(run_loop_id)
        await house.agent.memory.archivist.drain()
        response = await house.client.post("/v1/memory/search", json={"query": "padlock"})
        contents = [hit["content"] for hit in response.json()["hits"]]
        assert "My padlock (an image)" in contents
        exported = (await house.client.get("/v1/memory/export")).text
        assert "My padlock (an image)" in exported
        assert URL[300:340] not in exported
