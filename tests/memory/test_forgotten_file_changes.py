"""What files held before they were changed goes with the words of the call that changed them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.agent.agent import Agent
from service.domain.anchors import AnchorRef
from service.domain.forgetting_terms import ForgetReceipt, ForgetRequest
from service.memory.file_changes import FileChanges
from service.tools.approval import ApprovalPolicy
from service.tools.builtins.file_writing import file_writing_tools
from service.tools.files.file_writer import FileWriter
from service.tools.files.granted_folders import GrantedFolders
from tests.support.agent.agents import Answer, running_agent, sent
from tests.support.agent.waiting import tool_call

pytestmark = pytest.mark.anyio

ALONE: dict[str, Any] = {"auto_classify": False, "approval": ApprovalPolicy(mode="never")}


def writing(messages: Any) -> Answer:
    """Writes what it is told to: `path words`."""
    if messages[-1].role == "tool":
        return "Done."
    path, _, words = messages[-1].text.partition(" ")
    return [tool_call("write_file", path=path, content=words)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def tools_of(home: Path) -> Any:
    changes = FileChanges(home.parent / "data" / "file-changes")
    return file_writing_tools(FileWriter(GrantedFolders((home,)), changes))


async def forget(agent: Agent, **named: Any) -> ForgetReceipt:
    request = ForgetRequest(**named)
    preview = await agent.preview_forgetting(request)
    assert preview.confirm is not None, preview.notice
    return await agent.forget(request, preview.confirm)


def kept(agent: Agent) -> list[tuple[str, str]]:
    changes = agent.memory.file_changes.of("me")
    return [(Path(each.path).name, each.call_key.split("/")[1]) for each in changes]


async def test_an_iteration_takes_its_own_changes_and_later_ones_of_the_same_file(
    home: Path,
) -> None:
    async with running_agent(home.parent / "data", writing, *tools_of(home), **ALONE) as agent:
        events = await sent(agent, "a.txt one")
        loop_id = events[0].run_loop_id
        for words in ("b.txt one", "a.txt two", "c.txt one"):
            await sent(agent, words, loop_id)
        assert kept(agent) == [("c.txt", "6"), ("a.txt", "4"), ("b.txt", "2"), ("a.txt", "0")]
        receipt = await forget(agent, anchors=(AnchorRef.parse(f"{loop_id}:0.0"),))
        assert kept(agent) == [("c.txt", "6"), ("b.txt", "2")]
        assert receipt.removed.file_changes == 2
        assert (home / "a.txt").read_text() == "two", "the file itself is the person's"


async def test_a_run_loop_takes_those_of_its_files_and_all_takes_all(home: Path) -> None:
    async with running_agent(home.parent / "data", writing, *tools_of(home), **ALONE) as agent:
        first = (await sent(agent, "a.txt one"))[0].run_loop_id
        second = (await sent(agent, "b.txt one", "new"))[0].run_loop_id
        await sent(agent, "a.txt the barn is red", second)
        await forget(agent, run_loop_ids=(first,), stop=True)
        assert [name for name, _ in kept(agent)] == ["b.txt"]
        await forget(agent, everything=True, stop=True)
        assert kept(agent) == []
        assert list((home.parent / "data" / "file-changes").iterdir()) == []


async def test_the_difference_in_a_question_is_found_and_forgotten(home: Path) -> None:
    (home / "a.txt").write_text("zwibbelquast\n")
    asking = {**ALONE, "approval": ApprovalPolicy()}
    async with running_agent(home.parent / "data", writing, *tools_of(home), **asking) as agent:
        events = await sent(agent, "a.txt two")
        loop_id = events[0].run_loop_id
        assert "zwibbelquast" in str(events[-1].body)
        await agent.answer(loop_id, approved=True)
        async for event in agent.events(run_loop_id=loop_id, after=0):
            if event.type == "run_loop.idle":
                break
        await forget(agent, query="zwibbelquast", exact=True, stop=True)
        events = await agent.memory.journal.read(run_loop_id=loop_id)
        assert "zwibbelquast" not in str(events)
        assert kept(agent) == []


async def test_what_was_done_for_a_message_that_has_moved_goes_with_it(home: Path) -> None:
    async with running_agent(home.parent / "data", writing, *tools_of(home), **ALONE) as agent:
        first = (await sent(agent, "b.txt one"))[0].run_loop_id
        await sent(agent, "a.txt one", first)
        moved = await agent.reroute(first, to="new")
        assert moved.to_run_loop_id != first
        assert [name for name, _ in kept(agent)] == ["a.txt", "b.txt"]
        await forget(agent, run_loop_ids=(moved.to_run_loop_id,), stop=True)
        assert [name for name, _ in kept(agent)] == ["b.txt"]
