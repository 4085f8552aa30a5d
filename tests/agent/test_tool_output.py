"""What a tool writes is shown while it runs, to people alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.tool_definitions import ToolContext
from service.domain.history.events import Event
from service.domain.history.transient_events import ToolOutput
from service.loop.executors.tool_output import MOST_CHARACTERS
from service.tools.approval import ApprovalPolicy
from service.tools.builtins.run_script import run_script_tool
from service.tools.decorator import tool
from tests.support.agent.agents import running_agent, sent
from tests.support.agent.waiting import tool_call, wanting
from tests.support.tools.skills import put_file

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

UNASKED: dict[str, Any] = {"auto_classify": False, "approval": ApprovalPolicy(mode="never")}
SCRIPT = wanting(tool_call("run_script", name="s.sh"))


def outputs(events: list[Event]) -> list[ToolOutput]:
    return [event.body for event in events if isinstance(event.body, ToolOutput)]


async def test_a_script_s_output_comes_while_it_runs_and_is_not_journaled(tmp_path: Path) -> None:
    go = tmp_path / "go"
    text = f"echo 茶; echo no >&2; while [ ! -e {go} ]; do sleep 0.01; done; echo last\n"
    put_file(tmp_path / "scripts" / "s.sh", text)
    tool = run_script_tool(tmp_path / "scripts")
    async with running_agent(tmp_path / "data", SCRIPT, tool, **UNASKED) as agent:
        events: list[Event] = []
        async for event in agent.send("run it"):
            events.append(event)
            if len(outputs(events)) == 2:
                go.touch()
        kinds = [event.type for event in events]
        assert kinds.index("tool.started") < kinds.index("tool.output")
        assert kinds.index("tool.output") < kinds.index("tool.finished")
        told = {(each.stream, each.text) for each in outputs(events)}
        assert told == {("stdout", "茶\n"), ("stderr", "no\n"), ("stdout", "last\n")}
        journaled = await agent.memory.journal.read(run_loop_id=events[0].run_loop_id)
        assert "tool.output" not in {event.type for event in journaled}


async def test_a_flood_is_cut_off_and_the_result_has_its_start_and_end(tmp_path: Path) -> None:
    put_file(tmp_path / "scripts" / "s.sh", "yes | head -c 5000000; echo end")
    tool = run_script_tool(tmp_path / "scripts")
    async with running_agent(tmp_path / "data", SCRIPT, tool, **UNASKED) as agent:
        events = await sent(agent, "run it")
    shown = "".join(each.text for each in outputs(events))
    assert MOST_CHARACTERS <= len(shown) < MOST_CHARACTERS + 100
    assert "is not shown as it comes" in shown
    assert any("end" in str(event.body) for event in events if event.type == "tool.finished")


async def test_a_tool_of_one_s_own_shows_from_its_thread(tmp_path: Path) -> None:
    threads: list[int] = []

    @tool(effect="side_effects")
    def work(context: ToolContext) -> str:
        """Work."""
        threads.append(threading.get_ident())
        context.show_output("half")
        return "done"

    model = wanting(tool_call("work"))
    async with running_agent(tmp_path, model, work, **UNASKED) as agent:
        events = await sent(agent, "work")
    assert threads != [threading.get_ident()]
    assert [each.text for each in outputs(events)] == ["half"]
