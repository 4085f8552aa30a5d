"""Reading a skill: the catalogue stands in the tool's description, the rest is read when wanted.

Of each skill the model is always told its name and what it is for, about a hundred tokens; how it
is done, and what lies beside it, costs nothing until it is asked for. Of a project's skills it is
told the names alone, and reads one after a yes to all that the skill holds.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from service.domain.conversation.token_estimates import prefix_within
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.errors import RondoError, StorageError
from service.tools.arguments import read_arguments
from service.tools.decorator import FunctionTool, tool
from service.tools.files.text_decoding import is_binary
from service.tools.protocol import CallPreview, ToolFailure
from service.tools.scripts.supervisor import remove
from service.tools.skills.differences import FileState, difference
from service.tools.skills.skill_catalogue import Skill, SkillScript, scripts_of, skill_in
from service.tools.skills.skill_form import SkillProblem
from service.tools.skills.skill_repository import SkillRepository

OWN = "read_skill"
OF_PROJECTS = "read_project_skill"
CATALOGUE_TOKENS = 100
"""Of what a skill says of itself. `read_skill` gives all of it."""
_MOST_FILES = 100

Name = Annotated[str, Field(description="As listed.")]
File = Annotated[str, Field(description="Another file of it, such as references/x.md.")]


@dataclass(frozen=True, slots=True)
class SkillReader:
    """A tool that reads some of the skills of a repository."""

    made: FunctionTool
    repository: SkillRepository
    reads: Callable[[Skill], bool]
    """Whether it reads a skill."""
    described: Callable[[tuple[Skill, ...]], str]
    """What the model is told where there are these."""

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: the skills that there are now."""
        try:
            skills = tuple(filter(self.reads, self.repository.look().skills))
        except StorageError:
            skills = ()  # it is withheld then
        return self.made.definition.model_copy(update={"description": self.described(skills)})

    @property
    def withheld(self) -> str | None:
        """Why the model is not offered it now."""
        try:
            seen = self.repository.look()
        except StorageError as error:
            return f"{error.detail}. {error.advice}"
        if any(map(self.reads, seen.skills)):
            return None
        broken = "".join(f" {each.name} cannot be used: {each.reason}" for each in seen.unusable)
        where = ", ".join(map(str, (self.repository.skills, *self.repository.projects)))
        return f"There are no skills for it in {where}.{broken}"

    @property
    def effect(self) -> ToolEffect:
        """It only reads."""
        return self.made.effect

    @property
    def needs_approval(self) -> bool:
        """Not for what a person put there, or said yes to the words of; for a project's, yes."""
        return self.made.needs_approval

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        return self.made.timeout_seconds

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self.made.run(arguments, context)


class ProjectSkillReader(SkillReader):
    """Reads the skills of projects, each after a yes."""

    def approval_scope(self, arguments: str) -> str | None:
        """See `ScopesApproval`: the skill with all that it holds now."""
        return self.made.approval_scope(arguments)

    def preview(self, arguments: str) -> CallPreview:
        """See `PreviewsCalls`: the words that the model is given."""
        scope = self.approval_scope(arguments) or ""
        given = read_arguments(arguments, self.made.arguments, self.made.definition)
        skill = _found(self.repository, str(given["name"]), self.reads)
        file = str(given["file"]) or skill.main_file
        try:
            data = self.repository.read(skill, file)
        except RondoError as error:
            raise _failure(error) from error
        words = difference({}, {file: FileState(data)})
        return CallPreview(scope, f"The skill {skill.name} of {skill.project}:\n{words}")


def skill_readers(repository: SkillRepository) -> tuple[SkillReader, ProjectSkillReader]:
    """`read_skill`, and `read_project_skill` for the skills of projects."""

    def is_own(skill: Skill) -> bool:
        return skill.project is None

    def is_of_project(skill: Skill) -> bool:
        return skill.project is not None

    def scope(given: Mapping[str, object]) -> str:
        skill = _found(repository, str(given["name"]), is_of_project)
        return _version(skill, repository.contents(skill).digest)

    @tool(name=OWN, description=_own_words(()), effect="read_only")
    def read_skill(name: Name, file: File = "") -> str:
        return _read(repository, _found(repository, name, is_own), file)

    @tool(
        name=OF_PROJECTS,
        description=_project_words(()),
        effect="read_only",
        needs_approval=True,
        scope=scope,
    )
    def read_project_skill(context: ToolContext, name: Name, file: File = "") -> str:
        skill = _found(repository, name, is_of_project)
        # Of a copy, as nothing can change between the look at it and the reading.
        place = tempfile.mkdtemp(prefix="rondo-skill-")
        try:
            copy = Path(place) / skill.folder.name
            contents = repository.contents(skill, copy_to=copy)
            if not context.covers(OF_PROJECTS, _version(skill, contents.digest)):
                raise ToolFailure(f"Not read: {name} has changed since the person said yes.")
            return _read(repository, skill_in(copy), file)
        except SkillProblem as problem:
            raise ToolFailure(f"{name} cannot be used: {problem}") from problem
        finally:
            remove(place)

    return (
        SkillReader(read_skill, repository, is_own, _own_words),
        ProjectSkillReader(read_project_skill, repository, is_of_project, _project_words),
    )


def _found(repository: SkillRepository, name: str, reads: Callable[[Skill], bool]) -> Skill:
    try:
        skill = repository.skill(name)
    except RondoError as error:
        raise _failure(error) from error
    if not reads(skill):
        other = OWN if skill.project is None else OF_PROJECTS
        raise ToolFailure(f"{name} is read by {other}.")
    return skill


def _read(repository: SkillRepository, skill: Skill, file: str) -> str:
    try:
        if file and file != skill.main_file:
            return _file(repository, skill, file)
        return _whole(repository, skill)
    except RondoError as error:
        raise _failure(error) from error


def _file(repository: SkillRepository, skill: Skill, file: str) -> str:
    data = repository.read(skill, file)
    if is_binary(data[:8192]):
        raise ToolFailure(f"{file} has {len(data):,} bytes and is no text.")
    return data.decode("utf-8", "replace") or f"{file} is empty."


def _whole(repository: SkillRepository, skill: Skill) -> str:
    if skill.text is None:
        body = _file(repository, skill, skill.main_file)
    else:
        body = skill.text.body or "(It says no more than its description.)"
    parts = [f"# {skill.name}", skill.description, body]
    if skill.text is not None and skill.text.compatibility:
        parts.append(f"Needs: {skill.text.compatibility}")
    scripts = scripts_of(skill)
    if scripts:
        parts.append("Scripts, for run_script:\n" + "\n".join(map(_script, scripts)))
    runnable = {each.name for each in scripts}
    others = [
        each.path
        for each in repository.files(skill)
        if f"{skill.name}/{each.path}" not in runnable and each.path != skill.main_file
    ]
    if others:
        more = f", and {len(others) - _MOST_FILES:,} more" if len(others) > _MOST_FILES else ""
        parts.append(f"Files beside it: {', '.join(others[:_MOST_FILES])}{more}.")
    return "\n\n".join(part for part in parts if part)


def _script(script: SkillScript) -> str:
    if script.problem:
        return f"- {script.name}: cannot be run: {script.problem}"
    words = f"- {script.name}: {script.description}" if script.description else f"- {script.name}"
    manifest = script.manifest
    if manifest.effect != "side_effects":
        words += f" ({manifest.effect.replace('_', ' ')})"
    if manifest.parameters is not None:
        words += f"\n  parameters: {json.dumps(manifest.parameters, ensure_ascii=False)}"
    return words


def _own_words(skills: tuple[Skill, ...]) -> str:
    listed = "\n".join(f"- {each.name}: {_cut(each.description)}" for each in skills)
    return (
        "Read how something is done: a skill of the user's. Read it before you begin a task that"
        f" one is for. The skills:\n{listed}"
    )


def _project_words(skills: tuple[Skill, ...]) -> str:
    # Names alone: a description is its author's words, which nobody has said yes to.
    listed = "\n".join(f"- {each.name}, of {each.project}" for each in skills)
    return (
        "Read how something is done in a project of the user's; the user is shown it, and asked"
        f" first. The skills:\n{listed}"
    )


def _cut(words: str) -> str:
    line = " ".join(words.split())
    end = prefix_within(line, CATALOGUE_TOKENS)
    return line if end >= len(line) else f"{line[:end]}…"


def _version(skill: Skill, digest: str) -> str:
    return f"{skill.name} of {skill.project} sha256:{digest}"


def _failure(error: RondoError) -> ToolFailure:
    detail = error.detail if error.detail.endswith((".", "?")) else f"{error.detail}."
    return ToolFailure(f"{detail} {error.advice}".strip())
