from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from service.config import Settings, ToolsSettings
from service.tools.builtins import builtin_tools
from tests.tools.support import registry_of
from tests.tools.test_memory_tools import Memory

ALWAYS = ("calculator", "current_time", "memory_search", "memory_expand")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


def settings(data_dir: Path, tools: ToolsSettings) -> Settings:
    return Settings(data_dir=data_dir, tools=tools)


def test_what_needs_a_setting_is_not_offered_and_the_reason_is_told(tmp_path: Path) -> None:
    offer = builtin_tools(settings(tmp_path, ToolsSettings()), Memory())
    assert registry_of(*offer.tools).names == ALWAYS
    assert "TAVILY_API_KEY" in offer.withheld["web_search"]
    assert "tools.scripts = true" in offer.withheld["run_script"]


def test_with_a_key_and_scripts_everything_is_offered(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.sh").touch()
    tools = ToolsSettings(tavily_api_key=SecretStr("k"), scripts=True)
    offer = builtin_tools(settings(tmp_path, tools), Memory())
    assert registry_of(*offer.tools).names == (*ALWAYS, "web_search", "run_script")
    assert offer.withheld == {}


@pytest.mark.parametrize("there", [True, False])
def test_an_empty_script_folder_is_told_by_its_path(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "my scripts"
    if there:
        folder.mkdir()
    tools = ToolsSettings(scripts=True, scripts_dir=folder)
    offer = builtin_tools(settings(tmp_path, tools), Memory())
    assert str(folder) in offer.withheld["run_script"]


def test_only_running_scripts_has_side_effects_and_asks_a_person(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.sh").touch()
    tools = ToolsSettings(tavily_api_key=SecretStr("k"), scripts=True)
    offered = builtin_tools(settings(tmp_path, tools), Memory()).tools
    risky = [tool.definition.name for tool in offered if tool.effect != "read_only"]
    asking = [tool.definition.name for tool in offered if tool.needs_approval]
    assert risky == asking == ["run_script"]


def test_every_schema_is_a_closed_object_whose_arguments_are_plain(tmp_path: Path) -> None:
    for tool in builtin_tools(settings(tmp_path, ToolsSettings()), Memory()).tools:
        parameters = tool.definition.parameters
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert "$defs" not in parameters
