"""Models by name over HTTP: through to the endpoint of the one that was named, or stands in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.agent.agent_options import AgentOptions
from service.llm.named_models import NamedModel
from service.llm.openai.openai_compatible import OpenAIModel
from tests.support.llm.answering import asked, refusing, saying
from tests.support.llm.endpoint import Endpoint, Handler, endpoint
from tests.support.server.http_daemon import House, running

pytestmark = pytest.mark.anyio

OPTIONS: Mapping[str, Any] = {"auto_classify": False, "max_retries": 0}


@asynccontextmanager
async def two_models(
    folder: Path, first: Handler, second: Handler, **options: Any
) -> AsyncIterator[tuple[House, Endpoint, Endpoint]]:
    """A daemon with a default model and one that is called ``large``, each at its endpoint."""
    async with endpoint(first) as one, endpoint(second) as other:
        large = OpenAIModel(model="l", base_url=other.base_url, api_key="of the large one")
        async with running(
            folder,
            llm=OpenAIModel(model="m", base_url=one.base_url, api_key="of the first"),
            options=AgentOptions(**{**OPTIONS, **options}),
            models={"large": NamedModel(large, max_retries=0)},
        ) as house:
            yield house, one, other


@pytest.mark.slow
async def test_a_message_names_its_model_and_only_its_endpoint_is_called(tmp_path: Path) -> None:
    async with two_models(tmp_path, saying("One."), saying("Other.")) as (house, one, other):
        answer = await house.send("Hello", model="large")
        assert answer["response"] == "Other."
        assert (len(asked(one)), [each["model"] for each in asked(other)]) == (0, ["l"])
        assert other.calls[0].headers["authorization"] == "Bearer of the large one"
        path = f"/v1/run-loops/{answer['run_loop_id']}"
        assert (await house.client.get(path)).json()["model"] == "large"
        assert (await house.send("And now?", run_loop_id=answer["run_loop_id"]))["response"] == (
            "Other."
        )
        assert (await house.send("Hello", run_loop_id="new"))["response"] == "One."


async def test_a_name_that_no_model_has_is_refused_with_those_that_there_are(
    tmp_path: Path,
) -> None:
    async with two_models(tmp_path, saying("One."), saying("Other.")) as (house, _, _other):
        refused = await house.client.post("/v1/send", json={"message": "Hi", "model": "lrage"})
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert "default, large" in refused.json()["advice"]
        loops = (await house.client.get("/v1/run-loops")).json()
        assert loops["run_loops"] == []


async def test_while_the_endpoint_is_down_the_answer_comes_from_the_fallback_with_a_warning(
    tmp_path: Path,
) -> None:
    down = refusing("503 Service Unavailable")
    async with two_models(tmp_path, down, saying("Other."), fallback=("large",)) as (house, *_):
        answer = await house.send("Hello")
        assert answer["response"] == "Other."
        (warning,) = answer["warnings"]
        assert warning["kind"] == "llm-fallback"
        assert "large was asked instead of default" in warning["title"]
        frames = await house.frames("POST", "/v1/send", json={"message": "Again"})
        (notice,) = [frame for frame in frames if frame.event == "llm.fallback"]
        assert notice.id is not None
        assert (notice.data["data"]["model"], notice.data["data"]["fallback"]) == (
            "default",
            "large",
        )
        ready = (await house.client.get("/readyz")).json()
        assert ready["llm"]["ready"]
        assert "large" in ready["llm"]["detail"]


async def test_the_same_key_with_another_model_is_another_request(tmp_path: Path) -> None:
    async with two_models(tmp_path, saying("One."), saying("Other.")) as (house, one, _):
        headers = {"Idempotency-Key": "k1"}
        for _ in range(2):
            sent = await house.client.post("/v1/send", json={"message": "Hi"}, headers=headers)
            assert sent.json()["response"] == "One."
        assert len(asked(one)) == 1
        other = {"message": "Hi", "model": "large"}
        assert (await house.client.post("/v1/send", json=other, headers=headers)).status_code == 409
