"""What runs is what a person said yes to, however late somebody changes it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.messages import ToolCall
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import ConflictError
from service.loop.execution import Loop
from service.loop.hooks.hooks import Hooks
from service.tools.builtins.run_script import run_script_tool
from service.tools.decorator import tool
from tests.support.agent.agents import running_agent, sent, types
from tests.support.agent.waiting import asked, rested, results_of, tool_call, wanting

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ALONE: dict[str, Any] = {"auto_classify": False}
GOOD, OTHER = "echo what was looked at\n", "echo what nobody saw\n"


def put(path: Path, text: str) -> None:
    """Exchange a file at once, as an editor does."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


class Swaps(Hooks):
    """Exchanges a file at the last moment that there is before a call."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.armed = False

    async def before_tool_call(self, loop: Loop, call: ToolCall) -> str | None:
        if self.armed:
            put(self.path, self.text)
        return None


async def test_a_script_that_is_exchanged_after_the_yes_never_runs(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    script = folder / "s.sh"
    moments = random.Random(7)
    model = wanting(tool_call("run_script", name="s.sh"))

    def swap(after: float) -> None:
        time.sleep(after)
        put(script, OTHER)

    outcomes: list[str] = []
    async with running_agent(tmp_path / "data", model, run_script_tool(folder), **ALONE) as agent:
        for _ in range(30):
            put(script, GOOD)
            loop_id = await asked(agent)
            swapping = threading.Thread(target=swap, args=(moments.uniform(0, 0.03),))
            swapping.start()
            try:
                await agent.answer(loop_id, approved=True)
                outcomes += results_of(await rested(agent, loop_id))
            except ConflictError as refused:
                outcomes.append(str(refused))
            swapping.join()
    assert len(outcomes) == 30
    assert [each for each in outcomes if "what nobody saw" in each] == []
    for outcome in outcomes:
        assert "what was looked at" in outcome or "changed since" in outcome


@pytest.mark.parametrize("remember", [None, "run_loop", "always"])
async def test_a_yes_is_to_what_was_asked_about_and_not_to_what_a_later_look_finds(
    tmp_path: Path, remember: Any
) -> None:
    looks: list[str] = []
    armed = False

    def scope(given: Mapping[str, object]) -> str:
        # What is looked at is exchanged after the first look that the yes leads to.
        looks.append("good" if not armed or "good" not in looks else "other")
        return looks[-1]

    ran: list[str] = []

    @tool(effect="side_effects", needs_approval=True, scope=scope)
    async def execute(context: ToolContext) -> str:
        """Execute."""
        ran.append("other" if context.covers("execute", "other") else "nothing")
        return ran[-1]

    model = wanting(tool_call("execute"))
    async with running_agent(tmp_path, model, execute, **ALONE) as agent:
        loop_id = await asked(agent)
        looks.clear()
        armed = True
        await agent.answer(loop_id, approved=True, remember=remember)
        (result,) = results_of(await rested(agent, loop_id))
        assert "has changed since" in result
        standing = agent.memory.journal.standing_approvals.of("me")
        assert [each.scope for each in standing] == (
            ["execute good"] if remember == "always" else []
        )
    assert ran == []


@pytest.mark.parametrize("remember", [None, "run_loop", "always"])
@pytest.mark.parametrize("changed", ["s.sh", "beside.sh", "new.txt", "sub/deep.py"])
async def test_what_changes_at_the_last_moment_is_not_run(
    tmp_path: Path, changed: str, remember: Any
) -> None:
    folder = tmp_path / "scripts"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "deep.py").write_text("pass")
    (folder / "s.sh").write_text('. "$(dirname "$0")/beside.sh"\n')
    (folder / "beside.sh").write_text(GOOD)
    swaps = Swaps(folder / changed, OTHER)
    model = wanting(tool_call("run_script", name="s.sh"))
    tool = run_script_tool(folder)
    async with running_agent(tmp_path / "data", model, tool, hooks=[swaps], **ALONE) as agent:
        loop_id = await asked(agent)
        if remember is not None:
            await agent.answer(loop_id, approved=True, remember=remember)
            assert "looked at" in results_of(await rested(agent, loop_id))[-1]
            swaps.armed = True
            events = await sent(agent, "once more", loop_id)
            assert "input.required" not in types(events)  # it was there when it was looked at
        else:
            swaps.armed = True
            await agent.answer(loop_id, approved=True)
        result = results_of(await rested(agent, loop_id))[-1]
        assert "changed since the person said yes" in result
        assert "nobody saw" not in result


async def test_a_yes_for_good_ends_when_something_beside_the_script_changes(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "uses.py").write_text("import helper\nprint(helper.WORDS)\n")
    (folder / "helper.py").write_text("WORDS = 'good'\n")
    model = wanting(tool_call("run_script", name="uses.py"))
    async with running_agent(tmp_path / "data", model, run_script_tool(folder), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        assert "good" in results_of(await rested(agent, loop_id))[0]
        assert "input.required" not in types(await sent(agent, "again"))
        (folder / "helper.py").write_text("WORDS = 'bad'\n")
        loop_id = await asked(agent, "and once more")
        await agent.answer(loop_id, approved=True)
        assert "bad" in results_of(await rested(agent, loop_id))[0]


async def test_scripts_that_come_and_go_are_seen_while_the_agent_runs(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    model = wanting(tool_call("run_script", name="晚.sh"))
    async with running_agent(tmp_path / "data", model, run_script_tool(folder), **ALONE) as agent:
        assert [each.name for each in agent.tools.definitions()] == []
        assert str(folder) in agent.tools.withheld["run_script"]
        folder.mkdir()
        (folder / "晚.sh").write_text("# Says 晚安.\necho 晚安\n")
        (offered,) = agent.tools.definitions()
        assert "- 晚.sh: Says 晚安." in offered.description
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True)
        assert "晚安" in results_of(await rested(agent, loop_id))[0]
        (folder / "晚.sh").write_text("# Says something else.\n")
        (folder / "b.sh").write_text("")
        (offered,) = agent.tools.definitions()
        assert "- 晚.sh: Says something else." in offered.description
        assert "- b.sh" in offered.description
        for path in folder.iterdir():
            path.unlink()
        assert agent.tools.definitions() == ()
