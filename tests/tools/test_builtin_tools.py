from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import SecretStr

from service.config import LLMSettings, Settings, ToolsSettings
from service.memory.file_changes import FileChanges
from service.memory.forgetting.kept_files import KeptFiles
from service.memory.sent_files import SentFiles
from service.tools.approval import ApprovalPolicy
from service.tools.builtins import ToolOffer, builtin_tools
from tests.support.tools.tool_calls import call_of, registry_of
from tests.tools.test_memory_tools import Memory
from tests.tools.test_registry import no_run_loops

ALWAYS = ("calculator", "current_time", "memory_search", "memory_expand", "remember", "read_result")
FILE_TOOLS = ("list_files", "search_files")
ASKING = ("ask_user", "choose")
CHANGE_SKILLS = ("write_skill", "edit_skill")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TAVILY_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def offered(
    data_dir: Path, tools: ToolsSettings, provider: Literal["embedded", "openai"] = "embedded"
) -> ToolOffer:
    settings = Settings(data_dir=data_dir, tools=tools, llm=LLMSettings(provider=provider))
    files = KeptFiles(FileChanges(data_dir / "changes"), SentFiles(data_dir / "sent"))
    return builtin_tools(settings, Memory(), no_run_loops, files)


def test_what_needs_a_setting_is_not_offered_and_the_reason_is_told(tmp_path: Path) -> None:
    offer = offered(tmp_path, ToolsSettings())
    registry = registry_of(*offer.tools)
    assert registry.names == (*ALWAYS, "read_file", "read_skill")
    assert "tools.files_read" in registry.withheld["read_file"]
    assert [each.name for each in registry.definitions()] == list(ALWAYS)
    assert "TAVILY_API_KEY" in offer.withheld["web_search"]
    assert "tools.web_fetch = true" in offer.withheld["web_fetch"]
    for name in ("run_script", *CHANGE_SKILLS):
        assert "tools.scripts = true" in offer.withheld[name]
    assert not offer.asks_each_time & offer.withheld.keys()
    off = offered(tmp_path, ToolsSettings(skills=False))
    assert registry_of(*off.tools).names == (*ALWAYS, "read_file")
    assert "tools.skills = true" in off.withheld["read_skill"]


def test_with_a_key_and_scripts_everything_is_offered(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.sh").touch()
    tools = ToolsSettings(
        tavily_api_key=SecretStr("k"), scripts=True, web_fetch=True, files_write=(tmp_path,)
    )
    offer = offered(tmp_path, tools)
    names = registry_of(*offer.tools).names
    assert names == (
        *(*ALWAYS, "web_search", "web_fetch"),
        *("read_file", *FILE_TOOLS, "write_file", "edit_file"),
        *("read_skill", "run_script"),
    )
    assert set(offer.withheld) == {*ASKING, *CHANGE_SKILLS}
    able = offered(tmp_path, tools, "openai")
    assert {*CHANGE_SKILLS} <= set(registry_of(*able.tools).names)
    assert set(CHANGE_SKILLS) <= able.asks_each_time


READS_BEYOND = {"web_fetch", "read_project_skill"}
"""They only read, too, but what others have written; and an address can carry words out."""


def test_what_only_reads_asks_nobody_and_all_that_changes_something_asks(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.sh").touch()
    tools = ToolsSettings(
        tavily_api_key=SecretStr("k"), scripts=True, web_fetch=True, files_write=(tmp_path,)
    )
    offer = offered(tmp_path, tools, "openai")
    registry = registry_of(*offer.tools)
    policy = ApprovalPolicy()
    effects = {each.definition.name: each.effect for each in offer.tools}
    asks = {each.definition.name for each in offer.tools if policy.asks_for(each)}
    assert {name for name in asks if effects[name] == "read_only"} == READS_BEYOND & {*effects}
    assert {name for name, effect in effects.items() if effect == "side_effects"} - {
        *ASKING
    } <= asks
    for name in {*effects} - asks:
        assert not policy.needs_approval(call_of(name), registry), name


def test_folders_that_may_be_read_may_not_be_changed(tmp_path: Path) -> None:
    offer = offered(tmp_path, ToolsSettings(files_read=(tmp_path,)))
    assert registry_of(*offer.tools).names == (
        *(*ALWAYS, "read_file", *FILE_TOOLS, "read_skill", "read_project_skill"),
    )
    assert registry_of(*offer.tools).withheld.keys() == {"read_skill", "read_project_skill"}
    assert "tools.files_write" in offer.withheld["edit_file"]


def test_questions_are_left_to_models_at_an_endpoint_and_can_be_switched_off(
    tmp_path: Path,
) -> None:
    embedded = offered(tmp_path, ToolsSettings())
    assert "llm.base_url" in embedded.withheld["ask_user"]
    able = offered(tmp_path, ToolsSettings(), "openai")
    assert registry_of(*able.tools).names == (*ALWAYS, *ASKING, "read_file", "read_skill")
    off = offered(tmp_path, ToolsSettings(ask_user=False), "openai")
    assert registry_of(*off.tools).names == (*ALWAYS, "read_file", "read_skill")
    assert "tools.ask_user = true" in off.withheld["choose"]


@pytest.mark.parametrize("there", [True, False])
def test_an_empty_script_folder_is_told_by_its_path(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "my scripts"
    if there:
        folder.mkdir()
    tools = ToolsSettings(scripts=True, scripts_dir=folder)
    registry = registry_of(*offered(tmp_path, tools).tools)
    assert str(folder) in registry.withheld["run_script"]
    assert "run_script" not in [each.name for each in registry.definitions()]


def test_running_scripts_and_changing_files_and_skills_have_side_effects_and_ask_a_person(
    tmp_path: Path,
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.sh").touch()
    tools = ToolsSettings(tavily_api_key=SecretStr("k"), scripts=True, files_write=(tmp_path,))
    every = offered(tmp_path, tools, "openai").tools
    risky = [tool.definition.name for tool in every if tool.effect == "side_effects"]
    asking = [tool.definition.name for tool in every if tool.needs_approval]
    assert risky == asking == ["write_file", "edit_file", "run_script", *CHANGE_SKILLS]


def test_every_schema_is_a_closed_object_whose_arguments_are_plain(tmp_path: Path) -> None:
    for tool in offered(tmp_path, ToolsSettings(), "openai").tools:
        parameters = tool.definition.parameters
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert "$defs" not in parameters
