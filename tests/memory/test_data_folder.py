"""One process owns a data folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.domain.errors import DataFolderInUseError, StorageError
from service.memory.data_folder import DataFolder

_OWNER = """
import sys, time
from pathlib import Path
from service.memory.data_folder import DataFolder
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
