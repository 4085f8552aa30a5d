"""Trying a model makes the calls that run loops will make."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.config import LLMSettings, Settings
from service.domain.errors import LLMStatusError
from service.llm.discovery.trial import try_model
from tests.support.model_servers import Asked, answered, ollama, serving

pytestmark = pytest.mark.anyio


def settings(tmp_path: Path, base_url: str, model: str) -> Settings:
    return Settings(data_dir=tmp_path, llm=LLMSettings(base_url=base_url, model=model))


@pytest.mark.slow
async def test_a_model_answers_and_calls_a_tool(tmp_path: Path) -> None:
    with serving(ollama()) as served:
        chosen = settings(tmp_path, served.base_url, "qwen3:8b")
        trial = await try_model(chosen, chosen.llm)
    assert trial.words == "Hello, I am here."
    assert trial.calls_tools
    plain, with_tool = [body for path, _, body in served.requests if "chat" in path]
    assert "tools" not in plain
    assert with_tool["tools"][0]["function"]["name"] == "current_weather"


async def test_a_model_that_takes_no_tools_has_answered_all_the_same(tmp_path: Path) -> None:
    with serving(ollama()) as served:
        chosen = settings(tmp_path, served.base_url, "gemma2:2b")
        trial = await try_model(chosen, chosen.llm)
    assert trial.words
    assert not trial.calls_tools
    assert "does not support tools" in trial.without_tools


async def test_a_model_that_only_talks_of_the_weather_calls_no_tool(tmp_path: Path) -> None:
    def answer(asked: Asked) -> None:
        asked.body.pop("tools", None)
        answered(asked, words="It is sunny.")

    with serving(answer) as served:
        chosen = settings(tmp_path, served.base_url, "m")
        trial = await try_model(chosen, chosen.llm)
    assert not trial.calls_tools
    assert trial.without_tools == ""


async def test_a_model_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    with serving(ollama()) as served:
        chosen = settings(tmp_path, served.base_url, "missing:1b")
        with pytest.raises(LLMStatusError) as raised:
            await try_model(chosen, chosen.llm)
    assert "missing:1b" in raised.value.detail
    assert raised.value.advice
