from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.agent.llm import create_llm
from service.config import LLMSettings, Settings
from service.domain.errors import ConfigurationError


def test_a_key_or_an_address_means_an_endpoint() -> None:
    llm = create_llm(Settings(llm=LLMSettings(api_key=SecretStr("k"), model="big")))
    assert llm.model == "big"
    llm = create_llm(Settings(llm=LLMSettings(base_url="http://127.0.0.1:1/v1", model="near")))
    assert llm.status().detail == "near at 127.0.0.1:1"


def test_without_any_the_embedded_model_answers(tmp_path: Path) -> None:
    llm = create_llm(Settings(models_dir=tmp_path, llm=LLMSettings(provider="embedded")))
    assert llm.model == "qwen2.5-coder-0.5b"
    assert not llm.status().ready
    assert not list(tmp_path.iterdir())


def test_an_embedded_model_that_nobody_knows_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError) as raised:
        create_llm(Settings(llm=LLMSettings(provider="embedded", model="gpt-9")))
    assert "qwen2.5-coder-0.5b" in raised.value.advice


def test_making_a_model_loads_nothing_heavy() -> None:
    code = (
        "import sys; from service.agent.llm import create_llm; from service.config import *\n"
        "for p in ('openai', 'embedded', 'scripted'):\n"
        "    create_llm(Settings(llm=LLMSettings(provider=p)))\n"
        "print([m for m in ('openai', 'httpx2', 'xllamacpp', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
