"""Finding and reading skills, and what they were."""

from __future__ import annotations

import hashlib
import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from service.domain.errors import InvalidInputError, NotFoundError, RondoError, StorageError
from service.tools.files.granted_folders import GrantedFolders
from service.tools.model_text import did_you_mean
from service.tools.protocol import ToolFailure
from service.tools.scripts.script_folder import (
    MANIFEST_SUFFIX,
    Contents,
    SeenFile,
    contents_of,
)
from service.tools.skills.differences import FileState, State, difference
from service.tools.skills.skill_catalogue import (
    Catalogue,
    Kind,
    Skill,
    SkillScript,
    catalogue,
    scripts_of,
)
from service.tools.skills.version_store import Author, Version, VersionStore

log = logging.getLogger(__name__)

SKILL_FILE_LIMIT = 2_000_000
"""Bytes of one file that is read or shown."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a skill is, or was, whether it has the form or not."""

    kind: Kind
    name: str
    folder: Path
    """Of a script by itself, the one that it lies in."""

    def owns(self, path: str) -> bool:
        """Whether a file in the folder belongs to it."""
        own = (self.name, f"{self.name}{MANIFEST_SUFFIX}")
        return self.kind == "skill" or unicodedata.normalize("NFC", path) in own


class SkillRepository:
    """The skills in a folder, the scripts in another, and their versions. All methods block."""

    def __init__(
        self,
        *,
        scripts: Path,
        skills: Path | None,
        versions: VersionStore,
        projects: Sequence[Path] = (),
    ) -> None:
        """Name the folders; those that are not there are empty.

        Args:
            scripts: scripts that lie by themselves.
            skills: a folder for each skill; None: there are none, and none can be made.
            versions: of both.
            projects: folders that may have skills of their own, of which no versions are kept.
        """
        self.projects = tuple(projects)
        self.scripts = scripts
        self.skills = skills
        self.versions = versions

    def look(self) -> Catalogue:
        """What there is now.

        Raises:
            StorageError: the script folder cannot be read.
        """
        try:
            return catalogue(scripts=self.scripts, skills=self.skills, projects=self.projects)
        except OSError as error:
            raise StorageError(
                f"the script folder {self.scripts} cannot be read: {error.strerror}",
                advice="Correct its rights.",
            ) from error

    def skill(self, name: str) -> Skill:
        """The skill of this name, or the script by itself.

        Raises:
            NotFoundError: there is none, or it cannot be used; says why, and which there are.
        """
        seen = self.look()
        for each in seen.skills:
            if each.name == name:
                return each
        for broken in seen.unusable:
            if broken.name == name:
                raise NotFoundError(f"{name} cannot be used: {broken.reason}")
        names = [each.name for each in seen.skills]
        raise NotFoundError(
            f"There is no skill {name[:80]!r}.{did_you_mean(name, names)}",
            advice=f"There are: {', '.join(names) or 'none'}.",
        )

    def script(self, name: str) -> tuple[Skill, SkillScript]:
        """A script that can be run, by its name: ``FILE``, or ``SKILL/scripts/FILE``.

        Raises:
            NotFoundError: there is none; says which there are.
        """
        first = name.partition("/")[0]
        seen = self.look()
        for skill in seen.skills:
            if skill.name != first:
                continue
            for each in scripts_of(skill):
                # Models leave the folder out.
                if name in (each.name, each.name.replace("/scripts/", "/", 1)):
                    return skill, each
        for broken in seen.unusable:
            if broken.name == first:
                raise NotFoundError(f"{first} cannot be used: {broken.reason}")
        names = [
            each.name
            for skill in seen.skills
            if skill.project is None  # the names of others are others' words
            for each in scripts_of(skill)
        ]
        raise NotFoundError(
            f"There is no script {name[:80]!r}.{did_you_mean(name, names)}",
            advice=f"The scripts are: {', '.join(names) or 'none'}.",
        )

    def contents(self, skill: Skill | Place, *, copy_to: Path | None = None) -> Contents:
        """All that a skill holds; of a script by itself, all that its folder does.

        Raises:
            ToolFailure: it cannot be read, or is too large.
            OSError: the copy cannot be written.
        """
        return contents_of(skill.folder, copy_to)

    def files(self, skill: Skill | Place) -> tuple[SeenFile, ...]:
        """The files of a skill; of a script by itself, that and its manifest.

        Raises:
            InvalidInputError: it cannot be read, or is too large.
        """
        return self._seen(Place(skill.kind, skill.name, skill.folder)).files

    def read(self, skill: Skill | Place, file: str) -> bytes:
        """A file of a skill. No path leads out of it.

        Raises:
            NotFoundError: there is no such file; says which there are.
            InvalidInputError: it is too large.
        """
        place = Place(skill.kind, skill.name, skill.folder)
        try:
            if not place.owns(file):
                raise ToolFailure("it is no file of it")
            with GrantedFolders((place.folder.absolute(),)).file(
                str(place.folder.absolute() / file)
            ) as opened:
                data = opened.read(SKILL_FILE_LIMIT + 1)
        except ToolFailure as failure:
            names = [each.path for each in self.files(place)]
            raise NotFoundError(
                f"{place.name} has no file {file[:200]!r}",
                advice=f"It has: {', '.join(names[:100]) or 'none'}.",
            ) from failure
        if len(data) > SKILL_FILE_LIMIT:
            raise InvalidInputError(f"{file[:200]} has more than {SKILL_FILE_LIMIT:,} bytes")
        return data

    # --- what they were

    def place(self, name: str) -> Place:
        """Where a skill of this name is, or was.

        Raises:
            NotFoundError: there neither is nor was one.
        """
        if "/" not in name and name not in (".", "..", "") and name.isprintable():
            skill = None if self.skills is None else Place("skill", name, self.skills / name)
            script = Place("script", name, self.scripts)
            if skill is not None and skill.folder.is_dir():
                return skill
            if (self.scripts / name).is_file() or self.versions.history("script", name):
                return script
            if skill is not None and self.versions.history("skill", name):
                return skill
        names = [each.name for each in self.look().skills]
        raise NotFoundError(
            f"There is no skill {name[:80]!r}, and there was none.{did_you_mean(name, names)}",
            advice=f"There are: {', '.join(names) or 'none'}.",
        )

    def history(self, name: str) -> tuple[Version, ...]:
        """The versions of a skill, oldest first; the last one is what it is now.

        Raises:
            NotFoundError: there neither is nor was one.
            StorageError: they cannot be read or written.
        """
        place = self.place(name)
        self.note(place)
        return self.versions.history(place.kind, place.name)

    def compared(self, name: str, before: int, after: int | None = None) -> str:
        """What differs between two versions.

        Args:
            name: of the skill.
            before: the number of the older version.
            after: of the newer one; None: what it is now.

        Raises:
            NotFoundError: there is no such skill or version.
            StorageError: they cannot be read.
        """
        place = self.place(name)
        old = self.state_of(self.versions.version(place.kind, place.name, before))
        if after is None:
            return difference(old, self.state(place))
        return difference(old, self.state_of(self.versions.version(place.kind, place.name, after)))

    def state(self, place: Place) -> dict[str, FileState]:
        """What a skill holds now; nothing where it is not there."""
        if not self.is_there(place):
            return {}
        return {
            each.path: FileState((place.folder / each.path).read_bytes(), each.may_run)
            for each in self.files(place)
        }

    def state_of(self, version: Version) -> State:
        """What a version holds.

        Raises:
            StorageError: it cannot be read.
        """
        return {
            each.path: FileState(self.versions.content(each), each.may_run)
            for each in version.files
        }

    def is_there(self, place: Place) -> bool:
        """Whether it has any file now."""
        return place.folder.is_dir() if place.kind == "skill" else self._script(place).is_file()

    def note(
        self, place: Place, *, author: Author = "unknown", run_loop_id: str = ""
    ) -> Version | None:
        """Keep what a skill is now as a version, if it is not the newest one.

        Returns:
            The newest version; None where nothing is there, and was not.

        Raises:
            InvalidInputError: it is too large.
            StorageError: the disk refuses.
        """
        if not self.is_there(place):
            kept = self.versions.history(place.kind, place.name)
            if not kept or not kept[-1].files:
                return kept[-1] if kept else None
            return self._keep(place, _Seen("", ()), author, run_loop_id)
        return self._keep(place, self._seen(place), author, run_loop_id)

    def note_copy(self, skill: Skill, contents: Contents, copy: Path) -> None:
        """Keep as a version what is about to run. A disk that refuses does not keep it from that.

        Args:
            skill: which one.
            contents: what its copy holds.
            copy: where that is.
        """
        if skill.project is not None:
            return
        place = Place(skill.kind, skill.name, copy)
        try:
            self._keep(place, _seen(place, contents), "unknown", "")
        except RondoError as error:
            log.warning("no version of %s could be kept: %s", skill.name, error)

    def _keep(self, place: Place, seen: _Seen, author: Author, run_loop_id: str) -> Version:
        return self.versions.keep(
            place.kind,
            place.name,
            seen.files,
            place.folder,
            digest=seen.digest,
            author=author,
            run_loop_id=run_loop_id,
        )

    def _seen(self, place: Place) -> _Seen:
        try:
            return _seen(place, self.contents(place))
        except ToolFailure as failure:
            raise InvalidInputError(str(failure)) from failure

    def _script(self, place: Place) -> Path:
        return self.scripts / place.name


@dataclass(frozen=True, slots=True)
class _Seen:
    """What belongs to a skill."""

    digest: str
    """Of a skill, what a yes to a run names; of nothing, empty."""
    files: tuple[SeenFile, ...]


def _seen(place: Place, contents: Contents) -> _Seen:
    if place.kind == "skill":
        return _Seen(contents.digest, contents.files)
    files = tuple(each for each in contents.files if place.owns(each.path))
    digest = hashlib.sha256()
    for each in files:
        digest.update(f"{len(each.path)}:{each.path}:{each.may_run}:{each.sha256}".encode())
    return _Seen(digest.hexdigest(), files)
