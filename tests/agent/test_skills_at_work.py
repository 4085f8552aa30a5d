"""A model reads, writes and runs skills, and a person says yes to what they see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.domain.errors import ConflictError
from service.domain.history.human_input import InputRequired
from service.domain.history.redaction import redacted
from service.tools.approval import ApprovalPolicy
from service.tools.builtins.read_skill import skill_readers
from service.tools.builtins.run_script import RunScript
from service.tools.builtins.write_skill import skill_tools
from service.tools.protocol import Tool
from service.tools.skills.skill_runner import RunOptions, SkillRunner
from tests.support.agent.agents import running_agent, sent, types
from tests.support.agent.waiting import asked, request_id, rested, results_of, tool_call, wanting
from tests.support.tools.skills import TEA, put_file, put_skill, repository_in

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ALONE: dict[str, Any] = {
    "auto_classify": False,
    "approval": ApprovalPolicy(per_tool={"write_skill": "always", "edit_skill": "always"}),
}


def tools(home: Path) -> tuple[Tool, ...]:
    repository = repository_in(home)
    runner = SkillRunner(repository, RunOptions())
    return (*skill_readers(repository), RunScript(repository, runner), *skill_tools(repository))


async def test_a_skill_is_written_after_a_yes_to_the_difference_and_offered_at_once(
    tmp_path: Path,
) -> None:
    model = wanting(tool_call("write_skill", name="tea", file="SKILL.md", text=TEA))
    async with running_agent(tmp_path / "data", model, *tools(tmp_path), **ALONE) as agent:
        assert "read_skill" in agent.tools.withheld
        loop_id = await asked(agent)
        state = agent.memory.short_term.state(loop_id)
        assert state is not None
        assert state.awaiting is not None
        assert "+Boil water. 然后等三分钟。" in state.awaiting.previews["c0"]
        assert state.awaiting.rules == {"c0": None}  # no yes is remembered
        assert not (tmp_path / ".agents").exists()
        await agent.answer(loop_id, approved=True)
        assert results_of(await rested(agent, loop_id)) == ["Written: tea is version 1 now."]
        definitions = {each.name: each.description for each in agent.tools.definitions()}
        assert "- tea: How tea is made." in definitions["read_skill"]
    version = repository_in(tmp_path).history("tea")[-1]
    assert (version.author, version.run_loop_id) == ("model", loop_id)


async def test_no_writes_nothing(tmp_path: Path) -> None:
    model = wanting(tool_call("write_skill", name="tea", file="SKILL.md", text=TEA))
    async with running_agent(tmp_path / "data", model, *tools(tmp_path), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=False)
        await rested(agent, loop_id)
    assert not (tmp_path / ".agents").exists()


async def test_what_changes_between_question_and_yes_is_asked_about_anew(tmp_path: Path) -> None:
    folder = put_skill(tmp_path)
    call = tool_call("edit_skill", name="tea", file="SKILL.md", old_text="Boil", new_text="Heat")
    async with running_agent(tmp_path / "data", wanting(call), *tools(tmp_path), **ALONE) as agent:
        loop_id = await asked(agent)
        (folder / "SKILL.md").write_text(TEA + "More.\n")
        with pytest.raises(ConflictError, match="changed"):
            await agent.answer(loop_id, approved=True)
        state = agent.memory.short_term.state(loop_id)
        assert state is not None
        assert state.awaiting is not None
        assert " More." in state.awaiting.previews["c0"]
        await agent.answer(loop_id, approved=True, request_id=request_id(agent, loop_id))
        await rested(agent, loop_id)
    assert (folder / "SKILL.md").read_text() == TEA.replace("Boil", "Heat") + "More.\n"


async def test_a_yes_for_good_to_a_script_ends_with_any_change_in_its_skill_and_no_other(
    tmp_path: Path,
) -> None:
    folder = put_skill(
        tmp_path,
        scripts__uses_dot_py="import helper\nprint(helper.WORDS)\n",
        scripts__helper_dot_py="WORDS = 'good'\n",
    )
    model = wanting(tool_call("run_script", name="tea/scripts/uses.py"))
    async with running_agent(tmp_path / "data", model, *tools(tmp_path), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        assert "good" in results_of(await rested(agent, loop_id))[0]
        (standing,) = agent.memory.journal.standing_approvals.of("me")
        (version,) = repository_in(tmp_path).history("tea")
        assert standing.scope == f"run_script tea/scripts/uses.py sha256:{version.digest}"
        put_skill(tmp_path, "coffee")
        put_file(tmp_path / "scripts" / "s.sh", "")
        assert "input.required" not in types(await sent(agent, "again"))
        put_file(folder / "scripts" / "helper.py", "WORDS = 'bad'\n")
        await asked(agent, "and once more")
    assert len(repository_in(tmp_path).history("tea")) == 2


def test_forgetting_takes_what_a_question_has_shown() -> None:
    request = InputRequired(
        request_id="r",
        kind="approve",
        prompt="?",
        previews={"c0": "+secret"},
        rules={"c0": "write_skill secret"},
    )
    assert "secret" not in redacted(request).model_dump_json()


async def test_a_run_that_cannot_be_asks_nobody_and_one_that_can_shows_its_command_line(
    tmp_path: Path,
) -> None:
    put_skill(
        tmp_path,
        scripts__brew_dot_sh="# Brews.\n",
        scripts__brew_dot_sh_dot_toml="effect = 'read_only'\n[parameters.properties]\n"
        "n.type = 'integer'\n",
    )
    wrong: list[tuple[dict[str, object], str]] = [
        ({"name": "tea/brew.sh", "parameters": {"n": "3"}}, "is not of type 'integer'"),
        ({"name": "tea/none.sh"}, "The scripts are: tea/scripts/brew.sh."),
        ({"nam": "tea/brew.sh"}, "there is no such argument"),
    ]
    for arguments, reason in wrong:
        model = wanting(tool_call("run_script", **arguments))
        async with running_agent(tmp_path / "data", model, *tools(tmp_path), **ALONE) as agent:
            events = await sent(agent, "run it")
            assert "input.required" not in types(events)
            assert reason in results_of(await agent.run_loop(events[0].run_loop_id))[0]
    call = tool_call("run_script", name="tea/brew.sh", parameters={"n": 3})
    async with running_agent(tmp_path / "data", wanting(call), *tools(tmp_path), **ALONE) as agent:
        loop_id = await asked(agent)
        state = agent.memory.short_term.state(loop_id)
        assert state is not None
        assert state.awaiting is not None
        assert state.awaiting.previews["c0"].splitlines() == [
            "tea/scripts/brew.sh --n=3",
            "  Brews.",
            "  Its author says: read only.",
        ]
