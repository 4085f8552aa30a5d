"""Changing skills: each change keeps a version before it and one after it.

Files are exchanged one by one, each at once, ``SKILL.md`` last: a skill that is begun is not
offered before it is whole. What versions do not hold, such as ``.git``, is let be.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from service.domain.errors import ConflictError, InvalidInputError, NotFoundError, StorageError
from service.tools.protocol import ToolFailure
from service.tools.scripts.script_folder import (
    BEGUN_PREFIX,
    MANIFEST_SUFFIX,
    MOST_BYTES,
    MOST_ENTRIES,
    contents_of,
    may_be_run,
)
from service.tools.skills.differences import FileState, State, difference
from service.tools.skills.script_manifest import read_manifest
from service.tools.skills.skill_catalogue import SCRIPTS, Kind
from service.tools.skills.skill_form import (
    SKILL_FILE,
    SkillProblem,
    read_skill_text,
    why_no_name,
)
from service.tools.skills.skill_repository import Place, SkillRepository
from service.tools.skills.version_store import Author, Version

_MOST_FOLDERS = 5
_MOST_BYTES_OF_A_NAME = 200


@dataclass(frozen=True, slots=True)
class Change:
    """What a skill would become."""

    place: Place
    before: State
    after: State

    @property
    def difference(self) -> str:
        """In a form that a person can judge."""
        return difference(self.before, self.after)


@dataclass(frozen=True, slots=True)
class By:
    """Who changes something."""

    author: Author = "person"
    run_loop_id: str = ""


class SkillChanges:
    """Changes of the skills in a repository. All methods block."""

    def __init__(self, repository: SkillRepository) -> None:
        self.repository = repository
        """Whose skills are changed."""

    def written(self, name: str, file: str, text: str) -> Change:
        """What a skill would be with other words in one of its files.

        Args:
            name: of the skill; one that there is none of begins with its ``SKILL.md``.
            file: its path in the skill.
            text: what it is to hold, whole.

        Raises:
            InvalidInputError: the path or the words cannot be.
            NotFoundError: there is no such skill, and this is no ``SKILL.md``.
        """
        place = self._place(name, new="skill" if file == SKILL_FILE else None)
        _check_path(place, file)
        before = self.repository.state(place)
        data = text.encode("utf-8", "replace")
        current = before.get(file)
        may_run = current.may_run if current is not None else data.startswith(b"#!")
        after = {**before, file: FileState(data, may_run)}
        _check(place, after)
        return Change(place, _only(file, before), _only(file, after))

    def added(
        self, name: str, files: State, *, kind: Kind = "skill", replace: bool = False
    ) -> Change:
        """What a new skill would be, or one that is replaced by others' files.

        Raises:
            InvalidInputError: it has not the form.
            ConflictError: there is one of the name, and it is not to be replaced.
        """
        place = self._place(name, new=kind)
        before = self.repository.state(place)
        if before and not replace:
            raise ConflictError(
                f"there is a {place.kind} {name} already",
                advice="Say that it is to be replaced (`rondo scripts add --replace`), or take"
                " another name.",
            )
        if place.kind == "script" and not any(
            may_be_run(path, is_executable=each.may_run) for path, each in files.items()
        ):
            raise InvalidInputError(
                f"{name} would never be run: it is neither executable, nor a .py or .sh file",
                advice="Make it executable (chmod +x), or add the folder of a skill that holds it.",
            )
        for file in files:
            _check_path(place, file)
        _check(place, files)
        return Change(place, before, files)

    def reverted(self, name: str, number: int) -> Change:
        """What a skill would be as it was.

        Raises:
            NotFoundError: there is no such skill or version.
            StorageError: the version cannot be read.
        """
        repository = self.repository
        place = repository.place(name)
        version = repository.versions.version(place.kind, place.name, number)
        return Change(place, repository.state(place), repository.state_of(version))

    def removed(self, name: str) -> Change:
        """What would go with a skill.

        Raises:
            NotFoundError: there is none.
        """
        place = self.repository.place(name)
        before = self.repository.state(place)
        if not before:
            raise NotFoundError(f"{name} is removed already")
        return Change(place, before, {})

    def make(self, change: Change, by: By) -> Version:
        """Bring a change about.

        Returns:
            The version that it makes.

        Raises:
            ConflictError: what it was made of has changed meanwhile, or somebody else is at it.
            StorageError: the disk refuses; `history` has what was before.
        """
        repository = self.repository
        with repository.versions.changing():
            place = change.place
            _clear(place.folder)
            now = repository.state(place)
            touched = {*change.before, *change.after}
            if {path: each for path, each in now.items() if path in touched} != change.before:
                raise ConflictError(
                    f"{place.name} has changed meanwhile", advice="Look at it again, then decide."
                )
            repository.note(place)
            try:
                _apply(place.folder, change)
            except OSError as error:
                repository.note(place)
                raise StorageError(
                    f"{error.filename or place.folder}: {error.strerror or error}",
                    advice="Part of it may be changed: see rondo scripts history.",
                ) from error
            version = repository.note(place, author=by.author, run_loop_id=by.run_loop_id)
            assert version is not None  # its state before is kept, at least
            return version

    def purge(self, name: str) -> int:
        """Remove a skill, if it is there, and all its versions: for good.

        Returns:
            How many versions there were.

        Raises:
            NotFoundError: there neither is nor was one.
            ConflictError: it is changed just now.
            StorageError: the disk refuses.
        """
        place = self.repository.place(name)
        before = self.repository.state(place)
        if before:
            self.make(Change(place, before, {}), By())
        return self.repository.versions.forget(place.kind, place.name)

    def _place(self, name: str, *, new: Kind | None) -> Place:
        try:
            return self.repository.place(name)
        except NotFoundError:
            if new is None:
                raise
        if new == "script":
            if "/" in name:
                raise InvalidInputError(f"{name[:80]!r} cannot be the name of a script")
            return Place("script", name, self.repository.scripts)
        skills = self.repository.skills
        reason = "there is no folder of skills" if skills is None else why_no_name(name)
        if skills is None or reason is not None:
            raise InvalidInputError(f"{name[:80]!r} cannot be a new skill: {reason}")
        return Place("skill", name, skills / name)


def files_of(source: Path) -> dict[str, FileState]:
    """The files of a folder, or one file, as they would be added.

    Raises:
        InvalidInputError: it cannot be read, or is too large.
    """
    try:
        if source.is_file():
            data = source.read_bytes()
            return {source.name: FileState(data, os.access(source, os.X_OK))}
        return {
            each.path: FileState((source / each.path).read_bytes(), each.may_run)
            for each in contents_of(source).files
        }
    except ToolFailure as failure:
        raise InvalidInputError(str(failure)) from failure
    except OSError as error:
        raise InvalidInputError(f"{error.filename}: {error.strerror}") from error


def _only(file: str, state: State) -> dict[str, FileState]:
    return {file: state[file]} if file in state else {}


def _check_path(place: Place, file: str) -> None:
    """See to it that a path is one of a file in a skill, and an ordinary one.

    Raises:
        InvalidInputError: it is not.
    """
    parts = PurePosixPath(file).parts
    wrong = (
        not parts
        or file != "/".join(parts)
        or len(parts) > _MOST_FOLDERS
        or any(part in ("..", "/", "__pycache__") or part.startswith(".") for part in parts)
        or any(len(part.encode("utf-8", "replace")) > _MOST_BYTES_OF_A_NAME for part in parts)
        or not file.isprintable()
        or "\\" in file
    )
    if wrong or not place.owns(file):
        whole = f"{SKILL_FILE}, scripts/NAME or references/NAME"
        own = whole if place.kind == "skill" else f"{place.name} or its manifest"
        raise InvalidInputError(f"{file[:200]!r} is no path in {place.name}: give {own}")


def _check(place: Place, state: State) -> None:
    """See to it that a skill would have the form.

    Raises:
        InvalidInputError: it would not.
    """
    size = sum(len(each.data) for each in state.values())
    if size > MOST_BYTES or len(state) > MOST_ENTRIES // 2:
        raise InvalidInputError(
            f"{place.name} would hold {size / 1e6:.1f} MB in {len(state):,} files, which is too"
            " much to be copied for each run"
        )
    try:
        if place.kind == "skill":
            if SKILL_FILE not in state:
                raise SkillProblem(f"it has no {SKILL_FILE}: write that first.")
            read_skill_text(state[SKILL_FILE].data, folder=place.name)
        for path, each in state.items():
            script = path.removesuffix(MANIFEST_SUFFIX)
            in_place = place.kind == "script" or path.startswith(f"{SCRIPTS}/")
            if script != path and in_place and script in state:
                read_manifest(each.data, path)
    except SkillProblem as problem:
        raise InvalidInputError(f"{place.name} would be no skill: {problem}") from problem


def _clear(folder: Path) -> None:
    """Remove what a process that was killed had begun to write. Nobody else is writing now."""
    for path in folder.rglob(f"{BEGUN_PREFIX}*"):
        path.unlink(missing_ok=True)


def _apply(folder: Path, change: Change) -> None:
    gone = [path for path in change.before if path not in change.after]
    for path in gone:
        target = _inside(folder, path)
        target.unlink(missing_ok=True)
        for parent in target.parents:
            if parent == folder or not parent.is_relative_to(folder) or any(parent.iterdir()):
                break
            parent.rmdir()
    for path in sorted(change.after, key=lambda path: path == SKILL_FILE):
        if change.before.get(path) != change.after[path]:
            _write(_inside(folder, path), change.after[path])
    if not change.after and change.place.kind == "skill":
        _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif not any(folder.iterdir()):
        folder.rmdir()


def _inside(folder: Path, path: str) -> Path:
    """Where a file is written.

    Raises:
        OSError: a link would lead out of the folder.
    """
    target = folder / path
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise OSError(0, "a link leads out of the skill", str(target))
    return target


def _write(target: Path, state: FileState) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=BEGUN_PREFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(state.data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o755 if state.may_run else 0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
