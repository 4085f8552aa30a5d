"""Skills and their versions as people see them, by HTTP and at the terminal."""

from __future__ import annotations

from service.domain.errors import ConflictError, NotFoundError
from service.tools.skills.skill_catalogue import Skill, SkillScript, scripts_of
from service.tools.skills.skill_changes import Change
from service.tools.skills.skill_repository import SkillRepository
from service.tools.skills.skill_runner import ScriptRun
from service.tools.skills.version_store import Version
from service.wire.script_bodies import (
    ChangedSkill,
    RunnableScript,
    ScriptResult,
    Scripts,
    SkillDetails,
    SkillHistory,
    SkillSummary,
    SkillVersion,
    UnusableSkill,
)


def listed_scripts(repository: SkillRepository) -> Scripts:
    """What there is now, and what cannot be used.

    Raises:
        StorageError: the script folder cannot be read.
    """
    seen = repository.look()
    return Scripts(
        scripts=[_summary(each) for each in seen.skills],
        unusable=[UnusableSkill(name=each.name, reason=each.reason) for each in seen.unusable],
    )


def skill_details(repository: SkillRepository, name: str) -> SkillDetails:
    """A skill, whole.

    Raises:
        NotFoundError: there is none of this name that can be used.
    """
    skill = repository.skill(name)
    return SkillDetails(
        **_summary(skill).model_dump(),
        text=repository.read(skill, skill.main_file).decode("utf-8", "replace"),
        files=[each.path for each in repository.files(skill)],
        scripts=[_runnable(each) for each in scripts_of(skill)],
    )


def script_to_run(repository: SkillRepository, name: str, script: str) -> str:
    """The name of a script by which it is run.

    Args:
        repository: where it is.
        name: of the skill.
        script: its file; empty for the only one.

    Raises:
        NotFoundError: there is no such skill.
        ConflictError: none is named, and there are several or none.
    """
    skill = repository.skill(name)
    names = [each.name for each in scripts_of(skill)]
    if script and skill.kind == "script":
        raise NotFoundError(f"{name} is a script by itself", advice="Name no file of it.")
    if script:
        return f"{name}/{script}"
    if len(names) == 1:
        return names[0]
    raise ConflictError(
        f"{name} has {'several scripts' if names else 'no scripts'}",
        advice=f"Name one of {', '.join(names)}." if names else "",
    )


def skill_history(repository: SkillRepository, name: str) -> SkillHistory:
    """The versions of a skill.

    Raises:
        NotFoundError: there neither is nor was one of this name.
        StorageError: they cannot be read or written.
    """
    return SkillHistory(name=name, versions=[_version(each) for each in repository.history(name)])


def changed_skill(change: Change, version: Version) -> ChangedSkill:
    """What a change has made."""
    return ChangedSkill(
        name=change.place.name, difference=change.difference, version=version.number
    )


def script_result(run: ScriptRun) -> ScriptResult:
    """How a run ended."""
    return ScriptResult(
        name=run.name,
        exit_code=run.outcome.exit_code,
        timed_out=run.outcome.timed_out,
        stdout=run.outcome.stdout,
        stderr=run.outcome.stderr,
    )


def _summary(skill: Skill) -> SkillSummary:
    return SkillSummary(
        name=skill.name,
        kind=skill.kind,
        description=skill.description,
        project="" if skill.project is None else str(skill.project),
    )


def _runnable(script: SkillScript) -> RunnableScript:
    return RunnableScript(
        name=script.name,
        description=script.description,
        effect=script.manifest.effect,
        parameters=script.manifest.parameters,
        problem=script.problem,
    )


def _version(version: Version) -> SkillVersion:
    return SkillVersion(
        version=version.number,
        at=version.at,
        author=version.author,
        run_loop_id=version.run_loop_id,
        digest=version.digest,
        files=[each.path for each in version.files],
    )
