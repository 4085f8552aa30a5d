"""Every version is kept, can be compared, and comes back."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from service.domain.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from service.tools.skills.differences import FileState, difference
from service.tools.skills.skill_changes import By, Change, SkillChanges, files_of
from service.tools.skills.skill_repository import SkillRepository
from service.tools.skills.version_store import Bounds, VersionStore
from tests.support.tools.skills import TEA, put_file, put_skill, repository_in

OTHER = TEA.replace("Boil", "Heat")


def write(home: Path, name: str, file: str, text: str) -> int:
    changes = SkillChanges(repository_in(home))
    return changes.make(changes.written(name, file, text), By()).number


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_is_written_is_a_version_and_what_was_there_before_one_too(tmp_path: Path) -> None:
    folder = put_skill(tmp_path, scripts__brew_dot_sh="#!/bin/sh\n")
    assert write(tmp_path, "tea", "SKILL.md", OTHER) == 2
    (folder / "SKILL.md").write_text(TEA)  # by hand
    history = repository_in(tmp_path).history("tea")
    assert [(each.number, each.author) for each in history] == [
        (1, "unknown"),
        (2, "person"),
        (3, "unknown"),
    ]
    assert history[0].digest == history[2].digest
    assert len(repository_in(tmp_path).history("tea")) == 3  # looking makes none


def test_versions_are_compared_with_each_other_and_with_what_is_there_now(tmp_path: Path) -> None:
    put_skill(tmp_path)
    write(tmp_path, "tea", "SKILL.md", OTHER)
    write(tmp_path, "tea", "scripts/brew.sh", "#!/bin/sh\necho 茶\n")
    repository = repository_in(tmp_path)
    assert "-Boil water." in repository.compared("tea", 1, 2)
    assert "+Heat water." in repository.compared("tea", 1, 2)
    assert "+echo 茶" in repository.compared("tea", 2)
    assert "scripts/brew.sh may be run" in repository.compared("tea", 2)
    assert repository.compared("tea", 3) == ""
    with pytest.raises(NotFoundError, match="no version 9"):
        repository.compared("tea", 9)


def test_going_back_brings_all_files_as_they_were_and_lets_others_be(tmp_path: Path) -> None:
    folder = put_skill(tmp_path, scripts__a_dot_sh="#!/bin/sh\n", notes="old")
    put_file(folder / ".git" / "HEAD", "ref")
    before = tree(folder)
    write(tmp_path, "tea", "SKILL.md", OTHER)
    write(tmp_path, "tea", "references/deep/x.md", "new")
    (folder / "notes").unlink()
    changes = SkillChanges(repository_in(tmp_path))
    version = changes.make(changes.reverted("tea", 1), By())
    assert version.number == 5  # what had been done by hand is one, too
    assert tree(folder) == before
    assert not (folder / "references").exists()
    version = changes.make(changes.reverted("tea", 3), By())
    assert (folder / "references" / "deep" / "x.md").read_text() == "new"


def test_what_is_removed_comes_back(tmp_path: Path) -> None:
    folder = put_skill(tmp_path, scripts__a_dot_sh="#!/bin/sh\n")
    put_file(tmp_path / "scripts" / "s.sh", "echo\n")
    put_file(tmp_path / "scripts" / "s.sh.toml", "effect = 'read_only'\n")
    put_file(tmp_path / "scripts" / "beside.py", "")
    before = tree(folder)
    changes = SkillChanges(repository_in(tmp_path))
    for name in ("tea", "s.sh"):
        changes.make(changes.removed(name), By())
        with pytest.raises(NotFoundError, match="removed already"):
            changes.removed(name)
    assert not folder.exists()
    assert tree(tmp_path / "scripts") == {"beside.py": b""}
    for name in ("tea", "s.sh"):
        assert repository_in(tmp_path).history(name)[-1].files == ()
        changes.make(changes.reverted(name, 1), By())
    assert tree(folder) == before
    assert set(tree(tmp_path / "scripts")) == {"beside.py", "s.sh", "s.sh.toml"}


def test_versions_can_be_removed_for_good(tmp_path: Path) -> None:
    put_skill(tmp_path, notes="my secret")
    put_skill(tmp_path, "coffee")
    write(tmp_path, "tea", "notes", "nothing")
    write(tmp_path, "coffee", "notes", "kept")
    changes = SkillChanges(repository_in(tmp_path))
    assert changes.purge("tea") == 3
    assert not (tmp_path / ".agents" / "skills" / "tea").exists()
    with pytest.raises(NotFoundError):
        repository_in(tmp_path).history("tea")
    kept = b"".join(tree(tmp_path / "skill-versions").values())
    assert b"my secret" not in kept
    assert b"kept" in kept
    assert len(repository_in(tmp_path).history("coffee")) == 2


def test_a_change_of_what_has_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    folder = put_skill(tmp_path)
    changes = SkillChanges(repository_in(tmp_path))
    change = changes.written("tea", "SKILL.md", OTHER)
    (folder / "SKILL.md").write_text(TEA + "More.\n")
    with pytest.raises(ConflictError, match="changed meanwhile"):
        changes.make(change, By())
    assert (folder / "SKILL.md").read_text() == TEA + "More.\n"
    (folder / "SKILL.md").write_text(TEA)
    put_file(folder / "beside", "x")  # which the change is not about
    changes.make(change, By())


def test_of_two_who_write_at_once_each_makes_a_version_or_is_refused(tmp_path: Path) -> None:
    folder = put_skill(tmp_path)
    changes = SkillChanges(repository_in(tmp_path))
    planned = [changes.written("tea", "SKILL.md", TEA + f"{number}\n") for number in range(8)]
    made: list[int] = []

    def make(change: Change) -> None:
        own = SkillChanges(repository_in(tmp_path))  # as another process has it
        try:
            made.append(own.make(change, By()).number)
        except ConflictError:
            made.append(0)

    threads = [threading.Thread(target=make, args=(change,)) for change in planned]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(made) == [0] * 7 + [2]
    assert len(repository_in(tmp_path).history("tea")) == 2
    assert not list(folder.glob(".rondo*"))


@pytest.mark.parametrize(
    "file",
    ["../x", "/etc/x", "a/../b", ".env", "scripts/.x", "", ".", "a//b", "a\nb", "__pycache__/x",
     "a\\b", "1/2/3/4/5/6", "x" * 201],
)  # fmt: skip
def test_no_path_leads_out_of_a_skill(tmp_path: Path, file: str) -> None:
    put_skill(tmp_path)
    with pytest.raises(InvalidInputError, match="is no path in tea"):
        SkillChanges(repository_in(tmp_path)).written("tea", file, "x")


def test_a_link_in_a_skill_is_not_written_through(tmp_path: Path) -> None:
    folder = put_skill(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    changes = SkillChanges(repository_in(tmp_path))
    change = changes.written("tea", "scripts/a.sh", "x")
    (folder / "scripts").symlink_to(outside)
    with pytest.raises(StorageError, match="leads out of the skill"):
        changes.make(change, By())
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "file", "text", "reason"),
    [
        ("tea", "SKILL.md", "no head", "does not begin with a head"),
        ("tea", "SKILL.md", TEA.replace("name: tea", "name: coffee"), "its folder is called 'tea'"),
        ("tea", "scripts/s.sh.toml", "effect = 1", "effect"),
        ("Tea", "SKILL.md", TEA, "cannot be a new skill"),
        ("../tea", "SKILL.md", TEA, "cannot be a new skill"),
        ("s.sh", "SKILL.md", TEA, "is no path in s.sh"),
    ],
)
def test_what_would_be_no_skill_is_not_written(
    tmp_path: Path, name: str, file: str, text: str, reason: str
) -> None:
    put_skill(tmp_path, scripts__s_dot_sh="")
    put_file(tmp_path / "scripts" / "s.sh", "")
    with pytest.raises(InvalidInputError) as told:
        SkillChanges(repository_in(tmp_path)).written(name, file, text)
    assert reason in str(told.value)


def test_a_new_skill_begins_with_its_text(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no skill 'tea'"):
        SkillChanges(repository_in(tmp_path)).written("tea", "scripts/a.sh", "x")
    assert write(tmp_path, "tea", "SKILL.md", TEA) == 1
    assert write(tmp_path, "tea", "scripts/a.sh", "#!/bin/sh\n") == 2
    assert (tmp_path / ".agents" / "skills" / "tea" / "scripts" / "a.sh").stat().st_mode & 0o100


def test_a_folder_or_a_script_is_added(tmp_path: Path) -> None:
    source = put_skill(tmp_path / "elsewhere", scripts__a_dot_sh="#!/bin/sh\n")
    changes = SkillChanges(repository_in(tmp_path))
    changes.make(changes.added("tea", files_of(source)), By())
    assert tree(tmp_path / ".agents" / "skills" / "tea") == tree(source)
    with pytest.raises(ConflictError, match="there is a skill tea already"):
        changes.added("tea", files_of(source))
    put_file(source / "SKILL.md", OTHER)
    (source / "scripts" / "a.sh").unlink()
    changes.make(changes.added("tea", files_of(source), replace=True), By())
    assert tree(tmp_path / ".agents" / "skills" / "tea") == tree(source)
    put_file(tmp_path / "备份.sh", "echo\n")
    changes.make(changes.added("备份.sh", files_of(tmp_path / "备份.sh"), kind="script"), By())
    assert repository_in(tmp_path).skill("备份.sh").kind == "script"


def bounded(home: Path, bounds: Bounds) -> SkillRepository:
    return SkillRepository(
        scripts=home / "scripts",
        skills=home / ".agents" / "skills",
        versions=VersionStore(home / "skill-versions", bounds=bounds),
    )


@pytest.mark.parametrize("bounds", [Bounds(versions=3), Bounds(total_bytes=3_000)])
def test_the_oldest_versions_go_when_there_are_too_many(tmp_path: Path, bounds: Bounds) -> None:
    folder = put_skill(tmp_path)
    put_skill(tmp_path, "coffee")
    repository = bounded(tmp_path, bounds)
    repository.history("coffee")
    for number in range(12):
        put_file(folder / "notes", f"{number}" * 400)
        assert repository.history("tea")[-1].number == number + 1
    kept = repository.history("tea")
    assert [each.number for each in kept][-1] == 12
    assert 1 <= len(kept) <= 7
    assert len(repository.history("coffee")) == 1  # the newest of each stays
    assert repository.compared("tea", kept[0].number, 12) != ""


def test_what_was_damaged_is_told_and_nothing_is_made_of_it(tmp_path: Path) -> None:
    folder = put_skill(tmp_path)
    write(tmp_path, "tea", "SKILL.md", OTHER)
    repository = repository_in(tmp_path)
    version = repository.history("tea")[0]
    sha = version.files[0].sha256
    (tmp_path / "skill-versions" / "objects" / sha[:2] / sha).write_bytes(b"x")
    with pytest.raises(StorageError, match="is damaged"):
        SkillChanges(repository).reverted("tea", 1)
    (tmp_path / "skill-versions" / "skills" / "tea" / "000002.json").write_bytes(b"{")
    with pytest.raises(StorageError, match="is damaged"):
        repository.history("tea")
    assert (folder / "SKILL.md").read_text() == OTHER
    assert repository.skill("tea").description == "How tea is made."


def test_a_full_disk_leaves_the_skill_as_it_is(tmp_path: Path) -> None:
    folder = put_skill(tmp_path)
    changes = SkillChanges(repository_in(tmp_path))
    change = changes.written("tea", "SKILL.md", OTHER)
    (tmp_path / "skill-versions").write_text("in the way")
    with pytest.raises(StorageError):
        changes.make(change, By())
    assert (folder / "SKILL.md").read_text() == TEA


def test_what_a_killed_process_had_begun_to_write_goes_with_the_next_change(tmp_path: Path) -> None:
    folder = put_skill(tmp_path)
    put_file(folder / ".rondo-begun-x", "half")
    write(tmp_path, "tea", "SKILL.md", OTHER)
    assert set(tree(folder)) == {"SKILL.md"}
    assert [each.path for each in repository_in(tmp_path).history("tea")[-1].files] == ["SKILL.md"]


SWAPPING = """
import sys
from pathlib import Path
from service.tools.skills.skill_changes import By, SkillChanges
from tests.support.tools.skills import repository_in
changes = SkillChanges(repository_in(Path(sys.argv[1])))
print("begun", flush=True)
while True:
    for number in (1, 2):
        changes.make(changes.reverted("tea", number), By())
"""


@pytest.mark.slow
def test_killed_at_any_moment_no_version_is_lost_and_each_can_be_brought_back(
    tmp_path: Path,
) -> None:
    folder = put_skill(tmp_path, a="1", references__b="1")
    before = tree(folder)
    changes = SkillChanges(repository_in(tmp_path))
    files = {"SKILL.md": FileState(OTHER.encode()), "c": FileState(b"2" * 100_000)}
    changes.make(changes.added("tea", files, replace=True), By())
    moments = random.Random(3)
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", SWAPPING, str(tmp_path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0, 0.05))
            process.kill()
        repository = repository_in(tmp_path)
        for version in repository.history("tea"):
            repository.state_of(version)
        changes.make(changes.reverted("tea", 1), By())
        assert tree(folder) == before


def test_a_difference_hides_nothing_of_what_is_no_text_or_long() -> None:
    state = {"a": FileState(b"\x00\xff"), "b": FileState(b"x\n" * 9_000), "c": FileState(b"no end")}
    after = {
        "a": FileState(b"\x00"),
        "b": FileState(b"y\n" * 3_000),
        "c": FileState(b"end", may_run=True),
    }
    words = difference(state, after)
    assert "-[2 bytes that are no text, sha256:" in words
    assert words.count("\n-x") == 9_000
    assert words.count("\n+y") == 3_000
    assert "c may now be run" in words
    assert "-no end\n\\ No newline at end of file\n+end" in words
