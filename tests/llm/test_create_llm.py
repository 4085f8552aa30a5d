"""Which settings make which model, and which key goes to whom."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.config import LLMSettings, Settings, load_settings
from service.domain.errors import ConfigurationError
from service.llm.factory import create_llm
from service.models.machine import chosen


def test_a_key_or_an_address_means_an_endpoint() -> None:
    llm = create_llm(Settings(llm=LLMSettings(api_key=SecretStr("k"), model="big")))
    assert llm.model == "big"
    llm = create_llm(Settings(llm=LLMSettings(base_url="http://127.0.0.1:1/v1", model="near")))
    assert llm.status().detail == "near at 127.0.0.1:1"


def test_without_any_the_embedded_model_answers(tmp_path: Path) -> None:
    llm = create_llm(Settings(models_dir=tmp_path, llm=LLMSettings(provider="embedded")))
    assert llm.model == chosen().name
    assert not llm.status().ready
    assert not list(tmp_path.iterdir())


def test_an_embedded_model_that_nobody_knows_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError) as raised:
        create_llm(Settings(llm=LLMSettings(provider="embedded", model="gpt-9")))
    assert "qwen2.5-coder-0.5b" in raised.value.advice


@pytest.mark.slow
def test_making_a_model_loads_nothing_heavy() -> None:
    code = (
        "import sys; from service.llm.factory import create_llm; from service.config import *\n"
        "for p in ('openai', 'anthropic', 'embedded', 'scripted'):\n"
        "    create_llm(Settings(llm=LLMSettings(provider=p)))\n"
        "heavy = ('openai', 'anthropic', 'httpx2', 'xllamacpp', 'torch')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variables of the machine, and no file of settings."""
    for variable in os.environ:
        if variable.startswith(("RONDO_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RONDO_DATA_DIR", str(tmp_path))
    return monkeypatch


OPENAI, ANTHROPIC = {"OPENAI_API_KEY": "o"}, {"ANTHROPIC_API_KEY": "a"}
NEAR = {"ANTHROPIC_BASE_URL": "http://near"}


@pytest.mark.parametrize(
    ("given", "provider", "key", "address"),
    [
        ({}, "embedded", "", ""),
        (OPENAI, "openai", "o", ""),
        (ANTHROPIC, "anthropic", "a", ""),
        (ANTHROPIC | NEAR, "anthropic", "a", "http://near"),
        (NEAR, "embedded", "", ""),
        (OPENAI | ANTHROPIC | NEAR, "openai", "o", ""),
        (ANTHROPIC | {"OPENAI_BASE_URL": "http://o"}, "openai", "", "http://o"),
        (ANTHROPIC | {"RONDO_LLM__BASE_URL": "http://o"}, "openai", "", "http://o"),
        (ANTHROPIC | {"RONDO_LLM__API_KEY": "mine"}, "openai", "mine", ""),
        (ANTHROPIC | {"RONDO_LLM__PROVIDER": "auto"}, "anthropic", "a", ""),
        (ANTHROPIC | {"RONDO_LLM__PROVIDER": "openai"}, "openai", "", ""),
        (OPENAI | ANTHROPIC | {"RONDO_LLM__PROVIDER": "anthropic"}, "anthropic", "a", ""),
        (OPENAI | {"RONDO_LLM__PROVIDER": "anthropic"}, "anthropic", "", ""),
        (
            ANTHROPIC | {"RONDO_LLM__PROVIDER": "anthropic", "RONDO_LLM__API_KEY": "mine"},
            "anthropic",
            "mine",
            "",
        ),
        (ANTHROPIC | {"RONDO_LLM__PROVIDER": "embedded"}, "embedded", "", ""),
        (ANTHROPIC | {"RONDO_LLM": '{"model": "m"}'}, "anthropic", "a", ""),
    ],
)
def test_a_key_goes_to_its_own_vendor_only(
    given: dict[str, str], provider: str, key: str, address: str, variables: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        variables.setenv(name, value)
    llm = load_settings().llm
    actual = (llm.effective_provider, llm.api_key.get_secret_value(), llm.base_url)
    assert actual == (provider, key, address)


def test_an_auto_in_the_file_still_finds_anthropics_key(
    tmp_path: Path, variables: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rondo.toml").write_text('[llm]\nprovider = "auto"\nmax_tokens = 99\n')
    variables.setenv("ANTHROPIC_API_KEY", "a")
    settings = load_settings()
    assert (settings.llm.effective_provider, settings.llm.max_tokens) == ("anthropic", 99)
    assert create_llm(settings).status().detail == "claude-haiku-5-5 at api.anthropic.com"


def test_without_anthropics_sdk_its_key_alone_changes_nothing(
    variables: pytest.MonkeyPatch,
) -> None:
    variables.setenv("ANTHROPIC_API_KEY", "a")
    variables.setitem(sys.modules, "anthropic", None)  # as if it were not installed
    assert load_settings().llm.effective_provider == "embedded"


def test_without_anthropics_sdk_its_provider_says_how_to_install_it(
    variables: pytest.MonkeyPatch,
) -> None:
    variables.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigurationError) as raised:
        create_llm(Settings(llm=LLMSettings(provider="anthropic")))
    assert "pip install 'rondo-agent[anthropic]'" in raised.value.advice


def test_a_temperature_that_anthropic_would_refuse_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError, match="temperature"):
        create_llm(Settings(llm=LLMSettings(provider="anthropic", temperature=0.5)))


def test_a_budget_that_is_too_small_to_think_is_a_wrong_setting(
    variables: pytest.MonkeyPatch,
) -> None:
    variables.setenv("RONDO_LLM__THINKING_TOKENS", "500")
    with pytest.raises(ConfigurationError) as raised:
        load_settings()
    assert "llm.thinking_tokens cannot be used: it is 0, or at least 1024" in raised.value.detail
