"""The script repository: skills and single scripts, their versions, and running them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool

from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.run_loops import Timestamp

SkillKind = Literal["skill", "script"]
"""A folder with a ``SKILL.md``, or a script that lies by itself."""


class SkillSummary(BaseModel):
    """A skill, or a script by itself."""

    name: str
    kind: SkillKind
    description: str
    project: str = ""
    """The granted folder that it comes with; empty for one of your own."""


class UnusableSkill(BaseModel):
    """What is in the folders and is not offered."""

    name: str
    reason: str
    """Why, and what to do about it."""


class Scripts(BaseModel):
    """What there is now."""

    scripts: list[SkillSummary]
    unusable: list[UnusableSkill]


class RunnableScript(BaseModel):
    """A script that can be run."""

    name: str
    """By which it is run."""
    description: str
    effect: ToolEffect
    """What running it twice would do, as its manifest says."""
    parameters: dict[str, JsonValue] | None
    """JSON Schema; None: it takes arguments and standard input as they are."""
    problem: str
    """Why it cannot be run; empty when it can."""


class SkillDetails(SkillSummary):
    """A skill, whole."""

    text: str
    """Of its ``SKILL.md``, or of the script."""
    files: list[str]
    scripts: list[RunnableScript]


class SkillFile(BaseModel):
    """A file of a skill."""

    name: str
    """Of the skill."""
    file: str
    text: str
    """What is no UTF-8 is replaced by U+FFFD."""


class SkillVersion(BaseModel):
    """What a skill was at a time."""

    version: int
    at: Timestamp
    author: Literal["person", "model", "unknown"]
    """``unknown``: its files were changed by other means, such as an editor."""
    run_loop_id: str
    """In which a model made it; else empty."""
    digest: str
    """SHA-256; of a skill, what a yes to a run names."""
    files: list[str]
    """None where it was removed."""


class SkillHistory(BaseModel):
    """The versions that are kept, oldest first; the last one is what it is now."""

    name: str
    versions: list[SkillVersion]


class SkillDifference(BaseModel):
    """What differs between two versions."""

    name: str
    difference: str
    """Unified; empty where nothing differs."""


class ChangedSkill(SkillDifference):
    """What a change has made."""

    version: int


class RemovedSkill(BaseModel):
    """What was removed."""

    name: str
    version: int | None
    """The one that says so; None where the versions were removed."""
    versions_removed: int


_Text = Annotated[str, Field(max_length=2_000_000)]
_Files = Annotated[dict[str, _Text], Field(min_length=1, max_length=1_000)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AddSkillRequest(_Request):
    """A new skill, or a new script by itself."""

    name: str = Field(min_length=1, max_length=255)
    kind: SkillKind = "skill"
    files: _Files
    """By path, as text; a file whose first line begins with ``#!`` may be run."""
    replace: StrictBool = False
    """Whether one of the same name is replaced; its versions stay."""


class WriteSkillRequest(_Request):
    """Other words in one file."""

    file: str = Field(min_length=1, max_length=500)
    text: _Text
    """What it is to hold, whole."""


class RevertSkillRequest(_Request):
    """Back to an older version."""

    version: int = Field(ge=1)


class RunScriptRequest(_Request):
    """What a script is given."""

    script: str = Field(default="", max_length=500)
    """Of a skill: its file in ``scripts``. Empty where the skill is a script by itself, or has
    one."""
    arguments: list[str] = Field(default_factory=list, max_length=100)
    input: str = Field(default="", max_length=1_000_000)
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """In place of arguments, for a script whose manifest names parameters."""


class ScriptResult(BaseModel):
    """How a run ended."""

    name: str
    exit_code: int
    """Negative: the number of the signal that ended it."""
    timed_out: bool
    stdout: str
    """Its start and its end, where it is long."""
    stderr: str


class ScriptOutput(BaseModel):
    """A piece of what a script writes, as it comes."""

    stream: Literal["stdout", "stderr"]
    text: str
