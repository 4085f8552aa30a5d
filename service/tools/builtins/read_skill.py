"""Reading a skill: the catalogue stands in the tool's description, the rest is read when wanted.

Of each skill the model is always told its name and what it is for, about a hundred tokens; how it
is done, and what lies beside it, costs nothing until it is asked for.
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.errors import RondoError, StorageError
from service.tools.decorator import FunctionTool, tool
from service.tools.files.text_decoding import is_binary
from service.tools.protocol import ToolFailure
from service.tools.skills.skill_catalogue import Skill, SkillScript, scripts_of
from service.tools.skills.skill_repository import SkillRepository

NAME = "read_skill"
CATALOGUE_CHARACTERS = 400
"""Of what a skill says of itself; about a hundred tokens. `read_skill` gives all of it."""
_MOST_FILES = 100


class ReadSkill:
    """The `read_skill` tool over a repository."""

    def __init__(self, repository: SkillRepository) -> None:
        self._repository = repository
        self._tool = self._made()

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: the skills that there are now."""
        try:
            skills = self._repository.look().skills
        except StorageError:
            skills = ()  # it is withheld then
        return self._tool.definition.model_copy(update={"description": _description(skills)})

    @property
    def withheld(self) -> str | None:
        """Why the model is not offered it now."""
        try:
            seen = self._repository.look()
        except StorageError as error:
            return f"{error.detail}. {error.advice}"
        if seen.skills:
            return None
        broken = "".join(f" {each.name} cannot be used: {each.reason}" for each in seen.unusable)
        return f"There are no skills in {self._repository.skills}.{broken}"

    @property
    def effect(self) -> ToolEffect:
        """It only reads."""
        return self._tool.effect

    @property
    def needs_approval(self) -> bool:
        """Never: a person put the skills there, or said yes to their words."""
        return self._tool.needs_approval

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        return self._tool.timeout_seconds

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self._tool.run(arguments, context)

    def _made(self) -> FunctionTool:
        @tool(name=NAME, description=_description(()), effect="read_only")
        def read_skill(
            name: Annotated[str, Field(description="As listed.")],
            file: Annotated[
                str, Field(description="Another file of it, such as references/x.md.")
            ] = "",
        ) -> str:
            try:
                skill = self._repository.skill(name)
                if file and file != skill.main_file:
                    return self._file(skill, file)
                return self._whole(skill)
            except RondoError as error:
                raise ToolFailure(f"{error.detail}. {error.advice}".replace("..", ".")) from error

        return read_skill

    def _file(self, skill: Skill, file: str) -> str:
        data = self._repository.read(skill, file)
        if is_binary(data[:8192]):
            raise ToolFailure(f"{file} has {len(data):,} bytes and is no text.")
        return data.decode("utf-8", "replace") or f"{file} is empty."

    def _whole(self, skill: Skill) -> str:
        if skill.text is None:
            body = self._file(skill, skill.main_file)
        else:
            body = skill.text.body or "(It says no more than its description.)"
        parts = [f"# {skill.name}", skill.description, body]
        if skill.text is not None and skill.text.compatibility:
            parts.append(f"Needs: {skill.text.compatibility}")
        scripts = scripts_of(skill)
        if scripts:
            parts.append("Scripts, for run_script:\n" + "\n".join(map(_script, scripts)))
        names = {f"{skill.name}/{each.path}": each.path for each in self._repository.files(skill)}
        runnable = {each.name for each in scripts}
        others = [path for name, path in names.items() if name not in runnable]
        others = [path for path in others if path != skill.main_file]
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


def _description(skills: tuple[Skill, ...]) -> str:
    listed = "\n".join(f"- {each.name}: {_cut(each.description)}" for each in skills)
    return (
        "Read how something is done: a skill of the user's. Read it before you begin a task that"
        f" one is for. The skills:\n{listed}"
    )


def _cut(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= CATALOGUE_CHARACTERS else f"{line[:CATALOGUE_CHARACTERS]}…"
