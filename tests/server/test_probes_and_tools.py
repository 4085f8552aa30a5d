"""Probes tell the truth in words; tools are listed with what they may do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import httpx2
import pytest

from service import __version__
from service.agent.agent_factory import create_agent
from service.config import Settings
from service.domain.errors import EmbeddingError
from service.memory.memory import Memory
from service.memory.protocol import Vectors
from service.server.http_app import create_app
from service.tools.builtins.calculator import calculator
from service.tools.registry import ToolRegistry
from tests.support.memory.remembering import WordEmbedder
from tests.support.server.http_daemon import PatientLLM, running

pytestmark = pytest.mark.anyio


async def test_a_daemon_that_lives_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        response = await house.client.get("/healthz")
        assert response.json() == {"status": "ok", "version": __version__}


async def test_a_daemon_is_ready_when_its_model_is(tmp_path: Path) -> None:
    llm = PatientLLM()
    async with running(tmp_path, llm=llm) as house:
        await house.send("hello")
        ready = await house.client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["llm"] == {"ready": True, "detail": "it answers"}
        llm.ready = False
        asleep = await house.client.get("/readyz")
        assert asleep.status_code == 503
        assert asleep.json()["llm"]["detail"] == "it sleeps"
        assert asleep.json()["memory"]["ready"] is True


async def test_a_daemon_whose_disk_is_full_is_not_ready(tmp_path: Path) -> None:
    async with running(tmp_path, least_free_bytes=1 << 62) as house:
        await house.send("hello")
        response = await house.client.get("/readyz")
        assert response.status_code == 503
        assert "full" in response.json()["memory"]["detail"]


class RefusedEmbedder(WordEmbedder):
    """At an endpoint that quotes the key."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingError("the endpoint said: sk-12345678")


async def test_what_an_endpoint_said_is_not_told_to_strangers(tmp_path: Path) -> None:
    async with running(tmp_path, embedder=RefusedEmbedder()) as house:
        answer = await house.send("hello")
        await house.agent.complete(answer["run_loop_id"])
        with anyio.fail_after(20):
            while (await house.agent.memory.long_term.stats()).problem is None:
                await anyio.sleep(0.01)
        assert "sk-12345678" in (await house.client.get("/v1/memory/stats")).text
        ready = await house.client.get("/readyz")
        assert ready.status_code == 200
        assert "words only" in ready.json()["memory"]["detail"]
        assert "sk-12345678" not in ready.text


async def test_tools_are_listed_with_what_they_may_do_and_why_others_are_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    async with running(tmp_path, tools=[calculator]) as house:
        listed = (await house.client.get("/v1/tools")).json()
        (tool,) = listed["tools"]
        assert tool["name"] == calculator.definition.name
        assert tool["effect"] == "read_only"
        assert tool["needs_approval"] is False
        assert tool["parameters"]["type"] == "object"
        reasons = {item["name"]: item["reason"] for item in listed["not_offered"]}
        assert "TAVILY_API_KEY" in reasons["web_search"]


async def test_a_daemon_whose_data_folder_is_in_use_says_so_to_whoever_asks(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        await house.send("hello")  # so that the folder is taken
        second = create_agent(PatientLLM(), ToolRegistry(), Memory(tmp_path, None))
        app = create_app(Settings(data_dir=tmp_path), agent=second)
        async with app.state.daemon.running():
            transport = httpx2.ASGITransport(app=app)
            headers = {"Authorization": f"Bearer {house.token}"}
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers
            ) as client:
                refused = await client.get("/v1/run-loops")
                assert refused.status_code == 503
                assert "in use" in refused.json()["detail"]
                assert (await client.get("/readyz")).status_code == 503
                assert (await client.get("/healthz")).status_code == 200
