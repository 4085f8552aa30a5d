"""A file is changed as the person was shown it, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.agent.agent_factory import agent_from_settings
from service.config import EmbedderSettings, Settings, ToolsSettings
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.history.human_input import InputRequired
from service.memory.file_changes import FileChanges
from service.tools.approval import ApprovalPolicy
from service.tools.builtins.file_writing import file_writing_tools
from service.tools.files.file_writer import FileWriter
from service.tools.files.granted_folders import GrantedFolders
from tests.support.agent.agents import FunctionLLM, running_agent, sent
from tests.support.agent.waiting import asked, rested, results_of, tool_call, wanting

pytestmark = pytest.mark.anyio

ALONE: dict[str, Any] = {"auto_classify": False}
EDIT = tool_call("edit_file", path="a.txt", old_text="two", new_text="2")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    return folder


def tools_of(home: Path) -> Any:
    changes = FileChanges(home.parent / "data" / "file-changes")
    return file_writing_tools(FileWriter(GrantedFolders((home,)), changes))


def question(agent: Any, loop_id: str) -> InputRequired:
    state = agent.memory.short_term.state(loop_id)
    assert state.awaiting is not None
    request: InputRequired = state.awaiting
    return request


async def test_the_question_shows_the_difference_and_the_yes_makes_it(home: Path) -> None:
    tools = tools_of(home)
    async with running_agent(home.parent / "data", wanting(EDIT), *tools, **ALONE) as agent:
        loop_id = await asked(agent)
        request = question(agent, loop_id)
        path = home / "a.txt"
        assert request.previews == {
            "c0": f"--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
        }
        assert path.read_text() == "one\ntwo\nthree\n"
        await agent.answer(loop_id, approved=True)
        (result,) = results_of(await rested(agent, loop_id))
        assert f"{path} is changed: 12 bytes" in result
        assert path.read_text() == "one\n2\nthree\n"
        [change] = agent.memory.file_changes.of("me")
        assert change.run_loop_id == loop_id
        assert change.id in result


async def test_what_changes_between_question_and_yes_is_asked_about_anew(home: Path) -> None:
    tools = tools_of(home)
    async with running_agent(home.parent / "data", wanting(EDIT), *tools, **ALONE) as agent:
        loop_id = await asked(agent)
        first = question(agent, loop_id)
        (home / "a.txt").write_text("one\ntwo\nanother end\n")
        with pytest.raises(ConflictError, match="has changed since"):
            await agent.answer(loop_id, approved=True)
        second = question(agent, loop_id)
        assert second.request_id != first.request_id
        assert " another end" in second.previews["c0"]
        assert (home / "a.txt").read_text() == "one\ntwo\nanother end\n"
        await agent.answer(loop_id, approved=True, request_id=second.request_id)
        await rested(agent, loop_id)
        assert (home / "a.txt").read_text() == "one\n2\nanother end\n"


async def test_a_no_changes_nothing_and_other_arguments_are_those_that_are_written(
    home: Path,
) -> None:
    tools = tools_of(home)
    async with running_agent(home.parent / "data", wanting(EDIT), *tools, **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=False)
        (result,) = results_of(await rested(agent, loop_id))
        assert "did not allow" in result
        assert agent.memory.file_changes.of("me") == []
        loop_id = await asked(agent)
        edited = '{"path": "a.txt", "old_text": "two", "new_text": "zwei"}'
        await agent.answer(loop_id, approved=True, arguments=edited)
        await rested(agent, loop_id)
        assert (home / "a.txt").read_text() == "one\nzwei\nthree\n"


async def test_what_cannot_be_written_asks_nobody(home: Path) -> None:
    calls = (
        tool_call("edit_file", 0, path="a.txt", old_text="nowhere", new_text="2"),
        tool_call("write_file", 1, path="../b.txt", content="x"),
        tool_call("write_file", 2, path="a.txt", content="one\ntwo\nthree\n"),
    )
    tools = tools_of(home)
    async with running_agent(home.parent / "data", wanting(*calls), *tools, **ALONE) as agent:
        events = await sent(agent, "write it")
        assert events[-1].type == "run_loop.idle"
        nowhere, outside, same = results_of(await agent.run_loop(events[0].run_loop_id))
        assert "does not hold that old_text" in nowhere
        assert "is in no granted folder" in outside
        assert "holds exactly that already" in same


async def test_of_several_calls_those_are_asked_about_that_can_be_carried_out(home: Path) -> None:
    calls = (tool_call("edit_file", 0, path="b.txt", old_text="two", new_text="2"),)
    good = tool_call("write_file", 1, path="b.txt", content="x\n")
    tools = tools_of(home)
    async with running_agent(home.parent / "data", wanting(*calls, good), *tools, **ALONE) as agent:
        loop_id = await asked(agent)
        request = question(agent, loop_id)
        assert [each.id for each in request.tool_calls] == list(request.previews) == ["c1"]
        await agent.answer(loop_id, approved=True)
        missing, written = results_of(await rested(agent, loop_id))
        assert "There is no b.txt" in missing
        assert "is written, a new file" in written


async def test_a_mode_of_the_settings_counts_as_for_other_tools(home: Path) -> None:
    policy = ApprovalPolicy(per_tool={"edit_file": "never"})
    tools = tools_of(home)
    async with running_agent(
        home.parent / "data", wanting(EDIT), *tools, approval=policy, **ALONE
    ) as agent:
        events = await sent(agent, "edit it")
        assert events[-1].type == "run_loop.idle"
        assert (home / "a.txt").read_text() == "one\n2\nthree\n"


async def test_as_configured_each_call_asks_and_no_yes_is_remembered(home: Path) -> None:
    settings = Settings(
        data_dir=home.parent / "data",
        embedder=EmbedderSettings(kind="none"),
        tools=ToolsSettings(files_write=(home,)),
    )
    agent = agent_from_settings(settings, llm=FunctionLLM(wanting(EDIT)))
    async with agent:
        loop_id = await asked(agent)
        assert question(agent, loop_id).rules == {"c0": None}
        with pytest.raises(InvalidInputError, match="cannot be remembered"):
            await agent.answer(loop_id, approved=True, remember="always")
        await agent.answer(loop_id, approved=True)
        await rested(agent, loop_id)
    assert (home / "a.txt").read_text() == "one\n2\nthree\n"


async def test_what_rondo_is_set_up_by_is_not_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "rondo.toml").write_text("")
    monkeypatch.chdir(home)
    (home / "scripts").mkdir()
    calls = [
        tool_call("write_file", at, path=path, content="x")
        for at, path in enumerate(("rondo.toml", "scripts/s.sh", "data/token"))
    ]
    settings = Settings(
        data_dir=home / "data",
        embedder=EmbedderSettings(kind="none"),
        tools=ToolsSettings(files_write=(home,), scripts_dir=home / "scripts"),
    )
    async with agent_from_settings(settings, llm=FunctionLLM(wanting(*calls))) as agent:
        events = await sent(agent, "write it")
        for result in results_of(await agent.run_loop(events[0].run_loop_id)):
            assert "is Rondo's own, and is not to be changed" in result
