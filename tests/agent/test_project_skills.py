"""A project's skills: names alone, until a person has seen one and said yes to all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.tools.builtins.read_skill import skill_readers
from service.tools.builtins.run_script import RunScript
from service.tools.skills.skill_repository import SkillRepository
from service.tools.skills.skill_runner import RunOptions, SkillRunner
from service.tools.skills.version_store import VersionStore
from tests.support.agent.agents import running_agent, sent, types
from tests.support.agent.waiting import asked, rested, results_of, tool_call, wanting
from tests.support.tools.skills import TEA, put_file, put_skill
from tests.support.tools.tool_calls import result_of

pytestmark = pytest.mark.anyio

ALONE: dict[str, Any] = {"auto_classify": False}


def repository_of(home: Path, *projects: Path) -> SkillRepository:
    return SkillRepository(
        scripts=home / "scripts",
        skills=home / ".agents" / "skills",
        versions=VersionStore(home / "skill-versions"),
        projects=projects,
    )


@pytest.mark.slow
async def test_a_project_s_skill_is_read_after_a_yes_that_holds_until_it_changes(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    folder = put_skill(project, references__x_dot_md="x")
    repository = repository_of(tmp_path / "home", project)
    model = wanting(tool_call("read_project_skill", name="tea"))
    readers = skill_readers(repository)
    async with running_agent(tmp_path / "data", model, *readers, **ALONE) as agent:
        (offered,) = agent.tools.definitions()
        assert f"- tea, of {project}" in offered.description
        assert "How tea is made" not in offered.description
        loop_id = await asked(agent)
        state = agent.memory.short_term.state(loop_id)
        assert state is not None
        assert state.awaiting is not None
        assert "+Boil water." in state.awaiting.previews["c0"]
        await agent.answer(loop_id, approved=True, remember="always")
        assert "Boil water." in results_of(await rested(agent, loop_id))[0]
        assert "input.required" not in types(await sent(agent, "again"))
        put_file(folder / "references" / "x.md", "y")
        await asked(agent, "once more")
    assert not (tmp_path / "home" / "skill-versions").exists()


@pytest.mark.slow
async def test_its_scripts_ask_as_any_script_does(tmp_path: Path) -> None:
    project = tmp_path / "project"
    put_skill(project, scripts__a_dot_sh="echo ran\n")
    repository = repository_of(tmp_path / "home", project)
    tool = RunScript(repository, SkillRunner(repository, RunOptions()))
    model = wanting(tool_call("run_script", name="tea/scripts/a.sh"))
    async with running_agent(tmp_path / "data", model, tool, **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True)
        assert "ran" in results_of(await rested(agent, loop_id))[0]


async def test_of_two_with_one_name_the_person_s_own_counts(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    put_skill(project, text=TEA.replace("How", "Whose"))
    put_skill(home)
    seen = repository_of(home, project).look()
    assert [(each.description, each.project) for each in seen.skills] == [
        ("How tea is made.", None)
    ]
    assert seen.unusable[0].name == f"tea of {project}"
    assert "another skill has the same name" in seen.unusable[0].reason


async def test_a_folder_that_is_not_granted_is_reached_by_no_link(tmp_path: Path) -> None:
    project, secret = tmp_path / "project", tmp_path / "secret"
    put_skill(secret)
    put_skill(project, "coffee")
    skills = project / ".agents" / "skills"
    (skills / "tea").symlink_to(secret / ".agents" / "skills" / "tea")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".agents").symlink_to(secret / ".agents")
    seen = repository_of(tmp_path / "home", project, other).look()
    assert [each.name for each in seen.skills] == ["coffee"]
    assert {each.reason for each in seen.unusable} == {
        "it is a link that leads out of the project."
    }


async def test_the_reader_of_own_skills_does_not_read_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    put_skill(project)
    own, _ = skill_readers(repository_of(tmp_path / "home", project))
    assert "There are no skills for it" in str(own.withheld)
    result = await result_of(own, name="tea")
    assert result.is_error
    assert result.content == "tea is read by read_project_skill."
