"""One process owns a data folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.domain.errors import DataFolderInUseError, StorageError
from service.domain.history.events import RunLoopStarted
from service.memory.memory import Memory
from service.storage.data_folder import DataFolder
from tests.support.memory.remembering import run_loop

_OWNER = """
import sys, time
from pathlib import Path
from service.storage.data_folder import DataFolder
folder = DataFolder(Path(sys.argv[1]))
folder.acquire()
print("mine", flush=True)
time.sleep(600)
"""


def test_the_folder_is_made_for_this_user_only(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "deep" / "home") as folder:
        assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_second_one_is_refused_and_told_the_owner(tmp_path: Path) -> None:
    with DataFolder(tmp_path), pytest.raises(DataFolderInUseError) as caught:
        DataFolder(tmp_path).acquire()
    assert str(tmp_path) in caught.value.detail
    assert str(os.getpid()) in caught.value.detail
    assert "stop it" in caught.value.advice


def test_a_released_folder_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        with DataFolder(tmp_path):
            pass
    DataFolder(tmp_path).release()


def test_a_file_in_its_place_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StorageError, match="home"):
        DataFolder(tmp_path / "home").acquire()


@pytest.mark.slow
def test_a_killed_owner_leaves_the_folder_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "mine\n"
            with pytest.raises(DataFolderInUseError, match=str(owner.pid)):
                DataFolder(tmp_path).acquire()
        finally:
            owner.kill()
    with DataFolder(tmp_path):
        pass


@contextmanager
def owned(path: Path) -> Iterator[int]:
    """A folder that another process owns; the number of that."""
    command = [sys.executable, "-c", _OWNER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "mine\n"
            yield owner.pid
        finally:
            owner.kill()


@pytest.mark.slow
def test_deleting_the_lock_file_lets_no_second_one_in(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with owned(home):
        for name in ("rondo.lock", "rondo.pid"):
            (home / name).unlink()
            for _ in range(2):  # a refused one must not leave the way open for the next
                with pytest.raises(DataFolderInUseError) as caught:
                    DataFolder(home).acquire()
                assert "stop it" in caught.value.advice
    with DataFolder(home):
        (home / "rondo.lock").unlink()
        with pytest.raises(DataFolderInUseError, match=str(os.getpid())):
            DataFolder(home).acquire()
    with DataFolder(home):
        pass


@pytest.mark.slow
def test_another_path_to_a_folder_lets_no_second_one_in(tmp_path: Path) -> None:
    home, renamed, link = tmp_path / "home", tmp_path / "renamed", tmp_path / "link"
    with owned(home):
        home.rename(renamed)
        link.symlink_to(renamed)
        for path in (renamed, link, tmp_path / "link" / ".." / "renamed"):
            (path / "rondo.lock").unlink(missing_ok=True)
            with pytest.raises(DataFolderInUseError):
                DataFolder(path).acquire()
    with DataFolder(link):
        pass


@pytest.mark.slow
def test_a_folder_that_is_mounted_twice_lets_no_second_one_in(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    other.mkdir()
    with owned(home):
        mounted = subprocess.run(
            ["mount", "--bind", str(home), str(other)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("mounting is not allowed here")
        try:
            (other / "rondo.lock").unlink()
            with pytest.raises(DataFolderInUseError):
                DataFolder(other).acquire()
        finally:
            subprocess.run(["umount", str(other)], check=True)


def test_a_folder_that_others_could_read_is_closed_to_them_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    with DataFolder(tmp_path):
        assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert "open to other users" in caplog.text


def test_a_shared_folder_stays_open_to_all(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with DataFolder(tmp_path):
        assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_what_stands_in_the_way_of_the_folder_is_told_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path, words in (
        ("file", "file is a file, not a folder"),
        ("file/home", "file is a file, not a folder"),
        ("dangling", "dangling is a link that leads nowhere"),
        ("circle/home", "circle is a link that leads nowhere or in a circle"),
    ):
        with pytest.raises(StorageError, match=words) as caught:
            DataFolder(tmp_path / path).acquire()
        assert caught.value.title == "The data folder cannot be used"


def test_a_folder_in_place_of_the_lock_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "rondo.lock").mkdir()
    with pytest.raises(StorageError, match=r"rondo\.lock is a folder, not a file"):
        DataFolder(tmp_path).acquire()


@pytest.mark.anyio
async def test_a_journal_that_was_lost_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        await memory.journal.append("r", RunLoopStarted(goal="Bern"), owner="me")
        await memory.long_term.archive(run_loop("r", ("Where is Bern?", "In Switzerland.")))
    journal = tmp_path / "journal.sqlite3"
    kept = journal.read_bytes()
    for lost in (journal.unlink, lambda: journal.write_bytes(b"")):
        lost()
        with pytest.raises(StorageError, match="missing or empty") as caught:
            await Memory(tmp_path, None).__aenter__()
        assert "from a backup" in caught.value.advice
        assert "memory.sqlite3*" in caught.value.advice
    journal.write_bytes(kept)
    async with Memory(tmp_path, None) as memory:
        assert memory.journal.last_seq == 1
    journal.unlink()
    (tmp_path / "memory.sqlite3").unlink()
    async with Memory(tmp_path, None) as memory:
        assert memory.journal.last_seq == 0
