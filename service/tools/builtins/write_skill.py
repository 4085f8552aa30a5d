"""Writing and editing skills: each time after a yes to the very difference that is made.

A skill is a text that later conversations follow, and scripts that later run; so no yes to a change
of one is remembered, whatever the settings say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, TypeVar

from pydantic import Field

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.errors import RondoError
from service.tools.arguments import read_arguments
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import CallPreview, ToolFailure
from service.tools.skills.skill_changes import By, Change, SkillChanges
from service.tools.skills.skill_repository import SkillRepository

WRITE = "write_skill"
EDIT = "edit_skill"
NAMES = frozenset((WRITE, EDIT))
WRITTEN_CHARACTERS = 60_000
"""Of one file: no more than a person can look through."""

Planned = TypeVar("Planned")
Name = Annotated[str, Field(max_length=255, description="Of the skill.")]
File = Annotated[
    str,
    Field(max_length=500, description="Its path: SKILL.md, scripts/NAME or references/NAME."),
]
Text = Annotated[str, Field(max_length=WRITTEN_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class SkillTool:
    """A tool that changes a skill."""

    made: FunctionTool
    planned: Callable[[str], Change]
    """What a call with these arguments would change.

    Raises:
        ToolFailure: it cannot be done.
    """

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return self.made.definition

    @property
    def effect(self) -> ToolEffect:
        """A second run may come after another's change."""
        return self.made.effect

    @property
    def needs_approval(self) -> bool:
        """A person agrees to each change."""
        return self.made.needs_approval

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        return self.made.timeout_seconds

    def check(self, arguments: str) -> None:
        """See `ChecksArguments`."""
        self.planned(arguments)

    def approval_scope(self, arguments: str) -> str | None:
        """See `ScopesApproval`: what is written, and over what."""
        return _scope(self.planned(arguments))

    def preview(self, arguments: str) -> CallPreview:
        """See `PreviewsCalls`."""
        change = self.planned(arguments)
        words = change.difference or "Nothing would change."
        return CallPreview(_scope(change), f"The skill {change.place.name}:\n{words}")

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self.made.run(arguments, context)


class _Writing:
    """Plans changes of skills, and makes those that a person has said yes to."""

    def __init__(self, repository: SkillRepository) -> None:
        self._repository = repository
        self._changes = SkillChanges(repository)

    def write(self, name: str, file: str, text: str) -> Change:
        """What it would be to write a file whole."""
        return _planned(lambda: _own(self._changes.written(name, file, text)))

    def edit(self, name: str, file: str, old_text: str, new_text: str) -> Change:
        """What it would be to replace a piece of a file."""
        return _planned(lambda: self._edited(name, file, old_text, new_text))

    def make(self, tool_name: str, change: Change, context: ToolContext) -> str:
        """Bring a change about, in words for the model."""
        if not context.covers(tool_name, _scope(change)):
            raise ToolFailure(
                "Not written: the skill has changed since the person said yes. Read it, then call"
                " again."
            )
        by = By("model", context.run_loop_id)
        version = _planned(lambda: self._changes.make(change, by))
        return f"Written: {change.place.name} is version {version.number} now."

    def _edited(self, name: str, file: str, old_text: str, new_text: str) -> Change:
        words = self._repository.read(self._repository.place(name), file).decode("utf-8")
        if (count := words.count(old_text)) != 1:
            times = "not" if not count else f"{count} times"
            raise ToolFailure(
                f"old_text stands {times} in {file}: give a piece that stands there once, with"
                " what is around it. read_skill shows the file."
            )
        text = words.replace(old_text, new_text)
        if len(text) > WRITTEN_CHARACTERS:
            raise ToolFailure(f"{file} would have more than {WRITTEN_CHARACTERS:,} characters.")
        return _own(self._changes.written(name, file, text))


def skill_tools(repository: SkillRepository) -> tuple[SkillTool, SkillTool]:
    """`write_skill` and `edit_skill` over a repository."""
    writing = _Writing(repository)

    @tool(name=WRITE, effect="side_effects", needs_approval=True)
    def write_skill(context: ToolContext, name: Name, file: File, text: Text) -> str:
        """Write a file of a skill, whole; a new skill begins with its SKILL.md, whose head has name
        and description. The user is shown what changes, and asked. For what the user wants done
        the same way again."""
        return writing.make(WRITE, writing.write(name, file, text), context)

    @tool(name=EDIT, effect="side_effects", needs_approval=True)
    def edit_skill(
        context: ToolContext,
        name: Name,
        file: File,
        old_text: Annotated[str, Field(min_length=1, description="Stands there once.")],
        new_text: Text,
    ) -> str:
        """Replace a piece of a file of a skill. The user is shown what changes, and asked."""
        return writing.make(EDIT, writing.edit(name, file, old_text, new_text), context)

    return (
        SkillTool(write_skill, lambda given: writing.write(**_texts(write_skill, given))),
        SkillTool(edit_skill, lambda given: writing.edit(**_texts(edit_skill, given))),
    )


def _texts(made: FunctionTool, arguments: str) -> dict[str, str]:
    values = read_arguments(arguments, made.arguments, made.definition)
    return {name: str(value) for name, value in values.items()}


def _planned(plan: Callable[[], Planned]) -> Planned:
    try:
        return plan()
    except UnicodeDecodeError as error:
        raise ToolFailure("The file is no text in UTF-8.") from error
    except RondoError as error:
        raise ToolFailure(f"{error.detail}. {error.advice}".strip()) from error


def _own(change: Change) -> Change:
    """Refuse to write by a link to elsewhere, which a person has made for themselves, and over more
    than one can look through."""
    if any(len(each.data) > 4 * WRITTEN_CHARACTERS for each in change.before.values()):
        raise ToolFailure("The file is too large for the difference to be shown to the user.")
    if change.place.folder.is_symlink():
        raise ToolFailure(f"{change.place.name} is a link to a folder elsewhere: change it there.")
    return change


def _scope(change: Change) -> str:
    digest = sha256()
    for state in (change.before, change.after):
        for path, file in sorted(state.items()):
            digest.update(f"{path}:{file.may_run}:{len(file.data)}:".encode())
            digest.update(file.data)
        digest.update(b"\0")
    (path,) = change.after
    return f"{change.place.name}/{path} sha256:{digest.hexdigest()}"
