"""Taking back what was changed in a file: what it held is there again, or nothing is touched."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from service.memory.file_changes import FileChange, FileChanges
from service.tools.files.file_writer import Caller, FileWriter
from service.tools.files.granted_folders import GrantedFolders
from service.tools.protocol import ToolFailure

CALLER = Caller("me", "loop", "key")
OLD = "一\r\ntwo\r\n".encode("gb18030")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "a.txt").write_bytes(OLD)
    (folder / "a.txt").chmod(0o640)
    return folder


@pytest.fixture
def changes(tmp_path: Path) -> FileChanges:
    return FileChanges(tmp_path / "data" / "file-changes")


@pytest.fixture
def writer(home: Path, changes: FileChanges) -> FileWriter:
    return FileWriter(GrantedFolders((home,)), changes)


def write(writer: FileWriter, path: str, text: str) -> FileChange:
    return writer.carry_out(writer.plan(path, lambda _, form: text), CALLER)


def undo(writer: FileWriter, changes: FileChanges, change: FileChange) -> None:
    writer.undo(*changes.find(change.id, owner="me"))


def test_a_file_holds_again_what_it_held_byte_for_byte(
    home: Path, changes: FileChanges, writer: FileWriter
) -> None:
    first = write(writer, "a.txt", "二\n")
    second = write(writer, "a.txt", "三\n")
    assert [each.id for each in changes.of("me")] == [second.id, first.id]
    assert writer.state_of(first) == "changed"
    with pytest.raises(ToolFailure, match="has been changed, moved or deleted since"):
        undo(writer, changes, first)
    shown = writer.undo_difference(*changes.find(second.id, owner="me"))
    assert shown.splitlines()[3:] == ["-三", "+二"]
    undo(writer, changes, second)
    undo(writer, changes, first)
    assert (home / "a.txt").read_bytes() == OLD
    assert stat.S_IMODE((home / "a.txt").stat().st_mode) == 0o640
    assert changes.of("me") == []


def test_a_new_file_goes(home: Path, changes: FileChanges, writer: FileWriter) -> None:
    change = write(writer, "new.txt", "x\n")
    assert writer.state_of(change) == "written"
    undo(writer, changes, change)
    assert [each.name for each in home.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("how", ["edited", "deleted", "replaced by a link", "a folder"])
@pytest.mark.parametrize("name", ["a.txt", "new.txt"])
def test_what_was_changed_since_is_left_alone(
    home: Path, changes: FileChanges, writer: FileWriter, name: str, how: str
) -> None:
    change = write(writer, name, "x\n")
    path = home / name
    path.unlink()
    if how == "edited":
        path.write_text("mine\n")
    elif how == "replaced by a link":
        (home / "other").write_text("x\n")
        path.symlink_to("other")
    elif how == "a folder":
        path.mkdir()

    def all_that_is_there() -> list[tuple[str, int, int]]:
        return sorted(
            (str(each), each.lstat().st_mode, each.lstat().st_ino) for each in home.iterdir()
        )

    before = all_that_is_there()
    if how == "deleted" and name == "new.txt":
        assert writer.state_of(change) == "undone"
        return
    assert writer.state_of(change) == "changed"
    with pytest.raises(ToolFailure):
        undo(writer, changes, change)
    assert all_that_is_there() == before
    assert len(changes.of("me")) == 1


def test_where_nothing_may_be_written_any_more_nothing_is_taken_back(
    tmp_path: Path, changes: FileChanges, writer: FileWriter
) -> None:
    change = write(writer, "a.txt", "x\n")
    (tmp_path / "elsewhere").mkdir()
    other = FileWriter(
        GrantedFolders((tmp_path / "elsewhere",), setting="tools.files_write"), changes
    )
    assert other.state_of(change) == "out_of_reach"
    with pytest.raises(ToolFailure, match=r"tools\.files_write"):
        undo(other, changes, change)


def test_what_is_kept_is_for_its_user_only_and_bounded(home: Path, tmp_path: Path) -> None:
    changes = FileChanges(tmp_path / "kept", most=3, most_bytes=100_000)
    writer = FileWriter(GrantedFolders((home,)), changes)
    made = [write(writer, "a.txt", f"{number}\n") for number in range(5)]
    assert [each.id for each in changes.of("me")] == [each.id for each in made[:1:-1]]
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "kept").iterdir()} == {0o600}
    write(writer, "a.txt", "x" * 99_000)
    write(writer, "a.txt", "y" * 2_000)
    write(writer, "a.txt", "z\n")
    assert len(changes.of("me")) == 1, "the oldest go where they are too large together"
    (home / "large").write_text("z" * 100_001)
    with pytest.raises(ToolFailure, match="too large to be kept"):
        write(writer, "large", "x")
    assert (home / "large").read_text() == "z" * 100_001


def test_a_change_of_somebody_else_is_not_there(changes: FileChanges, writer: FileWriter) -> None:
    change = write(writer, "a.txt", "x\n")
    for owner, change_id in (("you", change.id), ("me", "../token"), ("me", "*"), ("me", "none")):
        with pytest.raises(Exception, match="there is no change"):
            changes.find(change_id, owner=owner)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.tools.test_undone_files import CALLER, FileChanges, FileWriter, GrantedFolders
home, kept, moment = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
writer = FileWriter(GrantedFolders((home,)), FileChanges(kept))
planned = writer.plan("a.txt", lambda text, form: "new\\n" * 1000)
count = 0
def die(event, arguments):
    global count
    if event in ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.chmod"):
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
writer.carry_out(planned, CALLER)
print("done")
"""


@pytest.mark.slow
def test_killed_at_any_moment_the_file_is_whole_and_can_be_taken_back(
    home: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    new = b"new\r\n" * 1000
    seen = set()
    for moment in range(1, 40):
        command = (sys.executable, "-c", KILLED, str(home), str(kept), str(moment))
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        held = (home / "a.txt").read_bytes()
        assert held in (OLD, new)
        changes = FileChanges(kept)
        writer = FileWriter(GrantedFolders((home,)), changes)
        seen.add(held == OLD)
        if held == new:
            [change] = changes.of("me")
            undo(writer, changes, change)
            assert (home / "a.txt").read_bytes() == OLD
        for change in changes.of("me"):
            assert writer.state_of(change) == "undone"
        write(writer, "b.txt", "what is written next tidies up\n")
        assert sorted(each.name for each in home.iterdir()) == ["a.txt", "b.txt"]
        (home / "b.txt").unlink()
        for change in changes.of("me"):
            changes.remove(change.id)
        if ran.returncode == 0:
            break
    assert seen == {True, False}
    assert ran.stdout == "done\n"
