"""The waits before a call of a model is made again, as they are set."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.agent.agent_settings import models_from_settings, options_from_settings
from service.config import load_settings
from service.domain.errors import LLMError, LLMStatusError
from service.llm.generate import Backoff, retrying
from tests.support.llm.endpoint import Call, endpoint
from tests.support.llm.openai_client import client, collect

pytestmark = pytest.mark.anyio


async def waits(backoff: Backoff, max_retries: int, retry_after: str = "") -> list[float]:
    """What is waited before each retry of an endpoint that is always busy."""
    pauses: list[float] = []

    async def busy(call: Call) -> None:
        headers = {"Retry-After": retry_after} if retry_after else {}
        await call.reply("503 Service Unavailable", {}, headers)

    async def on_retry(attempt: int, seconds: float, error: LLMError) -> None:
        pauses.append(seconds)

    async with endpoint(busy) as served:
        with pytest.raises(LLMStatusError):
            await retrying(
                lambda: collect(client(served.base_url)),
                max_retries=max_retries,
                backoff=backoff,
                on_retry=on_retry,
            )
        assert len(served.calls) == len(pauses) + 1
    return pauses


async def test_the_waits_keep_to_what_is_set() -> None:
    pauses = await waits(Backoff(base_seconds=0.01, max_seconds=0.02), max_retries=6)
    assert len(pauses) == 6
    assert all(0 <= wait <= 0.02 for wait in pauses)
    assert pauses[0] <= 0.01


async def test_no_wait_at_all_can_be_set() -> None:
    assert await waits(Backoff(base_seconds=0, max_seconds=0), max_retries=3) == [0, 0, 0]


async def test_an_endpoint_is_waited_for_as_long_as_it_asks_up_to_what_is_set() -> None:
    patient = Backoff(base_seconds=0, max_seconds=0, longest_wait_seconds=0.05)
    assert await waits(patient, max_retries=2, retry_after="0.05") == [0.05, 0.05]
    assert await waits(patient, max_retries=2, retry_after="0.06") == []


async def test_the_settings_reach_every_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RONDO_DATA_DIR", str(tmp_path))
    for name, value in {
        "LLM__PROVIDER": "scripted",
        "LLM__RETRY_BASE_SECONDS": "1",
        "LLM__RETRY_MAX_SECONDS": "2",
        "LLM__RETRY_LONGEST_WAIT_SECONDS": "3",
        "MODELS__SAME__CONTEXT_TOKENS": "4096",
        "MODELS__OTHER__RETRY_MAX_SECONDS": "7",
    }.items():
        monkeypatch.setenv(f"RONDO_{name}", value)
    settings = load_settings()
    models = models_from_settings(settings)
    assert options_from_settings(settings).backoff == models["same"].backoff == Backoff(1, 2, 3)
    assert models["other"].backoff == Backoff(1, 7, 3)
