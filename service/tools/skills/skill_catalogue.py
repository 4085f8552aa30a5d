"""Which skills there are: looked up whenever it is asked, so that a change is seen at once.

A skill is a folder with a ``SKILL.md`` in the folder of skills. A script that lies by itself in the
script folder is a skill of one file, whose description is derived from it; it sees what lies beside
it all the same. A folder that a person has granted may have skills, too, as a project's own. What
has not the form is left out, and why is told.
"""

from __future__ import annotations

import functools
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from service.tools.scripts.script_folder import (
    MOST_BYTES,
    MOST_ENTRIES,
    Script,
    list_scripts,
)
from service.tools.skills.script_manifest import NO_MANIFEST, ScriptManifest, manifest_beside
from service.tools.skills.skill_form import (
    SKILL_FILE,
    SKILL_FILE_BYTES,
    SkillProblem,
    SkillText,
    read_skill_text,
)

Kind = Literal["skill", "script"]
SKILLS_PATH = Path(".agents", "skills")
"""Where the folder of skills is in a data folder, and in a project."""
SCRIPTS = "scripts"
"""The folder in a skill whose runnable files are its scripts."""
MOST_SKILLS = 200
"""More are not offered: their descriptions alone would fill the window of a model."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill, or a script that is one by itself."""

    name: str
    kind: Kind
    folder: Path
    """The whole of what a run of it has a copy of."""
    description: str
    text: SkillText | None
    """What its ``SKILL.md`` says; None for a script by itself."""
    project: Path | None = None
    """The granted folder that it comes with; None for one of the person's own. A project's words
    are its author's: none of them reaches a model before a yes."""

    @property
    def main_file(self) -> str:
        """What is read first."""
        return self.name if self.text is None else SKILL_FILE


@dataclass(frozen=True, slots=True)
class SkillScript:
    """A script, and what its manifest says."""

    name: str
    """By which it is run: of a skill, ``SKILL/scripts/FILE``."""
    script: Script
    manifest: ScriptManifest
    problem: str = ""
    """Why it cannot be run; empty when it can."""

    @property
    def description(self) -> str:
        """Of the manifest, else derived."""
        return self.manifest.description or self.script.description


@dataclass(frozen=True, slots=True)
class Unusable:
    """What is in the folders and cannot be used."""

    name: str
    reason: str
    """Says what to do, too."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What there is now."""

    skills: tuple[Skill, ...]
    """Skills by name, then scripts by name."""
    unusable: tuple[Unusable, ...]


def catalogue(*, scripts: Path, skills: Path | None, projects: Sequence[Path] = ()) -> Catalogue:
    """Look through the folders; those that are not there are empty.

    Args:
        scripts: the script folder.
        skills: the folder of skills; None where there is none.
        projects: folders that may have skills of their own.

    Raises:
        OSError: the script folder cannot be read.
    """
    usable: dict[str, Skill] = {}
    unusable: list[Unusable] = []
    for entry in _entries(skills, unusable):
        try:
            skill = skill_in(entry)
            if len(usable) >= MOST_SKILLS:
                raise SkillProblem(f"there are more than {MOST_SKILLS} skills: remove some.")
        except SkillProblem as problem:
            unusable.append(Unusable(_shown(entry.name), str(problem)))
        else:
            usable[skill.name] = skill
    for script in list_scripts(scripts):
        if script.name in usable:
            reason = "a skill has the same name: rename the file."
            unusable.append(Unusable(script.name, reason))
            continue
        made = _described(script, script.name)
        usable[script.name] = Skill(script.name, "script", scripts, made.description, None)
    for project in projects:
        _add_of_project(project, usable, unusable)
    return Catalogue(tuple(usable.values()), tuple(unusable))


def scripts_of(skill: Skill, *, folder: Path | None = None) -> tuple[SkillScript, ...]:
    """The scripts of a skill, by name; none where they cannot be read any more.

    Args:
        skill: which one.
        folder: where it lies now, such as its copy; None: in its own place.
    """
    home = folder or skill.folder
    try:
        if skill.kind == "script":
            alone = [each for each in list_scripts(home) if each.name == skill.name]
            return tuple(_described(each, each.name) for each in alone)
        inside = list_scripts(home / SCRIPTS)
    except OSError:
        return ()
    return tuple(_described(each, f"{skill.name}/{SCRIPTS}/{each.name}") for each in inside)


def _entries(skills: Path | None, unusable: list[Unusable]) -> Iterator[Path]:
    """What may be skills. A folder without a ``SKILL.md`` is told; files and what is hidden are
    let be."""
    if skills is None or not skills.is_dir():
        return
    try:
        entries = sorted(skills.iterdir(), key=lambda each: each.name)
    except OSError as error:
        unusable.append(Unusable(str(skills), f"it cannot be read: {error.strerror}."))
        return
    seen: dict[str, str] = {}
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        # Two names can differ in how they are written alone: café has two forms.
        composed = unicodedata.normalize("NFC", entry.name)
        if composed in seen:
            unusable.append(Unusable(composed, "another folder has the same name: rename one."))
            continue
        seen[composed] = entry.name
        yield entry


def _add_of_project(project: Path, usable: dict[str, Skill], unusable: list[Unusable]) -> None:
    for entry in _entries(project / SKILLS_PATH, unusable):
        try:
            if not entry.resolve().is_relative_to(project.resolve()):
                raise SkillProblem("it is a link that leads out of the project.")
            skill = replace(skill_in(entry), project=project)
            if skill.name in usable or len(usable) >= MOST_SKILLS:
                raise SkillProblem("another skill has the same name, or there are too many.")
        except SkillProblem as problem:
            unusable.append(Unusable(_shown(f"{entry.name} of {project}"), str(problem)))
        else:
            usable[skill.name] = skill


def skill_in(folder: Path) -> Skill:
    """The skill that is in a folder.

    Raises:
        SkillProblem: there is none, or it cannot be used.
    """
    text = _text_of(folder)
    _check_files(folder)
    return Skill(text.name, "skill", folder, text.description, text)


def _text_of(folder: Path) -> SkillText:
    path = folder / SKILL_FILE
    try:
        status = path.stat()
        if not path.is_file():
            raise SkillProblem(f"{SKILL_FILE} is no file.")
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return _text_then(path, state)
    except FileNotFoundError as error:
        raise SkillProblem(
            f"it has no {SKILL_FILE}: write one, or move the folder away."
        ) from error
    except OSError as error:
        raise SkillProblem(f"{SKILL_FILE} cannot be read: {error.strerror}.") from error


@functools.lru_cache(maxsize=2 * MOST_SKILLS)
def _text_then(path: Path, state: tuple[int, ...]) -> SkillText:
    """What a file says in one state of it. The model is told before each of its calls."""
    with path.open("rb") as file:
        return read_skill_text(file.read(SKILL_FILE_BYTES + 1), folder=path.parent.name)


def _check_files(folder: Path) -> None:
    """See to it that a skill can be copied whole, and holds nothing of elsewhere.

    Raises:
        SkillProblem: it is too large, or a link leads out of it.
    """
    home = os.path.realpath(folder)
    waiting = [home]
    entries = size = 0
    while waiting:
        try:
            inside = list(os.scandir(waiting.pop()))
        except OSError as error:
            name = os.path.relpath(error.filename or home, home)
            raise SkillProblem(f"{_shown(name)} cannot be read: {error.strerror}.") from error
        for entry in inside:
            entries += 1
            if entry.is_symlink():
                _check_link(entry.path, home)
            elif entry.is_dir():
                if not entry.name.startswith(".") and entry.name != "__pycache__":
                    waiting.append(entry.path)
            else:
                size += entry.stat(follow_symlinks=False).st_size
            if entries > MOST_ENTRIES or size > MOST_BYTES:
                raise SkillProblem(
                    f"it holds more than {MOST_BYTES // 1_000_000} MB or {MOST_ENTRIES:,} files:"
                    " move data out of it."
                )


def _check_link(path: str, home: str) -> None:
    real = os.path.realpath(path)
    if real != home and not real.startswith(home + os.sep):
        raise SkillProblem(
            f"{_shown(os.path.relpath(path, home))} is a link that leads out of the skill: put a"
            " copy in its place."
        )


def _described(script: Script, name: str) -> SkillScript:
    try:
        return SkillScript(name, script, manifest_beside(script.path) or NO_MANIFEST)
    except SkillProblem as problem:
        return SkillScript(name, script, NO_MANIFEST, str(problem))


def _shown(name: str) -> str:
    words = name.encode("utf-8", "replace").decode("utf-8")
    return words if words.isprintable() else ascii(words)
